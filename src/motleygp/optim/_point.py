"""theta by any optax optimiser: a q(theta) that is a point."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.optim._variational import (
    Leaves,
    VariationalOptimiser,
    leaves,
    recovered,
)


class PointState(NamedTuple):
    """theta, theta one step ago, and the optimiser's own state."""

    mean: PyTree
    previous: PyTree
    length: Scalar
    inner: Any


def point(
    optimiser: optax.GradientTransformation, *, units: Leaves = 1.0
) -> VariationalOptimiser:
    """An optax optimiser in the clothes of `variational`: its draws are its mean."""

    def init(theta: PyTree) -> PointState:
        return PointState(theta, theta, jnp.ones(()), optimiser.init(theta))

    def sample(key: RandomKey, state: PointState, num_samples: int = 1) -> PyTree:
        del key
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (num_samples, *jnp.shape(leaf))),
            state.mean,
        )

    def update(
        gradients: PyTree, state: PointState, pace: Scalar | float = 1.0
    ) -> PointState:
        scale = leaves(units, state.mean)
        mean = jax.tree.map(lambda g, u: jnp.mean(g, axis=0) / u, gradients, scale)
        moves, inner = optimiser.update(mean, state.inner, state.mean)
        new = jax.tree.map(
            lambda leaf, move, unit: leaf + pace * state.length * move / unit,
            state.mean,
            moves,
            scale,
        )
        return PointState(new, state.mean, recovered(state.length), inner)

    return VariationalOptimiser(init, sample, update)
