"""Runs: the step in compiled chunks, held-out scores, callbacks, interruption."""

import functools as ft
import time
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from motleygp.inference.data import Dataset
from motleygp.optim import Scheme
from motleygp.training.one_step import StepInfo, step
from motleygp.training.state import TrainState
from motleygp.training.trace import Run, check_alive, joined


class HeldOut(NamedTuple):
    """When and how a run is scored on rows it does not see.

    The run ends after `patience` scores without a better one, and goes back to the
    best.
    """

    score: Callable[[TrainState], float]
    every: int = 100
    patience: int = 10


class Report(NamedTuple):
    """The argument of a callback, after each chunk; `so_far` gives the run as it stood
    then."""

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
    time_limit: float | None = None,
) -> Run:
    """Run to the state's horizon, at most `chunk` steps per call of the compiled loop.

    Ctrl-C ends the run after the last whole chunk and keeps it.

    **Arguments:**

    - `scheme`: how q(u) and theta move; the one that `init` had.
    - `state`: from `init`; or an earlier run, to go on as if it had not ended.
    - `batch_size`: rows per step of each block of the data.
    - `callback`: called after each chunk; a true value ends the run.
    - `held_out`: early stopping on rows that the run does not see.
    - `time_limit`: in seconds; the chunk in which it passes is the last.

    **Raises:** `FloatingPointError` when the run is stuck, naming the iteration.
    """
    begun = time.monotonic()
    journal = _Journal(state)
    ended = "horizon"
    try:
        while (start := journal.iteration) < journal.horizon:
            if held_out is not None and journal.stale >= held_out.patience:
                ended = "held-out"
                break
            until = start + chunk
            if held_out is not None:
                until = min(until, (start // held_out.every + 1) * held_out.every)
            done = _run_chunk(
                scheme, journal.state, data, batch_size, chunk, jnp.asarray(until)
            )
            journal.add_chunk(*done)
            if held_out is not None and journal.due(held_out.every):
                journal.add_score(held_out.score(journal.state))
            told = callback is not None and callback(journal.report())
            if (reason := reason_to_end(told, begun, time_limit)) is not None:
                ended = reason
                break
    except KeyboardInterrupt:
        ended = "interrupted"
    return journal.end(ended)


def reason_to_end(
    told: bool | None, begun: float, time_limit: float | None
) -> str | None:
    """Why a run ends after this chunk: its callback said so, or its time is up."""
    if told:
        return "callback"
    if time_limit is not None and time.monotonic() - begun > time_limit:
        return "time"
    return None


class _Journal:
    """The course of a run, while it goes on."""

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
        """How many scores came after the best."""
        if not self.scores:
            return 0
        values = [score for _, score in self.scores]
        return len(values) - 1 - int(np.argmin(values))

    def add_chunk(self, state: TrainState, filled: StepInfo) -> None:
        """The state after a chunk; the reports fill the beginning of arrays."""
        length = int(state.iteration) - self.iteration
        self.infos.append(jax.tree.map(lambda a: np.asarray(a)[:length], filled))
        check_alive(self.infos, int(state.iteration))
        self.state = state

    def due(self, every: int) -> bool:
        """Whether the run is to be scored now."""
        return self.iteration % every == 0 or self.iteration == self.horizon

    def add_score(self, score: float) -> None:
        self.scores.append((self.iteration, score))
        if score <= min(score for _, score in self.scores):
            self.best = self.state

    def report(self) -> Report:
        """The argument of a callback."""
        last = self.scores[-1][1] if self.scores else None
        counts = len(self.infos), len(self.scores)
        so_far = ft.partial(self._standing, self.state, self.best, *counts)
        return Report(self.iteration, self.horizon, self.infos[-1], last, so_far)

    def _standing(
        self, state: TrainState, best: TrainState, chunks: int, scored: int
    ) -> Run:
        """The run when it had so many chunks and scores, even if it has more now."""
        steps, kept = joined(self.infos[:chunks]), best if scored else None
        return Run(state, self.start, steps, tuple(self.scores[:scored]), "no", kept)

    def end(self, ended: str) -> Run:
        """The run at its end: at its best state, where it was scored."""
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
    """At most `chunk` steps, fewer where `until` or the horizon comes first; their
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

    shapes = jax.eval_shape(one, arrays)[1]
    empty = jax.tree.map(lambda a: jnp.zeros((chunk, *a.shape), a.dtype), shapes)
    start = (jnp.zeros((), int), arrays, empty)
    _, arrays, infos = jax.lax.while_loop(going, body, start)
    return eqx.combine(arrays, static), infos


_run_chunk = eqx.filter_jit(run_chunk)
