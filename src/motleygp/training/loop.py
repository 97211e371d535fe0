"""Runs: the step in chunks, held-out scores, interruption, and the trace."""

import functools as ft
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from motleygp.inference.data import Dataset
from motleygp.training.step import Step, StepInfo, TrainState

# Refused steps up to this share of a run are not worth a warning.
_REFUSED_SHARE = 0.05
# Refused draws of theta in a row after which a run is stuck.
_STUCK = 50


class HeldOut(NamedTuple):
    """When and how a run is scored on rows it does not see.

    The run ends after `patience` scores without a better one, and goes back to the
    best.
    """

    score: Callable[[TrainState], float]
    every: int = 100
    patience: int = 10


class FitResult(NamedTuple):
    """What a run came to.

    `start` is the iteration at which it began, `trace` what each step reported,
    `held_out` pairs of iteration and score; `ended` says why it ended: "horizon",
    "held-out", "callback", "time" or "interrupted", or "no" while it goes on. `best` is
    the state that scored best, where there are held-out rows.
    """

    state: TrainState
    start: int
    trace: StepInfo | None
    held_out: tuple[tuple[int, float], ...]
    ended: str
    best: TrainState | None = None


class Report(NamedTuple):
    """What a callback is told after each chunk; `so_far` gives the run as it stands."""

    iteration: int
    horizon: int
    info: StepInfo
    held_out: float | None
    so_far: Callable[[], FitResult]


Callback = Callable[[Report], bool | None]


def fit(
    state: TrainState | FitResult,
    data: Dataset,
    step: Step,
    *,
    chunk: int = 50,
    callback: Callback | None = None,
    held_out: HeldOut | None = None,
    time_limit: float | None = None,
) -> FitResult:
    """Run to the state's horizon, at most `chunk` steps per call of the compiled loop.

    Ctrl-C ends the run after the last whole chunk and keeps it.

    **Arguments:**

    - `state`: from `training.init`; or an earlier `fit`, to go on as if it had not
      ended.
    - `callback`: called after each chunk; a true value ends the run.
    - `held_out`: early stopping on rows that the run does not see.
    - `time_limit`: in seconds; the chunk in which it passes is the last.

    **Raises:** `FloatingPointError` when the run is stuck, naming the iteration.
    """
    begun = time.monotonic()
    run = state if isinstance(state, FitResult) else _beginning(state)
    infos = [] if run.trace is None else [run.trace]
    scores = list(run.held_out)
    current, best, ended = run.state, run.best or run.state, "horizon"

    def standing(
        state: TrainState, best: TrainState, chunks: int, scored: int, ended: str = "no"
    ) -> FitResult:
        """The run when it had so many chunks and scores, even if it has more now."""
        trace, kept = _joined(infos[:chunks]), best if scored else None
        return FitResult(state, run.start, trace, tuple(scores[:scored]), ended, kept)

    try:
        while (start := int(current.iteration)) < int(current.horizon):
            if held_out is not None and _stale(scores) >= held_out.patience:
                ended = "held-out"
                break
            until = start + chunk
            if held_out is not None:
                until = min(until, (start // held_out.every + 1) * held_out.every)
            new, filled = _run_chunk(current, data, step, chunk, jnp.asarray(until))
            now = int(new.iteration)
            info = jax.tree.map(lambda a, n=now - start: np.asarray(a)[:n], filled)
            infos.append(info)
            check_alive(infos, now)
            current = new
            if held_out is not None and (
                now % held_out.every == 0 or now == int(current.horizon)
            ):
                scores.append((now, held_out.score(current)))
                if scores[-1][1] <= min(score for _, score in scores):
                    best = current
            last = scores[-1][1] if scores else None
            so_far = ft.partial(standing, current, best, len(infos), len(scores))
            report = Report(now, int(current.horizon), info, last, so_far)
            if callback is not None and callback(report):
                ended = "callback"
                break
            if time_limit is not None and time.monotonic() - begun > time_limit:
                ended = "time"
                break
    except KeyboardInterrupt:
        ended = "interrupted"
    kept = best if scores else current
    return standing(kept, best, len(infos), len(scores), ended)


def _beginning(state: TrainState) -> FitResult:
    return FitResult(state, int(state.iteration), None, (), "no")


def _stale(scores: Sequence[tuple[int, float]]) -> int:
    """How many scores came after the best."""
    if not scores:
        return 0
    values = [score for _, score in scores]
    return len(values) - 1 - int(np.argmin(values))


def _joined(infos: Sequence[StepInfo]) -> StepInfo | None:
    if not infos:
        return None
    return jax.tree.map(lambda *parts: np.concatenate(parts), *infos)


@eqx.filter_jit
def _run_chunk(
    state: TrainState, data: Dataset, step: Step, chunk: int, until: Int[Array, ""]
) -> tuple[TrainState, StepInfo]:
    return _steps(state, data, step, chunk, until)


def _steps(
    state: TrainState, data: Dataset, step: Step, chunk: int, until: Int[Array, ""]
) -> tuple[TrainState, StepInfo]:
    """At most `chunk` steps, fewer where `until` or the horizon comes first; what they
    report fills the beginning of arrays of length `chunk`."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def one(arrays: TrainState) -> tuple[TrainState, StepInfo]:
        new, info = step(eqx.combine(arrays, static), data)
        return eqx.filter(new, eqx.is_array), info

    def going(carry: tuple) -> Bool[Array, ""]:
        i, arrays, _ = carry
        end = jnp.minimum(arrays.horizon, until)
        return (i < chunk) & (arrays.iteration < end)

    def body(carry: tuple) -> tuple:
        i, arrays, infos = carry
        arrays, info = one(arrays)
        infos = jax.tree.map(lambda all_, a: all_.at[i].set(a), infos, info)
        return i + 1, arrays, infos

    shapes = jax.eval_shape(one, arrays)[1]
    empty = jax.tree.map(lambda a: jnp.zeros((chunk, *a.shape), a.dtype), shapes)
    start = (jnp.zeros((), int), arrays, empty)
    _, arrays, infos = jax.lax.while_loop(going, body, start)
    return eqx.combine(arrays, static), infos


# Several runs at once, for devices that are faster by the batch.


@eqx.filter_jit
def _run_chunk_together(
    states: TrainState, data: Dataset, step: Step, chunk: int
) -> tuple[TrainState, StepInfo]:
    arrays, static = eqx.partition(states, eqx.is_array)

    def one(arrays: TrainState) -> tuple[TrainState, StepInfo]:
        state = eqx.combine(arrays, static)
        new, info = _steps(state, data, step, chunk, state.horizon)
        return eqx.filter(new, eqx.is_array), info

    arrays, infos = jax.vmap(one)(arrays)
    return eqx.combine(arrays, static), infos


def fit_together(
    states: Sequence[TrainState],
    data: Dataset,
    step: Step,
    *,
    chunk: int = 50,
    callback: Callable[[int], bool | None] | None = None,
    time_limit: float | None = None,
) -> list[FitResult]:
    """Run several starts under vmap, each to its own horizon.

    Not for a CPU, where a batch of factorisations can wait for itself for ever.
    """
    begun = time.monotonic()
    arrays = [eqx.filter(state, eqx.is_array) for state in states]
    static = eqx.filter(states[0], eqx.is_array, inverse=True)
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
    stacked = eqx.combine(together, static)
    infos: list[list[StepInfo]] = [[] for _ in states]
    ended = "horizon"
    try:
        while (stacked.iteration < stacked.horizon).any():
            start = np.asarray(stacked.iteration)
            stacked, filled = _run_chunk_together(stacked, data, step, chunk)
            now = np.asarray(stacked.iteration)
            filled = jax.tree.map(np.asarray, filled)
            for r, length in enumerate(now - start):
                infos[r].append(jax.tree.map(lambda a, r=r, n=length: a[r, :n], filled))
            if callback is not None and callback(int(now.max())):
                ended = "callback"
                break
            if time_limit is not None and time.monotonic() - begun > time_limit:
                ended = "time"
                break
    except KeyboardInterrupt:
        ended = "interrupted"
    together = eqx.filter(stacked, eqx.is_array)
    results = []
    for r in range(len(states)):
        own = jax.tree.map(lambda leaf, r=r: leaf[r], together)
        results.append(
            FitResult(
                state=eqx.combine(own, static),
                start=int(states[r].iteration),
                trace=_joined(infos[r]),
                held_out=(),
                ended=ended,
            )
        )
    return results


# What a run says of itself.


def check_alive(infos: Sequence[StepInfo], iteration: int) -> None:
    """A run that can no longer move ends loudly."""
    last = np.concatenate([info.refused for info in infos[-_STUCK:]])[-_STUCK:]
    info = infos[-1]
    broken = not np.isfinite(info.nelbo[~info.refused]).all()
    if broken or (len(last) == _STUCK and last.all()):
        raise FloatingPointError(
            f"the bound is no longer finite at iteration {iteration}. Try a smaller "
            "step size, more jitter, or standardised inputs."
        )


def named_trace(result: FitResult) -> dict[str, np.ndarray]:
    """What the steps reported, by name, one entry per iteration.

    Scores on held-out rows are NaN at the iterations that have none.
    """
    info = result.trace

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
    }
    iteration = result.start + 1 + np.arange(len(trace["nelbo"]))
    if result.held_out:
        trace["held_out"] = np.full(len(iteration), np.nan)
        for when, score in result.held_out:
            trace["held_out"][iteration == when] = score
    return {"iteration": iteration} | trace


def warn_if_refused(trace: dict[str, np.ndarray]) -> None:
    """Say so when steps of q(u) or draws of theta were refused more than rarely."""
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
