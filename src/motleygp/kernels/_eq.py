"""The exponentiated quadratic kernel, in matrix form."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from motleygp.kernels._stationary import AbstractStationary
from motleygp.numerics.linalg import product, transposed_product

LOG_2PI = math.log(2.0 * math.pi)


def squared_distance(
    x: Float[Array, "N P"], z: Float[Array, "M P"]
) -> Float[Array, "N M"]:
    """|x_n - z_m|^2 as one matrix product, of (x, |x|^2, 1) and (-2 z, 1, |z|^2).

    Both sides are first centred at the mean of x, which are the inducing points in a
    prediction. The error is then 1e-16 times the squared distances from there, of the
    pair alone: a far z_m changes no other entry, and its own distances are right to 16
    digits.
    """
    centre = jax.lax.stop_gradient(jnp.mean(x, axis=0))
    x, z = x - centre, z - centre
    norm_x, norm_z = (jnp.sum(a * a, axis=1, keepdims=True) for a in (x, z))
    left = jnp.concatenate([x, norm_x, jnp.ones_like(norm_x)], axis=1)
    right = jnp.concatenate([-2.0 * z, jnp.ones_like(norm_z), norm_z], axis=1)
    return jnp.maximum(product(left, right.T), 0.0)


@jax.custom_vjp
def eq_values(
    z: Float[Array, "M P"], x: Float[Array, "*B N P"], square: Float[Array, "B P"]
) -> Float[Array, "M B N"]:
    """exp(-1/2 sum_p (z_mp - x_np)^2 / square_bp), for B sets of squared length-scales.

    `x` is one set of rows for all B, or one set for each.

    The exponent is one matrix product, of (z, z^2, 1) and (-2 x / square, 1 / square,
    sum x^2 / square), both sides centred at the mean of z as in `squared_distance`. The
    derivative is written out and needs only products with z and x; differentiating the
    forward pass would build everything B times.
    """
    return _eq_forward(z, x, square)[0]


def _eq_forward(z: Array, x: Array, square: Array) -> tuple[Array, tuple]:
    centre = jax.lax.stop_gradient(jnp.mean(z, axis=0))
    z, x = z - centre, x - centre
    inverse = (1.0 / square)[:, None, :]
    weighted = x * inverse
    num_sets, num_rows, num_inputs = weighted.shape
    right = jnp.concatenate(
        [
            -2.0 * weighted,
            jnp.broadcast_to(inverse, weighted.shape),
            jnp.sum(weighted * x, axis=2, keepdims=True),
        ],
        axis=2,
    ).reshape(num_sets * num_rows, 2 * num_inputs + 1)
    left = jnp.concatenate([z, z * z, jnp.ones_like(z[:, :1])], axis=1)
    distance = (left @ right.T).reshape(z.shape[0], num_sets, num_rows)
    value = jnp.exp(-0.5 * jnp.maximum(distance, 0.0))
    return value, (z, x, inverse[:, 0], value)


def _eq_backward(saved: tuple, cotangent: Array) -> tuple[Array, Array, Array]:
    """With w = -cotangent * value / 2, the derivative in the squared distances,
    sum w (z - x) = z sum w - w x, and likewise for the squares."""
    z, x, inverse, value = saved
    w = -0.5 * cotangent * value
    in_z, in_x = jnp.sum(w, axis=2), jnp.sum(w, axis=0)
    if x.ndim == 2:
        wx = w @ x
        squares = in_x @ (x * x)
        left = (z[:, None, :] * inverse).reshape(-1, z.shape[1])
        wz = transposed_product(w.reshape(len(left), -1), left)
        grad_x = 2.0 * (x * transposed_product(in_x, inverse) - wz)
    else:
        wx = jnp.einsum("mbn,bnp->mbp", w, x)
        squares = jnp.einsum("bn,bnp->bp", in_x, x * x)
        wz = jnp.einsum("mbn,mp->bnp", w, z)
        grad_x = 2.0 * inverse[:, None, :] * (x * in_x[:, :, None] - wz)
    pulled = z[:, None, :] * in_z[:, :, None] - wx
    grad_z = 2.0 * jnp.sum(inverse * pulled, axis=1)
    total = jnp.einsum("mp,mbp->bp", z, pulled - wx) + squares
    return grad_z, grad_x, -(inverse**2) * total


eq_values.defvjp(_eq_forward, _eq_backward)


class EQ(AbstractStationary):
    """The exponentiated quadratic kernel exp(-1/2 sum_p (x_p - z_p)^2 / l_p^2).

    Its variance is 1, because the prior's weights carry the scale. `normalised=True`
    gives the paper's E(tau | 0, L) with L = diag(l^2): the same kernel divided by
    (2 pi)^(P/2) prod l_p.
    """

    name: ClassVar[str] = "eq"

    normalised: bool = eqx.field(static=True)

    def __init__(self, lengthscale: ArrayLike, *, normalised: bool = False):
        super().__init__(lengthscale)
        self.normalised = normalised

    def _log_variance(self) -> Float[Array, ""]:
        """log k(x, x)."""
        if not self.normalised:
            return jnp.zeros((), self.log_lengthscale.dtype)
        num_inputs = self.log_lengthscale.shape[-1]
        return -jnp.sum(self.log_lengthscale) - 0.5 * num_inputs * LOG_2PI

    def __call__(
        self, x: Float[Array, "N P"], z: Float[Array, "M P"]
    ) -> Float[Array, "N M"]:
        inverse = jnp.exp(-self.log_lengthscale)
        distance = squared_distance(x * inverse, z * inverse)
        return jnp.exp(self._log_variance() - 0.5 * distance)

    def diagonal(self, x: Float[Array, "N P"]) -> Float[Array, " N"]:
        return jnp.full(x.shape[:1], jnp.exp(self._log_variance()))
