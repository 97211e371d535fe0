"""Several runs as one batch, for devices that are faster on batches."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from motleygp.inference.data import Dataset
from motleygp.numerics.compiled import compiled
from motleygp.optim import Scheme
from motleygp.training.clock import Clock
from motleygp.training.loop import run_chunk
from motleygp.training.one_step import StepInfo, has_settled
from motleygp.training.state import TrainState
from motleygp.training.trace import Run, joined


@compiled
def _run_chunk_together(
    scheme: Scheme, states: TrainState, data: Dataset, batch_size: int, chunk: int
) -> tuple[TrainState, StepInfo]:
    arrays, static = eqx.partition(states, eqx.is_array)

    def one(arrays: TrainState) -> tuple[TrainState, StepInfo]:
        state = eqx.combine(arrays, static)
        new, info = run_chunk(scheme, state, data, batch_size, chunk, state.horizon)
        return eqx.filter(new, eqx.is_array), info

    arrays, infos = jax.vmap(one)(arrays)
    return eqx.combine(arrays, static), infos


def run_together(
    scheme: Scheme,
    states: Sequence[TrainState],
    data: Dataset,
    *,
    batch_size: int,
    chunk: int = 50,
    callback: Callable[[int], bool | None] | None = None,
    time_limit: float | None = None,
) -> list[Run]:
    """Run several starts under vmap, each to its own horizon.

    Not for a CPU, where a batch of factorisations can deadlock. Ctrl-C ends the runs,
    which keep their last whole chunk; before the first one it is raised.
    """
    clock = Clock(time_limit)
    stacked, static = _stacked(states)
    infos: list[list[StepInfo]] = []
    ended = "horizon"
    try:
        while (stacked.iteration < stacked.horizon).any():
            start = np.asarray(stacked.iteration)
            new, filled = _run_chunk_together(scheme, stacked, data, batch_size, chunk)
            now = np.asarray(new.iteration)
            filled = jax.tree.map(np.asarray, filled)
            reports = [
                jax.tree.map(lambda a, r=r, n=length: a[r, :n], filled)
                for r, length in enumerate(now - start)
            ]
            # Nothing comes between these two lines, so that Ctrl-C cannot part them.
            stacked = new
            infos.append(reports)
            if callback is not None and callback(int(now.max())):
                ended = "callback"
                break
            if clock.over:
                ended = "time"
                break
    except KeyboardInterrupt:
        if not infos:
            raise
        ended = "interrupted"
    arrays, runs = eqx.filter(stacked, eqx.is_array), []
    for r, begun_at in enumerate(states):
        state = eqx.combine(jax.tree.map(lambda leaf, r=r: leaf[r], arrays), static)
        settled = ended == "horizon" and has_settled(scheme, state)
        runs.append(
            Run(
                state=state,
                start=int(begun_at.iteration),
                steps=joined([reports[r] for reports in infos]),
                held_out=(),
                ended="converged" if settled else ended,
            )
        )
    return runs


def _stacked(states: Sequence[TrainState]) -> tuple[TrainState, TrainState]:
    """The states stacked along a leading axis, and the part that they share."""
    arrays = [eqx.filter(state, eqx.is_array) for state in states]
    static = eqx.filter(states[0], eqx.is_array, inverse=True)
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
    return eqx.combine(together, static), static
