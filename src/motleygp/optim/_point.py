"""Optax optimisers of theta, with a point for q(theta)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.optim._descents import Descent
from motleygp.optim._theta import (
    AbstractThetaOptimiser,
    Leaves,
    ThetaState,
    first_state,
    leaves,
    next_state,
)


class Point(AbstractThetaOptimiser):
    """An optimiser of optax with the interface of `Variational`; a draw is the mean.

    **Arguments:**

    - `descent`: the optimiser, such as `descent("adam", 0.01)`.
    - `units`: the optimiser moves theta * units.
    """

    name: ClassVar[str] = "point"

    descent: Descent
    units: Leaves = 1.0

    def init(self, theta: PyTree) -> ThetaState:
        inner = self.descent.transformation().init(theta)
        return first_state(theta, None, inner)

    def sample(self, key: RandomKey, state: ThetaState, num_samples: int = 1) -> PyTree:
        del key
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (num_samples, *jnp.shape(leaf))),
            state.mean,
        )

    def update(
        self, gradients: PyTree, state: ThetaState, pace: Scalar | float = 1.0
    ) -> ThetaState:
        scale = leaves(self.units, state.mean)
        mean = jax.tree.map(lambda g, u: jnp.mean(g, axis=0) / u, gradients, scale)
        moves, inner = self.descent.transformation().update(
            mean, state.inner, state.mean
        )
        new = jax.tree.map(
            lambda leaf, move, unit: leaf + pace * state.length * move / unit,
            state.mean,
            moves,
            scale,
        )
        return next_state(state, new, inner)
