"""Runs of steps in compiled chunks, with held-out scores, callbacks and Ctrl-C."""

import functools as ft
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from motleygp.inference.data import Dataset
from motleygp.numerics.compiled import compiled
from motleygp.optim import Scheme
from motleygp.training.one_step import StepInfo, has_settled, no_reports, step
from motleygp.training.state import TrainState
from motleygp.training.trace import Run, check_alive, joined

# A run of at most so many iterations, on so many rows in all, is short.
_SHORT, _SHORT_ROWS = 200, 10_000


class HeldOut(NamedTuple):
    """How and how often a run is scored on held-out rows.

    The run ends after `patience` scores without a better one, at its best state.
    """

    score: Callable[[TrainState], float]
    every: int = 100
    patience: int = 10


class Report(NamedTuple):
    """The argument of a callback after each chunk; `so_far` returns the run at that
    point."""

    iteration: int
    horizon: int
    info: StepInfo
    held_out: float | None
    so_far: Callable[[], Run]


Callback = Callable[[Report], bool | None]


def run(
    scheme: Scheme,
    state: TrainState | Run,
    data: Dataset,
    *,
    batch_size: int,
    chunk: int = 50,
    callback: Callback | None = None,
    held_out: HeldOut | None = None,
    until: int | None = None,
    begun: float | None = None,
    time_limit: float | None = None,
) -> Run:
    """Run to the state's horizon, at most `chunk` steps per call of the compiled loop.

    Ctrl-C ends the run, which keeps its last whole chunk; before the first chunk is
    done there is nothing to keep, and the `KeyboardInterrupt` is raised.

    **Arguments:**

    - `scheme`: the scheme that was passed to `init`.
    - `state`: a state from `init`, or an earlier run to continue as if it had not
      ended.
    - `batch_size`: rows per step of each block of the data.
    - `callback`: called after each chunk; a true value ends the run.
    - `held_out`: early stopping on held-out rows.
    - `until`: the iteration at which the run pauses, if it has not ended before.
    - `time_limit`: in seconds since `begun`, by default now; the chunk in which it passes is the last.

    **Raises:** `FloatingPointError` with the iteration when the bound is no longer
    finite or the run is stuck.
    """
    begun = time.monotonic() if begun is None else begun
    journal = _Journal(state)
    program = _program(journal.horizon, batch_size)
    ended = "horizon"
    try:
        while (start := journal.iteration) < journal.horizon:
            if until is not None and start >= until:
                return journal.end("no")
            if held_out is not None and journal.stale >= held_out.patience:
                ended = "held-out"
                break
            end = start + chunk
            if until is not None:
                end = min(end, until)
            if held_out is not None:
                end = min(end, (start // held_out.every + 1) * held_out.every)
            done = program(
                scheme, journal.state, data, batch_size, chunk, jnp.asarray(end)
            )
            journal.add_chunk(*done)
            if held_out is not None and journal.due(held_out.every):
                journal.add_score(held_out.score(journal.state))
            told = callback is not None and callback(journal.report())
            if (reason := reason_to_end(told, begun, time_limit)) is not None:
                ended = reason
                break
    except KeyboardInterrupt:
        if not journal.infos:
            raise
        ended = "interrupted"
    if ended == "horizon" and has_settled(scheme, journal.state):
        ended = "converged"
    return journal.end(ended)


def reason_to_end(
    told: bool | None, begun: float, time_limit: float | None
) -> str | None:
    """The reason to end a run after this chunk, "callback" or "time"; else `None`."""
    if told:
        return "callback"
    if time_limit is not None and time.monotonic() - begun > time_limit:
        return "time"
    return None


class _Journal:
    """The record of a run in progress."""

    def __init__(self, begun: TrainState | Run):
        if isinstance(begun, TrainState):
            begun = Run(begun, int(begun.iteration), None, (), "no")
        self.start = begun.start
        self.state = begun.state
        self.best = begun.best or begun.state
        self.infos = [] if begun.steps is None else [begun.steps]
        self.scores = list(begun.held_out)

    @property
    def iteration(self) -> int:
        return int(self.state.iteration)

    @property
    def horizon(self) -> int:
        return int(self.state.horizon)

    @property
    def stale(self) -> int:
        """The number of scores after the best."""
        if not self.scores:
            return 0
        values = np.nan_to_num([score for _, score in self.scores], nan=np.inf)
        return len(values) - 1 - int(np.argmin(values))

    def add_chunk(self, state: TrainState, filled: StepInfo) -> None:
        """Add the state after a chunk and its reports, at the beginning of arrays."""
        length = int(state.iteration) - self.iteration
        info = jax.tree.map(lambda a: np.asarray(a)[:length], filled)
        check_alive([*self.infos, info], int(state.iteration))
        # Nothing comes between these two lines, so that Ctrl-C cannot part them.
        self.state = state
        self.infos.append(info)

    def due(self, every: int) -> bool:
        """Whether it is time to score the run."""
        return self.iteration % every == 0 or self.iteration == self.horizon

    def add_score(self, score: float) -> None:
        # A score that is not a number is worse than any other.
        if all(score <= other or np.isnan(other) for _, other in self.scores):
            self.best = self.state
        self.scores.append((self.iteration, score))

    def report(self) -> Report:
        """The argument of a callback."""
        last = self.scores[-1][1] if self.scores else None
        counts = len(self.infos), len(self.scores)
        so_far = ft.partial(self._standing, self.state, self.best, *counts)
        return Report(self.iteration, self.horizon, self.infos[-1], last, so_far)

    def _standing(
        self, state: TrainState, best: TrainState, chunks: int, scored: int
    ) -> Run:
        """The run after these numbers of chunks and scores, even if it has more now."""
        steps, kept = joined(self.infos[:chunks]), best if scored else None
        return Run(state, self.start, steps, tuple(self.scores[:scored]), "no", kept)

    def end(self, ended: str) -> Run:
        """The run at its end, with its best state if it was scored."""
        kept = self.best if self.scores else self.state
        counts = len(self.infos), len(self.scores)
        return self._standing(kept, self.best, *counts)._replace(ended=ended)


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
