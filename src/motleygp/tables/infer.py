"""The likelihood of an output, inferred from its values: `outputs="auto"`.

A likelihood that claims the output (`AbstractLikelihood.claims`) is taken. Otherwise
the first of these rules that applies decides:

1. Two values: Bernoulli if they are 0 and 1. Any other two are Gaussian, with the
   advice to code them as 0 and 1.
2. Whole numbers, none negative: Poisson, unless they cannot be its counts, or hardly
   are. Whatever the rates are, the variance of Poisson counts is at least their mean,
   and their share of zeros at least exp(-mean). A variance of more than ten times the
   mean is seldom explained by inputs alone; values in the thousands are amounts rather
   than counts; and if nearly all values are above 25, a normal fits as well and learns
   its noise. Such values go on to the rules below.
3. A few levels that repeat: Gaussian. A density with a function for its width would
   grow without bound as the width shrinks onto a level.
4. Between 0 and 1, and not all tiny: Beta, whose support is open; real if any value is
   0 or 1.
5. Positive: Gamma if it fits clearly better than a normal, unless the values are far
   from 0, where the two agree.
6. Anything else is real: HetGaussian if there are enough rows to learn a varying
   noise, else Gaussian.

The rules see the values without their inputs, so they cannot tell a spread or a shape
that the inputs explain from that of the noise. If another likelihood is about as
plausible, there is a warning; the table of all choices gives the reasons. Scaling a
column changes its choice only where the unit has a meaning: for whole numbers, and
between 0 and 1.
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
    """Other possible likelihoods, the most plausible first."""
    warning: str | None
    """A sentence if the values leave a doubt, else `None`."""


def infer_outputs(columns: Mapping[str, tuple[np.ndarray, str]]) -> list[Choice]:
    """The choice for each column; `columns` has the values and the kind by name."""
    return [infer_column(name, *column) for name, column in columns.items()]


def infer_column(name: str, values: np.ndarray, kind: str) -> Choice:
    """The likelihood of one output, by the rules above.

    `values` are numbers, NaN where missing; `kind` is their original type: "bool",
    "integer" or "real". Whole numbers in a real column count as such too: an integer
    column with gaps, or next to real columns in a matrix, arrives as a real one.
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
    """The choices and their reasons as a table for `rich`."""
    shown = Table()
    shown.add_column("output", overflow="fold")
    shown.add_column("likelihood", no_wrap=True)
    shown.add_column("reason", overflow="fold")
    shown.add_column("alternatives")
    for choice in choices:
        others = ", ".join(choice.alternatives) or "none"
        cells = (choice.name, choice.likelihood, choice.reason, others)
        # `Text`, not `str`: brackets in a column's name are not markup.
        shown.add_row(*(Text(cell) for cell in cells))
    return shown


def warn(choices: Sequence[Choice]) -> None:
    """Issue a `UserWarning` for each choice in doubt, with a way to change it.

    It points at the caller of `fit`, two calls above this one.
    """
    for choice in choices:
        if choice.warning is None:
            continue
        name = json.dumps(choice.name, ensure_ascii=False)
        other = next(iter(choice.alternatives), choice.likelihood)
        purpose = "change" if choice.alternatives else "confirm"
        warnings.warn(
            f"{name} is modelled as {choice.likelihood}. {choice.warning} "
            f'To {purpose} this choice, pass outputs={{{name}: "{other}"}}.',
            stacklevel=4,
        )


def _observed(name: str, values: np.ndarray, kind: str) -> np.ndarray:
    """The observed values, sorted, or a `ValueError` that says what is wrong."""
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
    # The last digits of a sum depend on the order of its terms; the choice must not.
    return np.sort(y)
