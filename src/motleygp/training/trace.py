"""The trace of a run: the reports of its steps, by name."""

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from motleygp.training.one_step import StepInfo
from motleygp.training.state import TrainState

# Refused steps up to this share of a run are not worth a warning.
_REFUSED_SHARE = 0.05
# The number of refused draws of theta in a row after which a run is stuck.
_STUCK = 50


class Run(NamedTuple):
    """A run, ended or in progress.

    `start` is the iteration at which it began, `steps` the reports of its steps, and
    `held_out` pairs of iteration and score. `ended` gives the reason for its end:
    "horizon", "converged", "held-out", "callback", "time" or "interrupted", or "no"
    while it goes on. `best` is the state that scored best, if there are held-out rows.
    """

    state: TrainState
    start: int
    steps: StepInfo | None
    held_out: tuple[tuple[int, float], ...]
    ended: str
    best: TrainState | None = None


def joined(infos: Sequence[StepInfo]) -> StepInfo | None:
    """The reports of several chunks as one; `None` for no chunk."""
    if not infos:
        return None
    return jax.tree.map(lambda *parts: np.concatenate(parts), *infos)


def check_alive(infos: Sequence[StepInfo], iteration: int) -> None:
    """Raise a `FloatingPointError` for a run that can no longer move."""
    last = np.concatenate([info.refused for info in infos[-_STUCK:]])[-_STUCK:]
    info = infos[-1]
    broken = not np.isfinite(info.nelbo[~info.refused]).all()
    if broken or (len(last) == _STUCK and last.all()):
        raise FloatingPointError(
            f"the bound is no longer finite at iteration {iteration}. Try a smaller "
            "step size, more jitter, or standardised inputs."
        )


def named_trace(run: Run) -> dict[str, np.ndarray]:
    """The reports of a run's steps by name, one entry per iteration.

    Scores on held-out rows are NaN at iterations without a score.
    """
    info = run.steps

    def column(pick: Callable[[StepInfo], Array]) -> np.ndarray:
        return np.zeros(0) if info is None else np.asarray(pick(info))

    trace = {
        "nelbo": column(lambda i: i.nelbo),
        "q_step": column(lambda i: i.q.step_size),
        "shrunk": column(lambda i: i.q.shrinks),
        "refused": column(lambda i: i.q.refused),
        "overshot": column(lambda i: i.q.overshot),
        "divergence": column(lambda i: i.q.divergence),
        "theta_refused": column(lambda i: i.refused),
        "jitter": column(lambda i: i.jitter),
    }
    iteration = run.start + 1 + np.arange(len(trace["nelbo"]))
    if run.held_out:
        trace["held_out"] = np.full(len(iteration), np.nan)
        for when, score in run.held_out:
            trace["held_out"][iteration == when] = score
    return {"iteration": iteration} | trace


def warn_if_refused(trace: dict[str, np.ndarray]) -> None:
    """Warn if more than a few steps of q(u) or draws of theta were refused."""
    for name, what in (
        ("refused", "natural-gradient steps were refused, so q(u)"),
        ("theta_refused", "draws of theta were refused, so the model"),
    ):
        share = float(np.mean(trace[name] > 0)) if len(trace[name]) else 0.0
        if share > _REFUSED_SHARE:
            warnings.warn(
                f"{share:.0%} of the {what} moved less than it should. Try a smaller "
                "step size or standardised inputs.",
                stacklevel=3,
            )
