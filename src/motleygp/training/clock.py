"""The time limit of a run: the iterations that it leaves, and the end."""

import time

import jax.numpy as jnp
import numpy as np

from motleygp.optim import Scheme
from motleygp.training.one_step import pace_down
from motleygp.training.state import TrainState

# The share of the time that is left for iterations; the rest is for the last score.
_SHARE = 0.95
# A chunk takes at least this long, by a clock that may not show it.
_TICK = 1e-6


class Clock:
    """The time since the beginning of a run, which may have a limit.

    The steps are planned so that they go to zero before the limit, as they do at the
    end of any run: a state's horizon comes nearer as soon as the iterations are known
    to take too long, and the clock is then `shortened`.
    """

    def __init__(self, limit: float | None = None):
        self.limit, self.begun = limit, time.monotonic()
        self._chunk_done: float | None = None
        self.shortened = False

    @property
    def over(self) -> bool:
        """Whether the limit has passed."""
        return self.limit is not None and self._left() <= 0.0

    def _left(self) -> float:
        assert self.limit is not None
        return self.begun + self.limit - time.monotonic()

    def planned(self, scheme: Scheme, state: TrainState, done: int) -> TrainState:
        """The state after a chunk of so many iterations, with a horizon in time."""
        before, self._chunk_done = self._chunk_done, time.monotonic()
        # The first chunk compiles: it does not tell how long an iteration takes.
        if self.limit is None or before is None:
            return state
        each = max(self._chunk_done - before, _TICK) / done
        fit = max(int(_SHARE * self._left() / each), 0)
        iteration, horizon = int(state.iteration), int(state.horizon)
        if iteration + fit >= horizon:
            return state
        self.shortened = True
        down = float(pace_down(state))
        cool_down = int(np.ceil(scheme.cool_down * (iteration + fit)))
        cool_down = min(cool_down, fit) if down == 1.0 else int(np.ceil(fit / down))
        return state._replace(
            horizon=jnp.asarray(iteration + fit, state.horizon.dtype),
            cool_down=jnp.asarray(cool_down, state.cool_down.dtype),
        )
