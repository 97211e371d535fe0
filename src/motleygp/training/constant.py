"""The constant fit as the yardstick of a run."""

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from motleygp.inference.data import Block, Dataset
from motleygp.likelihoods import constant_log_prob, fit_constant
from motleygp.training.restarts import Outcome, Task

# A run of fewer iterations may still be on its way; another start would be too.
_ENOUGH = 500


def constant_score(task: Task) -> float:
    """The score of the constant fit to the training rows, as that of an `Outcome`: its
    NLPD on the held-out rows, or minus its log likelihood if there are none."""
    fits = {
        d: fit_constant(task.likelihoods[d], y, exposure)
        for d, y, exposure, _ in _columns(task.data)
    }
    scored = task.data if task.held_out is None else task.held_out
    total, means = 0.0, []
    for d, y, exposure, weight in _columns(scored):
        logs = weight * constant_log_prob(*fits[d], y, exposure)
        total += float(np.sum(logs))
        means.append(float(np.sum(logs) / np.sum(weight)))
    return -total if task.held_out is None else -float(np.mean(means))


def _columns(
    data: Dataset,
) -> list[tuple[int, np.ndarray, np.ndarray | None, np.ndarray]]:
    """The number, values, exposures and weights of every output."""

    def row(block: Block, place: int) -> tuple:
        y = np.asarray(block.y[place])
        exposure = weight = None
        if block.log_exposure is not None:
            exposure = np.exp(np.asarray(block.log_exposure[place]))
        if block.weight is not None:
            weight = np.asarray(block.weight[place])
        return y, exposure, np.ones(len(y)) if weight is None else weight

    return [
        (d, *row(block, place))
        for block in data
        for place, d in enumerate(block.outputs)
    ]


def learnt(outcomes: Sequence[Outcome], task: Task) -> bool:
    """Whether the best run is better than the constant fit."""
    return min(outcome.score for outcome in outcomes) < constant_score(task)


def worth_another(outcomes: Sequence[Outcome], task: Task) -> bool:
    """Whether the runs had the time to learn, so that another start may do better."""
    ends = {outcome.ended for outcome in outcomes}
    return task.num_steps >= _ENOUGH and ends <= {"horizon", "held-out"}


def warn_if_not_learnt(outcomes: Sequence[Outcome], task: Task) -> None:
    """Warn if no run is better than the constant fit, with both scores."""
    score, constant = min(o.score for o in outcomes), constant_score(task)
    if score < constant:
        return
    rows, what = "training", "minus the bound"
    if task.held_out is not None:
        rows, what = "held-out", "NLPD"
    advice = "raise `max_iter`"
    if worth_another(outcomes, task):
        advice = "the inputs may say nothing about the outputs, or try more `restarts`"
    warnings.warn(
        f"the model is no better than the constant fit on the {rows} rows: {what} is "
        f"{score:.6g}, against {constant:.6g}; {advice}.",
        ConvergenceWarning,
        stacklevel=3,
    )
