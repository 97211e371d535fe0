"""The constant fit as the yardstick of a run."""

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from motleygp.inference.data import columns_of
from motleygp.likelihoods import constant_log_prob, fit_constant
from motleygp.training.restarts import Outcome, Task

# A run of fewer iterations may still be on its way; another start would be too.
_ENOUGH = 500


def constant_score(task: Task) -> float:
    """The score of the constant fit to the training rows, as that of an `Outcome`: its
    NLPD on the held-out rows, or minus its log likelihood if there are none."""
    fits = {
        c.output: fit_constant(task.likelihoods[c.output], c.y, c.exposure, c.weight)
        for c in columns_of(task.data)
    }
    scored = task.data if task.held_out is None else task.held_out
    total, means = 0.0, []
    for c in columns_of(scored):
        logs = constant_log_prob(*fits[c.output], c.y, c.exposure)
        means.append(float(np.average(logs, weights=c.weight)))
        total += float(np.sum(logs if c.weight is None else c.weight * logs))
    return -total if task.held_out is None else -float(np.mean(means))


def learnt(outcomes: Sequence[Outcome], task: Task) -> bool:
    """Whether the best run is better than the constant fit."""
    return min(outcome.score for outcome in outcomes) < constant_score(task)


def worth_another(outcomes: Sequence[Outcome], task: Task) -> bool:
    """Whether the runs had the time to learn, so that another start may do better."""
    ends = {outcome.ended for outcome in outcomes}
    long = task.num_steps >= _ENOUGH or task.scheme.polish > 0
    return long and ends <= {"horizon", "converged", "held-out"}


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
