"""The facts of a report: the model, the scored rows and their scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motleygp.inference import Observations
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.chunks import some_places
from motleygp.prediction import (
    AbstractPredictive,
    Fitted,
    Seen,
    distributions,
    inspection,
    metrics,
)
from motleygp.reporting._labels import Labels
from motleygp.tables.infer import Choice

# By default: the values to score in all outputs together, and the smallest and the
# largest number of rows.
_VALUES, _FEWEST, _MOST = 10_000, 250, 2000


class Scored(NamedTuple):
    """The observed values of one output in the scored rows, and their predictions."""

    rows: list[str]
    """The labels of the values' rows: those of the user's index, or their numbers."""
    x: np.ndarray
    y: np.ndarray
    p: AbstractPredictive
    mean: np.ndarray
    log_prob: np.ndarray
    log_marginal: np.ndarray
    """The log density of each value under the constant fit."""
    log_independent: np.ndarray | None
    """The log density of each value under a model of this output alone."""
    pit: np.ndarray
    scores: dict[str, float]


class Output(NamedTuple):
    """One output of the model."""

    name: str
    likelihood: AbstractLikelihood
    functions: tuple[int, ...]
    classes: tuple[Any, Any] | None
    seen: Seen
    choice: Choice | None
    scored: Scored | None


class Facts(NamedTuple):
    """All facts of a report."""

    fitted: Fitted
    labels: Labels
    seed: int | None
    outputs: list[Output]
    num_rows: int
    """The number of rows in the data of the report; 0 without data."""
    num_scored: int
    rows: np.ndarray
    """The inputs of the data; without data, the inducing points."""
    with_data: bool
    outside: np.ndarray
    """For each input, the share of rows outside its training range."""
    relevance: pd.DataFrame
    """How much each function varies with each input."""
    sharing: pd.DataFrame | None
    """What sharing is worth: the table of `compare_independent`."""

    @property
    def compared(self) -> bool:
        """Whether the outputs were also scored under models of one output each."""
        scored = [output.scored for output in self.outputs]
        return any(s is not None and s.log_independent is not None for s in scored)


def gather(
    fitted: Fitted,
    observed: Observations | None,
    labels: Labels,
    alone: Mapping[str, Fitted] | None,
    max_rows: int | None,
    seed: int | None,
    watch: Callable[[Sequence[Any]], Any],
    sharing: pd.DataFrame | None = None,
) -> Facts:
    """The facts of a fitted model, scored on `observed`."""
    if max_rows is None:
        share = _VALUES // len(fitted.outputs)
        max_rows = min(max(share, _FEWEST), _MOST)
    every: list[Scored | None] = [None] * len(fitted.outputs)
    if observed is not None:
        every = _score_all(fitted, observed, labels, alone, max_rows, watch)
    if observed is None:
        inducing = fitted.theta()["inducing"]
        rows, num_rows = inducing.reshape(-1, inducing.shape[-1]), 0
    else:
        rows = np.concatenate(observed.distinct_inputs())
        num_rows = max(map(len, observed.xs))
    low, high = fitted.input_range
    room = 0.01 * (high - low)
    outside = np.mean((rows < low - room) | (rows > high + room), axis=0)
    return Facts(
        fitted=fitted,
        labels=labels,
        seed=seed,
        outputs=_outputs(fitted, every),
        num_rows=num_rows,
        num_scored=min(num_rows, max_rows),
        rows=rows,
        with_data=observed is not None,
        outside=outside if observed is not None else np.zeros_like(low),
        relevance=inspection.relevance(fitted),
        sharing=sharing,
    )


def _outputs(fitted: Fitted, scored: Sequence[Scored | None]) -> list[Output]:
    choices = {choice.name: choice for choice in fitted.choices}
    return [
        Output(
            name,
            fitted.model.likelihoods[d],
            fitted.model.blocks[d],
            fitted.classes[d],
            fitted.seen[d],
            choices.get(name),
            scored[d],
        )
        for d, name in enumerate(fitted.outputs)
    ]


def _score_all(
    fitted: Fitted,
    observed: Observations,
    labels: Labels,
    alone: Mapping[str, Fitted] | None,
    max_rows: int,
    watch: Callable[[Sequence[Any]], Any],
) -> list[Scored | None]:
    """The scores of each output on up to `max_rows` rows; `None` without values."""
    xs = observed.xs
    exposures = [observed.exposure(d) for d in range(len(xs))]
    # Outputs with shared inputs use the same rows, so that one pass predicts all.
    chosen = [some_places(len(x), max_rows) for x in xs]
    every = None
    if observed.shared:
        every = _predict(fitted, xs[0], exposures, chosen[0])
    found: list[Scored | None] = []
    for d in watch(range(len(xs))):
        name, rows = fitted.outputs[d], chosen[d]
        alike = [exposures[d]] * len(xs)
        p = (every or _predict(fitted, xs[d], alike, rows))[name]
        known = ~np.isnan(observed.ys[d][rows])
        if not known.any():
            found.append(None)
            continue
        single = None
        if alone is not None:
            every_row = _predict(alone[name], xs[d], [exposures[d]], rows)
            single = every_row[name][known]
        kept = rows[known]
        y, x = observed.ys[d][kept], xs[d][kept]
        marginal = fitted.seen[d].log_prob(y, exposures[d][kept])
        own = labels.rows(name, kept)
        found.append(_scored(own, x, y, p[known], marginal, single))
    return found


def _predict(
    fitted: Fitted, x: np.ndarray, exposures: Sequence[np.ndarray], rows: np.ndarray
) -> dict[str, AbstractPredictive]:
    own = [exposure[rows] for exposure in exposures]
    return distributions(fitted, x[rows], exposures=own)


def _scored(
    rows: list[str],
    x: np.ndarray,
    y: np.ndarray,
    p: AbstractPredictive,
    log_marginal: np.ndarray,
    alone: AbstractPredictive | None,
) -> Scored:
    # The mean and the cdf are computed once; `metrics` would repeat them every time.
    pit, mean = metrics.pit(p, y), p.mean
    scores = {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "crps": metrics.crps(p, y),
        "coverage95": float(np.mean(np.abs(2.0 * pit - 1.0) <= 0.95)),
    }
    if p.likelihood.discrete:
        scores["coverage95"] = metrics.coverage(p, y)
    if p.likelihood.binary:
        scores["accuracy"] = float(np.mean((mean > 0.5) == (y == 1)))
    return Scored(
        rows=rows,
        x=x,
        y=y,
        p=p,
        mean=mean,
        log_prob=p.log_prob(y),
        log_marginal=log_marginal,
        log_independent=None if alone is None else alone.log_prob(y),
        pit=pit,
        scores=scores,
    )
