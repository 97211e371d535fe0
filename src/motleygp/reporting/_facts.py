"""What a report tells, as numbers: the model, the rows it is scored on, its scores."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motleygp.estimator.fitting import Observations
from motleygp.estimator.independent import IndependentGPs
from motleygp.likelihoods import AbstractLikelihood, Bernoulli
from motleygp.prediction import metrics
from motleygp.prediction.diagrams import some_places
from motleygp.prediction.predictive import AbstractPredictive
from motleygp.prediction.seen import Seen
from motleygp.tables.infer import Choice

# Values to score by default, in all outputs, and rows of one at least and at most.
_VALUES, _FEWEST, _MOST = 10_000, 250, 2000


class Scored(NamedTuple):
    """The observed values of one output among the scored rows, and what was said of
    them."""

    rows: np.ndarray
    """Their places in the table that was given."""
    x: np.ndarray
    y: np.ndarray
    p: AbstractPredictive
    mean: np.ndarray
    log_prob: np.ndarray
    log_marginal: np.ndarray
    """The log density under the constant fit."""
    log_independent: np.ndarray | None
    """The same under a model of this output alone."""
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
    """Everything that the page is made of."""

    model: Any
    features: list[str]
    outputs: list[Output]
    num_rows: int
    """Rows of the table that was given, 0 for none."""
    num_scored: int
    rows: np.ndarray
    """Inputs of rows like those given: of the scored ones, or of inducing points."""
    with_data: bool
    outside: np.ndarray
    """The share of the rows beyond the inputs of the fit, by input."""
    relevance: pd.DataFrame
    """How much each function varies with each input."""


def gather(
    model: Any,
    observed: Observations | None,
    independent: IndependentGPs | None,
    max_rows: int | None,
    watch: Callable[[Sequence[Any]], Any],
) -> Facts:
    """All facts of a fitted model, scored on `observed`."""
    if max_rows is None:
        share = _VALUES // len(model.output_names_)
        max_rows = min(max(share, _FEWEST), _MOST)
    choices = {choice.name: choice for choice in model.choices_}
    every = [None] * len(model.output_names_)
    if observed is not None:
        every = _score_all(model, observed, independent, max_rows, watch)
    outputs = [
        Output(
            name,
            model.model_.likelihoods[d],
            tuple(model.model_.blocks[d]),
            model.classes_[name],
            model.seen_[name],
            choices.get(name),
            every[d],
        )
        for d, name in enumerate(model.output_names_)
    ]
    if observed is None:
        inducing = model._theta()["inducing"]
        rows, num_rows = inducing.reshape(-1, inducing.shape[-1]), 0
    else:
        rows = observed.xs[0]
        if not observed.shared:
            rows = np.concatenate(observed.xs)
        num_rows = max(map(len, observed.xs))
    low, high = model.input_range_
    room = 0.01 * (high - low)
    outside = np.mean((rows < low - room) | (rows > high + room), axis=0)
    return Facts(
        model=model,
        features=model._features(),
        outputs=outputs,
        num_rows=num_rows,
        num_scored=min(num_rows, max_rows),
        rows=rows,
        with_data=observed is not None,
        outside=outside if observed is not None else np.zeros_like(low),
        relevance=model.relevance(),
    )


def _score_all(
    model: Any,
    observed: Observations,
    independent: IndependentGPs | None,
    max_rows: int,
    watch: Callable[[Sequence[Any]], Any],
) -> list[Scored | None]:
    """Of each output that has values, up to `max_rows` of them."""
    xs, shared = observed.xs, observed.shared
    exposures = observed.exposures or [np.ones(len(x)) for x in xs]
    # The same rows for every output, whose predictions then are one pass.
    chosen = [some_places(len(x), max_rows) for x in xs]
    every = _predict(model, xs[0], exposures, chosen[0]) if shared else None
    found: list[Scored | None] = []
    for d in watch(range(len(xs))):
        name, rows = model.output_names_[d], chosen[d]
        own = [exposures[d]] * len(xs)
        p = (every or _predict(model, xs[d], own, rows))[name]
        known = ~np.isnan(observed.ys[d][rows])
        if not known.any():
            found.append(None)
            continue
        alone = None
        if independent is not None:
            single = independent.models_[name]
            alone = _predict(single, xs[d], [exposures[d]], rows)[name][known]
        kept = rows[known]
        y, x = observed.ys[d][kept], xs[d][kept]
        marginal = model.seen_[name].log_prob(y, exposures[d][kept])
        found.append(_scored(kept, x, y, p[known], marginal, alone))
    return found


def _predict(
    model: Any, x: np.ndarray, exposures: Sequence[np.ndarray], rows: np.ndarray
) -> dict[str, AbstractPredictive]:
    own = [exposure[rows] for exposure in exposures]
    return model._distributions(x[rows], (), own, [model._fitted], show=False)


def _scored(
    rows: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    p: AbstractPredictive,
    log_marginal: np.ndarray,
    alone: AbstractPredictive | None,
) -> Scored:
    # Mean and cdf are taken once: the scores of `metrics` would take them anew.
    pit, mean = metrics.pit(p, y), p.mean
    scores = {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "crps": metrics.crps(p, y),
        "coverage95": float(np.mean(np.abs(2.0 * pit - 1.0) <= 0.95)),
    }
    if p.likelihood.discrete:
        scores["coverage95"] = metrics.coverage(p, y)
    if isinstance(p.likelihood, Bernoulli):
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
