"""The record of a run in progress, and its reports to a callback."""

import functools as ft
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import numpy as np

from motleygp.optim import Scheme
from motleygp.training.clock import Clock
from motleygp.training.one_step import StepInfo
from motleygp.training.state import TrainState
from motleygp.training.trace import Run, check_alive, joined


class Report(NamedTuple):
    """The argument of a callback after each chunk; `so_far` returns the run at that
    point."""

    iteration: int
    horizon: int
    info: StepInfo
    held_out: float | None
    so_far: Callable[[], Run]


Callback: TypeAlias = Callable[[Report], bool | None]


class Journal:
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

    def plan(self, clock: Clock, scheme: Scheme, done: int) -> None:
        """Bring the horizon nearer if time is short."""
        self.state = clock.planned(scheme, self.state, done)

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
