"""The likelihood of an output, inferred from its values: `outputs="auto"`.

A likelihood that claims the output (`AbstractLikelihood.claims`) is taken. Otherwise
the first of these rules that applies decides:

1. Two values: Bernoulli if they are 0 and 1. Any other two are taken as real, with the
   advice to code them as 0 and 1.
2. Whole numbers, none negative: Poisson, unless they cannot be counts. Whatever its
   rate does, a Poisson's variance is not below its mean and its share of zeros not
   below exp(-mean); values in the thousands are amounts rather than counts. What
   cannot be counts goes on to the rules below.
3. A few levels, seen again and again: Gaussian. Densities whose width has a function
   of its own grow without bound where that width shrinks onto one level.
4. Between 0 and 1, and not all tiny: Beta, whose support is open; real if any value is
   0 or 1.
5. Positive: Gamma if it fits clearly better than a normal, unless the values are far
   from 0, where the two agree.
6. Anything else is real: with a varying noise, given enough rows to learn it from.

All this looks at the values without their inputs, and cannot tell a spread or a shape
that the inputs explain from one of the noise. Where two likelihoods would do, there is
a warning; the table of all choices says what was seen. Scaling a column changes its
choice only where a unit has a meaning: in whole numbers, and between 0 and 1.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from motleygp import likelihoods as lik
from motleygp.tables._rules import extremes, judge, number

KINDS = ("bool", "integer", "real")


class Choice(NamedTuple):
    """The likelihood chosen for one output, and why."""

    name: str
    likelihood: str
    """A key of `motleygp.likelihoods.BY_NAME`."""
    reason: str
    alternatives: tuple[str, ...]
    """Likelihoods that would also do, the most plausible first."""
    warning: str | None
    """A sentence, where the values leave a doubt."""


def infer_outputs(columns: Mapping[str, tuple[np.ndarray, str]]) -> list[Choice]:
    """A choice for each column: its values, and its kind, by its name."""
    return [infer_column(name, *column) for name, column in columns.items()]


def infer_column(name: str, values: np.ndarray, kind: str) -> Choice:
    """The likelihood of one output, by the rules above.

    `values` are numbers, NaN where missing; `kind` is what they were before: "bool",
    "integer" or "real". Whole numbers count as such in a real column too: an integer
    column with gaps, or next to real ones in a matrix, has become real on its way.
    """
    y = _observed(name, values, kind)
    for claimant in lik.BY_NAME.values():
        if (claim := claimant.claims(y, kind)) is not None:
            return Choice(name, claimant.name, claim, (), None)
    likelihood, reason, alternatives, doubts = judge(y, kind)
    doubts += extremes(y)
    warning = None
    if doubts:
        warning = "; ".join(doubts) + "."
        warning = warning[0].upper() + warning[1:]
    return Choice(name, likelihood, reason, alternatives, warning)


def table(choices: Sequence[Choice]) -> Table:
    """What was chosen, and why, for `rich` to print."""
    shown = Table()
    shown.add_column("output", overflow="fold")
    shown.add_column("likelihood", no_wrap=True)
    shown.add_column("why", overflow="fold")
    shown.add_column("would also do")
    for choice in choices:
        others = ", ".join(choice.alternatives) or "none"
        cells = (choice.name, choice.likelihood, choice.reason, others)
        # Text, not str: brackets in a column's name are no markup.
        shown.add_row(*(Text(cell) for cell in cells))
    return shown


def warn(choices: Sequence[Choice]) -> None:
    """A `UserWarning` for each choice in doubt, which says how to choose otherwise.

    It points at the caller's caller: who called `fit`.
    """
    for choice in choices:
        if choice.warning is None:
            continue
        name = json.dumps(choice.name, ensure_ascii=False)
        other = next(iter(choice.alternatives), choice.likelihood)
        purpose = "choose otherwise" if choice.alternatives else "settle on it"
        warnings.warn(
            f"{name} is taken as {choice.likelihood}. {choice.warning} "
            f'To {purpose}: outputs={{{name}: "{other}"}}.',
            stacklevel=3,
        )


def _observed(name: str, values: np.ndarray, kind: str) -> np.ndarray:
    """The values that are there, or a `ValueError` that says what is wrong."""
    if kind not in KINDS:
        raise ValueError(
            f"the kind of output {name!r} must be one of {', '.join(KINDS)}; "
            f"got {kind!r}."
        )
    values = np.asarray(values, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"output {name!r} must be a vector; got {values.shape}.")
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        row = infinite[0]
        raise ValueError(
            f"output {name!r} must be finite; got {values[row]} in row {row}."
        )
    y = values[~np.isnan(values)]
    if not len(y):
        raise ValueError(f"output {name!r} must have observed values; got none.")
    if len(y) == 1:
        raise ValueError(f"output {name!r} must vary; got 1 sample.")
    if (y == y[0]).all():
        raise ValueError(
            f"output {name!r} must vary; every observed value is {number(y[0])}."
        )
    # Sums depend on the order of their terms, in the last digits: the choice must not.
    return np.sort(y)
