"""Runs of steps in compiled chunks, with held-out scores, callbacks and Ctrl-C."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from motleygp.inference.data import Dataset
from motleygp.numerics.compiled import compiled
from motleygp.optim import Scheme
from motleygp.training.clock import Clock
from motleygp.training.journal import Callback, Journal
from motleygp.training.one_step import StepInfo, has_settled, no_reports, step
from motleygp.training.state import TrainState
from motleygp.training.trace import Run

# A run of at most so many iterations, on so many rows in all, is short.
_SHORT, _SHORT_ROWS = 200, 10_000
# Iterations of the first chunk under a time limit: they may be slow.
_FIRST = 10


class HeldOut(NamedTuple):
    """How and how often a run is scored on held-out rows.

    The run ends after `patience` scores without a better one, at its best state.
    """

    score: Callable[[TrainState], float]
    every: int = 100
    patience: int = 10


def run(
    scheme: Scheme,
    state: TrainState | Run,
    data: Dataset,
    *,
    batch_size: int,
    chunk: int = 50,
    callback: Callback | None = None,
    held_out: HeldOut | None = None,
    time_limit: float | Clock | None = None,
) -> Run:
    """Run to the state's horizon, at most `chunk` steps per call of the compiled loop.

    Ctrl-C ends the run, which keeps its last whole chunk; before the first chunk is
    done there is nothing to keep, and the `KeyboardInterrupt` is raised.

    **Arguments:**

    - `scheme`: the scheme that was passed to `init`.
    - `state`: a state from `init`, or an earlier run, which goes on as if it had not
      ended.
    - `batch_size`: rows per step of each block of the data.
    - `callback`: called after each chunk; a true value ends the run.
    - `held_out`: early stopping on held-out rows.
    - `time_limit`: in seconds; the horizon comes nearer so that the run ends in time.
      A `Clock` has begun before.

    **Raises:** `FloatingPointError` with the iteration when the bound is no longer
    finite or the run is stuck.
    """
    journal = Journal(state)
    clock = time_limit if isinstance(time_limit, Clock) else Clock(time_limit)
    program = _program(journal.horizon, batch_size)
    ended, length = "horizon", _FIRST if clock.limit is not None else chunk
    try:
        while (start := journal.iteration) < journal.horizon:
            if held_out is not None and journal.stale >= held_out.patience:
                ended = "held-out"
                break
            end = start + length
            if held_out is not None:
                end = min(end, (start // held_out.every + 1) * held_out.every)
            done = program(
                scheme, journal.state, data, batch_size, chunk, jnp.asarray(end)
            )
            journal.add_chunk(*done)
            if held_out is not None and journal.due(held_out.every):
                journal.add_score(held_out.score(journal.state))
            if callback is not None and callback(journal.report()):
                ended = "callback"
                break
            if clock.over:
                break
            journal.plan(clock, scheme, journal.iteration - start)
            length = chunk
    except KeyboardInterrupt:
        if not journal.infos:
            raise
        ended = "interrupted"
    return journal.end(_reason(ended, scheme, journal.state, clock))


def _reason(ended: str, scheme: Scheme, state: TrainState, clock: Clock) -> str:
    """The reason for the end of a run: if it is the horizon, why that had come."""
    if ended != "horizon":
        return ended
    if clock.over:
        return "time"
    if has_settled(scheme, state):
        return "converged"
    return "time" if clock.shortened else "horizon"


def run_chunk(
    scheme: Scheme,
    state: TrainState,
    data: Dataset,
    batch_size: int,
    chunk: int,
    until: Int[Array, ""],
) -> tuple[TrainState, StepInfo]:
    """Run at most `chunk` steps, fewer if `until` or the horizon comes first; their
    reports fill the beginning of arrays of length `chunk`."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def one(arrays: TrainState) -> tuple[TrainState, StepInfo]:
        whole = eqx.combine(arrays, static)
        new, info = step(scheme, whole, data, batch_size=batch_size)
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

    start = (jnp.zeros((), int), arrays, no_reports(chunk))
    _, arrays, infos = jax.lax.while_loop(going, body, start)
    return eqx.combine(arrays, static), infos


_run_chunk = compiled(run_chunk)
_run_short_chunk = _run_chunk.quick


def _program(horizon: int, batch_size: int) -> Callable[..., Any]:
    """The compiled loop: without optimisations if the run ends before they pay.

    A horizon that has moved closer is never short, so a run that is resumed has the
    program with which it began.
    """
    short = horizon <= _SHORT and horizon * batch_size <= _SHORT_ROWS
    return _run_short_chunk if short else _run_chunk
