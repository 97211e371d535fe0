"""The tables of a report: captions, headers and rows of text."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motleygp.optim import Scheme
from motleygp.prediction import inspection
from motleygp.reporting._facts import Facts, Output
from motleygp.reporting._format import careful_percent, shown
from motleygp.reporting._remarks import surprising

_ENDED = {
    "horizon": "all iterations were completed",
    "converged": "the bound stopped improving",
    "held-out": "the score of the held-out rows stopped improving",
    "callback": "the callback ended it",
    "time": "the time limit was reached",
    "interrupted": "it was interrupted",
}
_NO_VALUES = "no values"
# What sharing does, and the standard errors of a gain that chance hardly explains.
HELPS, HARMS = "helps", "harms"
_CLEAR = 2.0
# Rows in a table of the least expected values.
_SURPRISING = 5


class Table(NamedTuple):
    """A table. The first cell of each row names it; the columns numbered in `texts`
    hold text, the others numbers."""

    caption: str
    header: list[str]
    rows: list[list[str]]
    texts: tuple[int, ...]


def _table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    texts: tuple[int, ...] = (0,),
) -> Table:
    return Table(
        caption, list(header), [[shown(cell) for cell in row] for row in rows], texts
    )


def summary(facts: Facts) -> list[tuple[str, str]]:
    """The numbers at the top of the page, by name."""
    entries: dict[str, Any] = {
        "outputs": len(facts.outputs),
        "inputs": len(facts.fitted.inputs),
        "training rows": max(output.seen.rows for output in facts.outputs),
        "iterations": len(facts.fitted.trace["iteration"]),
    }
    scored = [o.scored for o in facts.outputs if o.scored is not None]
    if scored:
        ours = np.mean([-s.log_prob.mean() for s in scored])
        marginal = np.mean([-s.log_marginal.mean() for s in scored])
        entries["scored rows"] = facts.num_scored
        entries["mean NLPD"] = float(ours)
        entries["mean marginal NLPD"] = float(marginal)
    return [(name, shown(value)) for name, value in entries.items()]


# Data.


def outputs(facts: Facts) -> Table:
    """The outputs, their likelihoods and their training values."""
    return _table(
        "Outputs of the model",
        ("output", "likelihood", "training values", "missing", "reason for the choice"),
        [
            (
                o.name,
                o.likelihood.name,
                o.seen.observed,
                careful_percent(1.0 - o.seen.observed / o.seen.rows),
                _reason(o),
            )
            for o in facts.outputs
        ],
        texts=(0, 1, 4),
    )


def _reason(output: Output) -> str:
    """The reason for a likelihood, and which label is which."""
    reason = output.choice.reason if output.choice else "given by the user"
    if output.classes in (None, (False, True)) or not output.likelihood.binary:
        return reason
    zero, one = output.classes
    return f"{reason}; {one} counts as 1 (true), {zero} as 0 (false)"


def inputs(facts: Facts) -> Table:
    """The ranges of the inputs, in training and in the data of the report."""

    def own_units(row: np.ndarray) -> list[Any]:
        cells = np.atleast_2d(row).T
        return [facts.labels.along(p, cell)[0] for p, cell in enumerate(cells)]

    low, high = facts.fitted.input_range
    header = ["input", "training minimum", "training maximum"]
    columns: list[Sequence[Any]] = [facts.fitted.inputs, own_units(low)]
    columns.append(own_units(high))
    if facts.with_data:
        header += ["minimum here", "maximum here", "rows outside"]
        columns.append(own_units(facts.rows.min(axis=0)))
        columns.append(own_units(facts.rows.max(axis=0)))
        columns.append([careful_percent(share) for share in facts.outside])
    return _table("Inputs", header, zip(*columns, strict=True))


def values(facts: Facts, ys: Sequence[np.ndarray]) -> Table:
    """The values of each output in the data of the report."""
    return _table(
        "Values in the data of this report",
        ("output", "values", "missing", "minimum", "median", "maximum", "mean"),
        [_described(o, y) for o, y in zip(facts.outputs, ys, strict=True)],
    )


def _described(output: Output, y: np.ndarray) -> list[Any]:
    known = y[~np.isnan(y)]
    row = [output.name, len(known), careful_percent(1.0 - len(known) / len(y))]
    if not len(known):
        return [*row, *[_NO_VALUES] * 4]
    return [*row, known.min(), np.median(known), known.max(), known.mean()]


# Scores.


def scores(facts: Facts) -> Table:
    """The scores of each output, beside those of the models to compare with."""
    header = ["output", "values", "NLPD", "marginal", "gain"]
    header += ["independent"] if facts.compared else []
    header += ["RMSE", "CRPS", "coverage 95 %"]
    header += ["accuracy"] if any(o.likelihood.binary for o in facts.outputs) else []
    # Rows without an accuracy in a table with that column.
    rows = [
        [*row, *["not binary"] * (len(header) - len(row))]
        for row in (_score_row(o, facts.compared) for o in facts.outputs)
    ]
    return _table("Scores, in the units of the data", header, rows)


def _score_row(output: Output, compared: bool) -> list[Any]:
    """The scores of an output; the accuracy only of a binary one."""
    scored = output.scored
    if scored is None:
        absent = 6 + compared + output.likelihood.binary
        return [output.name, 0, *[_NO_VALUES] * absent]
    ours, marginal = -scored.log_prob.mean(), -scored.log_marginal.mean()
    row: list[Any] = [output.name, len(scored.y), ours, marginal, marginal - ours]
    if compared:
        assert scored.log_independent is not None
        row.append(-scored.log_independent.mean())
    scores = scored.scores
    row += [scores["rmse"], scores["crps"], careful_percent(scores["coverage95"])]
    if "accuracy" in scores:
        row.append(careful_percent(scores["accuracy"]))
    return row


def surprises(output: Output) -> Table | None:
    """The least expected values of an output; none for a binary one."""
    scored = output.scored
    if scored is None or output.likelihood.binary:
        return None
    return _table(
        f"The least expected values of {output.name}, and the probability of a value "
        "at least as extreme",
        ("row", "value", "predicted mean", "probability"),
        [
            (
                str(scored.rows[place]),
                scored.y[place],
                scored.mean[place],
                2.0 * min(scored.pit[place], 1.0 - scored.pit[place]),
            )
            for place in surprising(scored, _SURPRISING)
        ],
    )


def sharing(frame: pd.DataFrame) -> Table:
    """What sharing is worth for each output and on average, in numbers and words."""
    header = ["output", "values", "NLPD", "independent", "gain", "standard error"]
    return _table(
        "The joint model and one model per output, on rows that neither had seen",
        [*header, "sharing"],
        [
            (name, int(values), *scores, verdict(*scores[-2:]))
            for name, values, *scores in frame.itertuples()
        ],
        texts=(0, 6),
    )


def verdict(gain: float, error: float) -> str:
    """Whether sharing helps, if chance does not explain the gain."""
    if not np.isfinite([gain, error]).all():
        return "unknown"
    if abs(gain) <= _CLEAR * error:
        return "no clear difference"
    return HELPS if gain > 0.0 else HARMS


# The model and its training.


def _scheme_name(scheme: Scheme) -> str:
    moves = (scheme.q, "q(u)"), (scheme.theta, "theta")
    return ", ".join(f"{by.name.replace('_', ' ')} on {what}" for by, what in moves)


def training(facts: Facts) -> Table:
    """The settings of training and its course."""
    fitted, trace = facts.fitted, facts.fitted.trace
    prior = fitted.model.prior
    groups, num_inducing, _ = prior.inducing.shape
    rows = [
        ("prior", prior.name),
        ("latent processes", len(prior.rank)),
        ("inducing points", f"{num_inducing} in each of {groups} groups"),
        ("optimizer", _scheme_name(fitted.scheme)),
        ("iterations", len(trace["iteration"])),
        ("reason for ending", _ENDED.get(fitted.ended, fitted.ended)),
        ("shortened steps of q(u)", int(np.sum(trace["shrunk"] > 0))),
        ("refused steps of q(u)", int(np.sum(trace["refused"] > 0))),
        ("refused draws of theta", int(np.sum(trace["theta_refused"] > 0))),
        ("starts", len(fitted.starts)),
        ("seed", "none: it was random" if facts.seed is None else str(facts.seed)),
    ]
    header = ("property", "value")
    return _table("How the model was trained", header, rows, texts=(0, 1))


def lengthscales(facts: Facts) -> Table:
    """The length-scales of each latent process."""
    frame = inspection.lengthscales(facts.fitted)
    names = [
        f"{name} (days)" if p in facts.labels.dates else name
        for p, name in enumerate(facts.fitted.inputs)
    ]
    return _table(
        "Length-scales of the latent processes, in the units of the inputs",
        ("process", *names),
        [(name, *row) for name, *row in frame.itertuples()],
    )
