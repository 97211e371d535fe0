"""Several runs as one batch, for devices that are faster on batches."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from motleygp.inference.data import Dataset
from motleygp.numerics.compiled import compiled
from motleygp.optim import Scheme
from motleygp.training.clock import Clock
from motleygp.training.loop import HeldOut, run_chunk
from motleygp.training.one_step import StepInfo, has_settled
from motleygp.training.state import TrainState
from motleygp.training.trace import Run, joined


@compiled
def _run_chunk_together(
    scheme: Scheme,
    states: TrainState,
    data: Dataset,
    batch_size: int,
    chunk: int,
    until: Int[Array, ""],
) -> tuple[TrainState, StepInfo]:
    arrays, static = eqx.partition(states, eqx.is_array)

    def one(arrays: TrainState) -> tuple[TrainState, StepInfo]:
        state = eqx.combine(arrays, static)
        new, info = run_chunk(scheme, state, data, batch_size, chunk, until)
        return eqx.filter(new, eqx.is_array), info

    arrays, infos = jax.vmap(one)(arrays)
    return eqx.combine(arrays, static), infos


class _Scores:
    """The held-out scores of all runs, and the state in which each scored best."""

    def __init__(self, held_out: HeldOut, states: TrainState, static: TrainState):
        self._held_out, self._static, self.best = held_out, static, states
        self.of_runs: list[list[tuple[int, float]]] = [[] for _ in states.iteration]
        self._lowest = np.full(len(self.of_runs), np.inf)
        self._stale = np.zeros(len(self.of_runs), int)

    def add(self, states: TrainState) -> Bool[np.ndarray, " R"]:
        """Score the runs for which it is time; returns those that end, because their
        scores are no better for too long."""
        iteration, horizon = np.asarray(states.iteration), np.asarray(states.horizon)
        last = np.array([scores[-1][0] if scores else 0 for scores in self.of_runs])
        due = (iteration % self._held_out.every == 0) | (iteration == horizon)
        due &= iteration > last
        better = np.zeros_like(due)
        for r in map(int, np.flatnonzero(due)):
            score = self._held_out.score(_one(states, self._static, r))
            # A score that is not a number is worse than any other.
            better[r] = score < self._lowest[r] or not self.of_runs[r]
            self.of_runs[r].append((int(iteration[r]), score))
            self._lowest[r] = np.fmin(self._lowest[r], score)
        if better.any():
            self.best = _chosen(better, states, self.best)
        self._stale = np.where(better, 0, self._stale + due)
        return (self._stale >= self._held_out.patience) & (iteration < horizon)


def run_together(
    scheme: Scheme,
    states: Sequence[TrainState],
    data: Dataset,
    *,
    batch_size: int,
    chunk: int = 50,
    callback: Callable[[int], bool | None] | None = None,
    held_out: HeldOut | None = None,
    time_limit: float | None = None,
) -> list[Run]:
    """Run several starts under vmap, each to its own horizon.

    With `held_out`, a run ends at its best state after `patience` scores without a
    better one; the others go on.

    Not for a CPU, where a batch of factorisations can deadlock. Ctrl-C ends the runs,
    which keep their last whole chunk; before the first one it is raised.
    """
    clock = Clock(time_limit)
    stacked, static = _stacked(states)
    scores = None if held_out is None else _Scores(held_out, stacked, static)
    stopped = np.zeros(len(states), bool)
    infos: list[list[StepInfo]] = []
    ended = "horizon"
    try:
        while (stacked.iteration < stacked.horizon).any():
            until = _next_end(stacked, chunk, held_out)
            new, filled = _run_chunk_together(
                scheme, stacked, data, batch_size, chunk, until
            )
            reports = _reports(filled, new.iteration - stacked.iteration)
            # Nothing comes between these two lines, so that Ctrl-C cannot part them.
            stacked = new
            infos.append(reports)
            if scores is not None:
                stopped |= scores.add(stacked)
                stacked = _ending(stacked, stopped)
            if callback is not None and callback(int(stacked.iteration.max())):
                ended = "callback"
                break
            if clock.over:
                ended = "time"
                break
    except KeyboardInterrupt:
        if not infos:
            raise
        ended = "interrupted"
    reasons = _reasons(scheme, stacked, static, stopped, ended)
    kept = stacked if scores is None else scores.best
    return [
        Run(
            state=_one(kept, static, r),
            start=int(begun_at.iteration),
            steps=joined([reports[r] for reports in infos]),
            held_out=() if scores is None else tuple(scores.of_runs[r]),
            ended=reasons[r],
        )
        for r, begun_at in enumerate(states)
    ]


def _ending(states: TrainState, stopped: Bool[np.ndarray, " R"]) -> TrainState:
    """The states with the horizon of the stopped runs at the iteration they are in."""
    return states._replace(horizon=jnp.where(stopped, states.iteration, states.horizon))


def _reports(filled: StepInfo, lengths: Int[Array, " R"]) -> list[StepInfo]:
    """The part of a chunk's reports that each run has filled."""
    filled = jax.tree.map(np.asarray, filled)
    return [
        jax.tree.map(lambda a, r=r, n=length: a[r, :n], filled)
        for r, length in enumerate(np.asarray(lengths))
    ]


def _reasons(
    scheme: Scheme,
    last: TrainState,
    static: TrainState,
    stopped: Bool[np.ndarray, " R"],
    ended: str,
) -> list[str]:
    """Why each run ended, in the words of `Run.ended`."""
    reasons = np.where(stopped, "held-out", ended).tolist()
    for r, reason in enumerate(reasons):
        if reason == "horizon" and has_settled(scheme, _one(last, static, r)):
            reasons[r] = "converged"
    return reasons


def _next_end(
    states: TrainState, chunk: int, held_out: HeldOut | None
) -> Int[Array, ""]:
    """The iteration at which the next chunk ends, or a score is due before."""
    now = int(states.iteration.max())
    end = now + chunk
    if held_out is not None:
        end = min(end, (now // held_out.every + 1) * held_out.every)
    return jnp.asarray(end)


def _stacked(states: Sequence[TrainState]) -> tuple[TrainState, TrainState]:
    """The states stacked along a leading axis, and the part that they share."""
    arrays = [eqx.filter(state, eqx.is_array) for state in states]
    static = eqx.filter(states[0], eqx.is_array, inverse=True)
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
    return eqx.combine(together, static), static


def _one(stacked: TrainState, static: TrainState, r: int) -> TrainState:
    """The state of one run."""
    arrays = eqx.filter(stacked, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[r], arrays), static)


def _chosen(
    first: Bool[np.ndarray, " R"], some: TrainState, others: TrainState
) -> TrainState:
    """The runs of `some` where `first` is true, and those of `others` elsewhere."""
    chosen, (rest, static) = jnp.asarray(first), eqx.partition(others, eqx.is_array)

    def pick(a: Array, b: Array) -> Array:
        return jax.vmap(jax.lax.select)(chosen, a, b)

    arrays = jax.tree.map(pick, eqx.filter(some, eqx.is_array), rest)
    return eqx.combine(arrays, static)
