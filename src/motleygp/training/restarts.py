"""Several starts of one fit: sequential, or batched on an accelerator."""

import contextlib
import functools as ft
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from motleygp.files.trees import not_finite
from motleygp.inference.data import Dataset
from motleygp.inference.model import Model, all_fixed
from motleygp.inference.objective import full_elbo, held_out_nlpd
from motleygp.inference.posterior import Posterior
from motleygp.likelihoods import AbstractLikelihood
from motleygp.optim import Scheme, fng
from motleygp.training import loop, together
from motleygp.training.clock import Clock
from motleygp.training.initialise import Start, start_precision
from motleygp.training.interrupts import noted
from motleygp.training.journal import Callback
from motleygp.training.loop import HeldOut
from motleygp.training.polish import polish
from motleygp.training.state import Solution, TrainState, init, solution
from motleygp.training.trace import Run, named_trace

# Rows of a block that score a run: the bound of so many tells runs apart.
_MOST_SCORED = 1 << 17
# Iterations whose minibatches stand for all rows where the bound was not computed.
_LAST = 50


class Task(NamedTuple):
    """Everything that a run needs except its seed; `plan` gives its sizes in words."""

    data: Dataset
    held_out: Dataset | None
    likelihoods: Sequence[AbstractLikelihood]
    start: Start
    scheme: Scheme
    batch_size: int
    num_steps: int
    time_limit: float | None = None
    plan: str = ""


class Outcome(NamedTuple):
    """One run: its solution, its trace, and its score.

    The score (lower is better) is the NLPD of the held-out rows, or minus the bound if
    there are none; a failed run has an infinite score and an `error`. A start that was
    interrupted before it learnt anything has neither a solution nor an error.
    """

    solution: Solution | None
    trace: dict[str, np.ndarray]
    score: float
    ended: str
    error: str | None = None


def begin(task: Task, seed: int) -> TrainState:
    """The state before the first step."""
    rng = np.random.default_rng(seed)
    model, q = task.start(rng, task.data, task.likelihoods)
    key = jr.key(int(rng.integers(2**31)))
    narrow = task.scheme.q.starts_narrow
    precision = start_precision(model, task.data) if narrow else 1.0
    return init(
        key, model, task.scheme, num_steps=task.num_steps, q=q, precision=precision
    )


def run(
    task: Task,
    seed: int,
    callback: Callback | None = None,
    so_far: Run | None = None,
) -> Outcome:
    """Run one start to its end, from `so_far` if it was interrupted.

    Ctrl-C ends it too; it is raised if nothing has been learnt yet.
    """
    clock = Clock(task.time_limit)
    try:
        result = loop.run(
            task.scheme,
            begin(task, seed) if so_far is None else so_far,
            task.data,
            batch_size=task.batch_size,
            callback=callback,
            held_out=_held_out(task),
            time_limit=clock,
        )
    except FloatingPointError as error:
        return _failed(str(error))
    return _outcome(task, _polished(task, result, clock, callback))


def _polished(
    task: Task, result: Run, clock: Clock, callback: Callback | None = None
) -> Run:
    """A run that has reached its horizon, after the quasi-Newton steps of its scheme.
    Held-out rows end training before it over-fits, so no steps follow there."""
    over = result.ended in ("horizon", "converged")
    if not task.scheme.polish or not over or task.held_out is not None:
        return result
    return polish(task.scheme, result, task.data, callback=callback, clock=clock)


def run_in_turn(
    task: Task, seeds: Sequence[int], watched: Callable[[int], Any]
) -> list[Outcome]:
    """Run one start after another; `watched` gives each a context with a callback."""
    outcomes: list[Outcome] = []
    with keeping(outcomes):
        for number, seed in enumerate(seeds):
            with watched(number) as tell:
                outcomes.append(run_next(outcomes, task, seed, tell))
            if outcomes[-1].ended == "interrupted":
                break
    return outcomes


@contextlib.contextmanager
def keeping(outcomes: list[Outcome]) -> Iterator[None]:
    """Let Ctrl-C end the block, and not the fit, if there are outcomes.

    A last outcome without a solution says that the starts were interrupted.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not any_solved(outcomes):
            raise
        if outcomes[-1].ended != "interrupted":
            outcomes.append(Outcome(None, {}, np.inf, "interrupted"))


def any_solved(outcomes: Iterable[Outcome]) -> bool:
    """Whether there is a solution to keep."""
    return any(outcome.solution is not None for outcome in outcomes)


def run_next(
    outcomes: Sequence[Outcome],
    task: Task,
    seed: int,
    callback: Callback | None = None,
    so_far: Run | None = None,
) -> Outcome:
    """`run` after these outcomes; an error such as a lack of memory fails this start
    only, if there is a solution to keep."""
    try:
        return run(task, seed, callback, so_far)
    except Exception as error:
        if not any_solved(outcomes):
            raise
        return failed_by(error)


def failed_by(error: Exception) -> Outcome:
    """The outcome of a start that an error ended."""
    return _failed(f"{type(error).__name__}: {error}".splitlines()[0])


def absorb(
    model: Model,
    q: Posterior,
    data: Dataset,
    *,
    seed: int,
    batch_size: int,
    num_steps: int,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Run:
    """Update q(u) with new rows, by natural gradients with theta fixed; the old q(u)
    takes the place of the prior. Both are whitened."""
    scheme = fng()
    state = init(jr.key(seed), all_fixed(model), scheme, num_steps=num_steps, base=q)
    return loop.run(
        scheme,
        state,
        data,
        batch_size=batch_size,
        callback=callback,
        time_limit=time_limit,
    )


def run_together(
    task: Task,
    seeds: Sequence[int],
    callback: Callable[[int], bool | None] | None = None,
) -> list[Outcome]:
    """Run all starts under vmap."""
    clock = Clock(task.time_limit)
    results = together.run_together(
        task.scheme,
        [begin(task, seed) for seed in seeds],
        task.data,
        batch_size=task.batch_size,
        callback=callback,
        held_out=_held_out(task),
        time_limit=task.time_limit,
    )
    return [_outcome(task, _polished(task, result, clock)) for result in results]


def best(outcomes: Sequence[Outcome]) -> tuple[Solution, Outcome]:
    """The run with the lowest score; `FloatingPointError` when every run failed."""
    # A run that was interrupted before its first score has an infinite one.
    chosen = min(outcomes, key=lambda o: (o.score, o.solution is None))
    if chosen.solution is None:
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        raise FloatingPointError(errors[0])
    return chosen.solution, chosen


def warn_if_failed(starts: Sequence[Mapping[str, Any]]) -> None:
    """Warn of the starts that failed; each has an "error"."""
    failed = [start["error"] for start in starts if start["error"] is not None]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(starts)} restarts failed: {failed[0]}",
            stacklevel=3,
        )


def _outcome(task: Task, run: Run) -> Outcome:
    """The result of a run, and its score."""
    try:
        found = solution(task.scheme, run.state)
        score = _score(task, found)
        if not np.isfinite(score) or not_finite(found, "") is not None:
            return _failed("the bound is not finite at the end of the run.")
    except KeyboardInterrupt:
        # The run is over: only its score is missing.
        run = run._replace(ended="interrupted")
        with noted(lambda: None):
            found, score = solution(task.scheme, run.state), _last_score(task, run)
    return Outcome(found, named_trace(run), float(score), run.ended)


def _score(task: Task, found: Solution) -> float:
    if task.held_out is not None:
        return _nlpd(found, task.held_out)
    return -full_elbo(found.model, found.q, task.data, most=_MOST_SCORED)


def _last_score(task: Task, run: Run) -> float:
    """The best score of the run on held-out rows, or minus the bound on its last
    minibatches; infinite if there is none."""
    if task.held_out is not None:
        scores = np.asarray([score for _, score in run.held_out])
        return float(np.min(scores[np.isfinite(scores)], initial=np.inf))
    nelbo = np.zeros(0) if run.steps is None else np.asarray(run.steps.nelbo)[-_LAST:]
    nelbo = nelbo[np.isfinite(nelbo)]
    return float(np.mean(nelbo)) if len(nelbo) else np.inf


def _failed(error: str) -> Outcome:
    return Outcome(None, {}, np.inf, "failed", error)


def _held_out(task: Task) -> HeldOut | None:
    """How the held-out rows score a run, if there are any."""
    if task.held_out is None:
        return None
    return HeldOut(ft.partial(_held_out_score, task.scheme, task.held_out))


def _held_out_score(scheme: Scheme, data: Dataset, state: TrainState) -> float:
    return _nlpd(solution(scheme, state), data)


def _nlpd(found: Solution, data: Dataset) -> float:
    return float(np.mean(held_out_nlpd(found.model, found.q, data)))
