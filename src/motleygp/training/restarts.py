"""Several starts of one fit: sequential, in processes, or batched on an accelerator."""

import functools as ft
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import joblib
import numpy as np

from motleygp.inference.data import Dataset
from motleygp.inference.model import Model, all_fixed
from motleygp.inference.objective import full_elbo, held_out_nlpd
from motleygp.inference.posterior import Posterior
from motleygp.likelihoods import AbstractLikelihood
from motleygp.optim import Scheme, fng
from motleygp.training import loop, together
from motleygp.training.loop import HeldOut
from motleygp.training.state import Solution, TrainState, init, solution
from motleygp.training.trace import Run, named_trace

Start = Callable[
    [np.random.Generator, Dataset, Sequence[AbstractLikelihood]],
    tuple[Model, Posterior | None],
]


class Task(NamedTuple):
    """Everything that a run needs except its seed."""

    data: Dataset
    held_out: Dataset | None
    likelihoods: Sequence[AbstractLikelihood]
    start: Start
    scheme: Scheme
    batch_size: int
    num_steps: int
    time_limit: float | None = None


class Outcome(NamedTuple):
    """One run: its solution, its trace, and its score.

    The score (lower is better) is the NLPD of the held-out rows, or minus the bound if
    there are none; a failed run has an infinite score and an `error`.
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
    return init(key, model, task.data, task.scheme, num_steps=task.num_steps, q=q)


def run(
    task: Task,
    seed: int,
    callback: loop.Callback | None = None,
    so_far: Run | None = None,
) -> Outcome:
    """Run one start to its end, from `so_far` if it was interrupted."""
    held_out = None
    if task.held_out is not None:
        held_out = HeldOut(ft.partial(_held_out_score, task.scheme, task.held_out))
    try:
        result = loop.run(
            task.scheme,
            begin(task, seed) if so_far is None else so_far,
            task.data,
            batch_size=task.batch_size,
            callback=callback,
            held_out=held_out,
            time_limit=task.time_limit,
        )
    except FloatingPointError as error:
        return _failed(str(error))
    return _outcome(task, result)


def run_in_turn(
    task: Task, seeds: Sequence[int], watched: Callable[[int], Any]
) -> list[Outcome]:
    """Run one start after another; `watched` gives each a context with a callback."""
    outcomes: list[Outcome] = []
    for number, seed in enumerate(seeds):
        with watched(number) as tell:
            outcomes.append(run(task, seed, tell))
        if outcomes[-1].ended == "interrupted":
            break
    return outcomes


def absorb(
    model: Model,
    q: Posterior,
    data: Dataset,
    *,
    seed: int,
    batch_size: int,
    num_steps: int,
    time_limit: float | None = None,
    callback: loop.Callback | None = None,
) -> Run:
    """Update q(u) with new rows, by natural gradients with theta fixed; the old q(u)
    takes the place of the prior. Both are whitened."""
    scheme = fng()
    state = init(
        jr.key(seed), all_fixed(model), data, scheme, num_steps=num_steps, base=q
    )
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
    """Run all starts under vmap; held-out rows score them only at the end."""
    results = together.run_together(
        task.scheme,
        [begin(task, seed) for seed in seeds],
        task.data,
        batch_size=task.batch_size,
        callback=callback,
        time_limit=task.time_limit,
    )
    return [_outcome(task, result) for result in results]


def run_in_processes(
    task: Task, seeds: Sequence[int], n_jobs: int | None
) -> list[Outcome]:
    """Run the starts in parallel by joblib, with the backend that the user chose."""
    parallel = joblib.Parallel(n_jobs=n_jobs)
    outcomes: Any = parallel(joblib.delayed(run)(task, seed) for seed in seeds)
    return list(outcomes)


def best(outcomes: Sequence[Outcome]) -> tuple[Solution, Outcome]:
    """The run with the lowest score; `FloatingPointError` when every run failed."""
    chosen = min(outcomes, key=lambda outcome: outcome.score)
    if chosen.solution is None:
        raise FloatingPointError(chosen.error)
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(outcomes)} restarts failed: {failed[0]}",
            stacklevel=3,
        )
    return chosen.solution, chosen


def _outcome(task: Task, run: Run) -> Outcome:
    found = solution(task.scheme, run.state)
    if task.held_out is not None:
        score = _nlpd(found, task.held_out)
    else:
        score = -full_elbo(found.model, found.q, task.data)
    if not np.isfinite(score):
        return _failed("the bound is not finite at the end of the run.")
    return Outcome(found, named_trace(run), float(score), run.ended)


def _failed(error: str) -> Outcome:
    return Outcome(None, {}, np.inf, "failed", error)


def _held_out_score(scheme: Scheme, data: Dataset, state: TrainState) -> float:
    return _nlpd(solution(scheme, state), data)


def _nlpd(found: Solution, data: Dataset) -> float:
    return float(jnp.mean(held_out_nlpd(found.model, found.q, data)))
