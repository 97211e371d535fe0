"""The bound of a model at the best q(u): L*(theta), the maximum of L(q, theta) over q.

Its gradient is that of L at the best q(u), because L is stationary in q there.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from motleygp._types import Scalar
from motleygp.inference.data import Dataset
from motleygp.inference.derivatives import gradients
from motleygp.inference.model import Model, trainable
from motleygp.inference.posterior import Posterior
from motleygp.numerics.compiled import compiled
from motleygp.optim import NaturalGradient

_MAX_STEPS = 200
# One step of full length is exact for real outputs if q(u) is joint, or has one part.
_FULL = NaturalGradient(1.0)


class Settled(NamedTuple):
    """The best q(u) for one theta, L* and its gradient there, and the largest jitter of
    a group."""

    q: Posterior
    bound: Scalar
    gradient: Float[Array, " T"]
    jitter: Scalar


@compiled
def settle(model: Model, q: Posterior, data: Dataset, change: Array) -> Settled:
    """Natural-gradient steps from q until one changes it by at most this, in nats."""

    def step(carry: tuple) -> tuple:
        before, state, _, steps = carry
        terms, slopes = gradients(model, before.q, data)
        new, state, info = _FULL.update(slopes.q, state, before.q)
        uphill = -ravel_pytree(slopes.theta)[0]
        found = Settled(new, terms.elbo, uphill, terms.jitter)
        return found, state, info.divergence, steps + 1

    def moving(carry: tuple) -> Bool[Array, ""]:
        *_, divergence, steps = carry
        return (divergence > change) & (steps < _MAX_STEPS)

    flat, _ = ravel_pytree(eqx.filter(model, trainable(model)))
    zero = jnp.zeros((), flat.dtype)
    start = Settled(q, zero, jnp.zeros_like(flat), zero)
    far = (start, _FULL.init(q), zero + jnp.inf, 0)
    return jax.lax.while_loop(moving, step, far)[0]
