"""Several starts of one fit: in turn, in processes, or together on an accelerator."""

import functools as ft
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import joblib
import numpy as np
from jaxtyping import PyTree

from motleygp import optim
from motleygp.inference.data import Dataset
from motleygp.inference.model import Model, all_fixed
from motleygp.inference.objective import full_elbo, held_out_nlpd
from motleygp.inference.posterior import Posterior
from motleygp.likelihoods import AbstractLikelihood
from motleygp.optim import Scheme
from motleygp.training import loop, step as training
from motleygp.training.loop import FitResult, HeldOut
from motleygp.training.step import TrainState

Start = Callable[
    [np.random.Generator, Dataset, Sequence[AbstractLikelihood]],
    tuple[Model, Posterior | None],
]


class Task(NamedTuple):
    """All that a run needs but its seed."""

    data: Dataset
    held_out: Dataset | None
    likelihoods: Sequence[AbstractLikelihood]
    start: Start
    scheme: Scheme
    batch_size: int
    num_steps: int
    time_limit: float | None = None


class Fitted(NamedTuple):
    """The model at theta = mu, its whitened q, and the standard deviations of q(theta),
    a tree like theta, where the scheme has any."""

    model: Model
    q: Posterior
    std: PyTree | None = None


class Outcome(NamedTuple):
    """One run: what it fitted, its trace, and its score.

    The score, lower is better, is the NLPD of the held-out rows, or minus the bound
    where none were held out; a run that failed has an infinite one, and `error`.
    """

    fitted: Fitted | None
    trace: dict[str, np.ndarray]
    score: float
    ended: str
    error: str | None = None


def begin(task: Task, seed: int) -> TrainState:
    """The state before the first step."""
    rng = np.random.default_rng(seed)
    model, q = task.start(rng, task.data, task.likelihoods)
    key = jr.key(int(rng.integers(2**31)))
    return training.init(
        key, model, task.data, task.scheme, num_steps=task.num_steps, q=q
    )


def run(
    task: Task,
    seed: int,
    callback: loop.Callback | None = None,
    so_far: FitResult | None = None,
) -> Outcome:
    """One start, to its end; from where it stood, if it was interrupted."""
    step = training.make_step(task.scheme, batch_size=task.batch_size)
    held_out = None
    if task.held_out is not None:
        held_out = HeldOut(ft.partial(_held_out_score, task.scheme, task.held_out))
    try:
        result = loop.fit(
            begin(task, seed) if so_far is None else so_far,
            task.data,
            step,
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
    """One start after another; `watched` gives each a context with a callback."""
    outcomes: list[Outcome] = []
    for number, seed in enumerate(seeds):
        with watched(number) as tell:
            outcomes.append(run(task, seed, tell))
        if outcomes[-1].ended == "interrupted":
            break
    return outcomes


def absorb(
    fitted: Fitted,
    data: Dataset,
    *,
    seed: int,
    batch_size: int,
    num_steps: int,
    time_limit: float | None = None,
    callback: loop.Callback | None = None,
) -> FitResult:
    """q(u) given new rows as well: natural gradients with theta fixed, where the q(u)
    of before has the prior's place. The new q is whitened."""
    scheme = optim.fng()
    model = all_fixed(fitted.model)
    state = training.init(
        jr.key(seed), model, data, scheme, num_steps=num_steps, base=fitted.q
    )
    step = training.make_step(scheme, batch_size=batch_size)
    return loop.fit(state, data, step, callback=callback, time_limit=time_limit)


def run_together(
    task: Task,
    seeds: Sequence[int],
    callback: Callable[[int], bool | None] | None = None,
) -> list[Outcome]:
    """All starts under vmap; held-out rows judge them at the end alone."""
    step = training.make_step(task.scheme, batch_size=task.batch_size)
    results = loop.fit_together(
        [begin(task, seed) for seed in seeds],
        task.data,
        step,
        callback=callback,
        time_limit=task.time_limit,
    )
    return [_outcome(task, result) for result in results]


def run_in_processes(
    task: Task, seeds: Sequence[int], n_jobs: int | None
) -> list[Outcome]:
    """One process per start, by joblib and whatever backend the user gave it."""
    parallel = joblib.Parallel(n_jobs=n_jobs)
    outcomes: Any = parallel(joblib.delayed(run)(task, seed) for seed in seeds)
    return list(outcomes)


def best(outcomes: Sequence[Outcome]) -> tuple[Fitted, Outcome]:
    """The run with the lowest score; `FloatingPointError` when every run failed."""
    chosen = min(outcomes, key=lambda outcome: outcome.score)
    if chosen.fitted is None:
        raise FloatingPointError(chosen.error)
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(outcomes)} restarts failed: {failed[0]}",
            stacklevel=3,
        )
    return chosen.fitted, chosen


def _outcome(task: Task, result: FitResult) -> Outcome:
    state = result.state
    model, q = state.model, _posterior(task.scheme, state)
    if task.held_out is not None:
        score = _held_out_score(task.scheme, task.held_out, state)
    else:
        score = -full_elbo(model, q, task.data)
    trace = loop.named_trace(result)
    if not np.isfinite(score):
        return _failed("the bound is not finite at the end of the run.")
    fitted = Fitted(model, q, task.scheme.theta.std(state.theta))
    return Outcome(fitted, trace, float(score), result.ended)


def _failed(error: str) -> Outcome:
    return Outcome(None, {}, np.inf, "failed", error)


@eqx.filter_jit
def _posterior(scheme: Scheme, state: TrainState) -> Posterior:
    return training.posterior(scheme, state)


def _held_out_score(scheme: Scheme, data: Dataset, state: TrainState) -> float:
    return float(jnp.mean(held_out_nlpd(state.model, _posterior(scheme, state), data)))
