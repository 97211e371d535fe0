"""The exponentiated quadratic kernel, in matrix form."""

import functools as ft
import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

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
    z: Float[Array, "M P"],
    x: Float[Array, "*B N P"],
    square: Float[Array, "B P"],
    scale: Float[Array, " B"],
) -> Float[Array, "M B N"]:
    """scale_b exp(-1/2 sum_p (z_mp - x_np)^2 / square_bp), for B sets of squared
    length-scales.

    `x` is one set of rows for all B, or one set for each.
    """
    return _values_forward(z, x, square, scale)[0]


@jax.custom_vjp
def eq_mixture(
    z: Float[Array, "M P"],
    x: Float[Array, "N P"],
    square: Float[Array, "B P"],
    scale: Float[Array, " B"],
) -> Float[Array, "M N"]:
    """The sum of the `eq_values` of all sets."""
    return _mixture_forward(z, x, square, scale)[0]


class _Saved(NamedTuple):
    """What the derivative needs: both sides of the product that has the squared
    distances, how they depend on z, x and the squares, and the exponentials."""

    left: Float[Array, "M K"]
    right: Float[Array, "K B N"]
    pull: Callable[[tuple[Array, Array]], tuple[Array, Array, Array]]
    scale: Float[Array, " B"]
    value: Float[Array, "M B N"]


def _sides(z: Array, x: Array, square: Array) -> tuple[Array, Array]:
    """(z, z^2, 1), and (-2 x / square, 1 / square, sum x^2 / square) for each set, both
    centred at the mean of z as in `squared_distance`."""
    centre = jax.lax.stop_gradient(jnp.mean(z, axis=0))
    z, x = z - centre, jnp.moveaxis(x - centre, -1, 0)
    if x.ndim == 2:
        x = x[:, None]
    inverse = 1.0 / square.T[:, :, None]
    weighted = x * inverse
    inverse = jnp.broadcast_to(inverse, weighted.shape)
    norm = jnp.sum(weighted * x, axis=0, keepdims=True)
    right = jnp.concatenate([-2.0 * weighted, inverse, norm])
    return jnp.concatenate([z, z * z, jnp.ones_like(z[:, :1])], axis=1), right


def _exponentials(z: Array, x: Array, square: Array, scale: Array) -> _Saved:
    (left, right), pull = jax.vjp(_sides, z, x, square)
    columns = right.reshape(len(right), -1)
    # One more column than is needed: XLA would else put the exponentials in the place
    # of the distances, and does not vectorise a loop in place (four times as slow).
    columns = jnp.pad(columns, ((0, 0), (0, 1)))
    value = jnp.exp(-0.5 * jnp.maximum((left @ columns)[:, :-1], 0.0))
    return _Saved(left, right, pull, scale, value.reshape(-1, *right.shape[1:]))


def _pulled(saved: _Saved, cotangent: Float[Array, "M #B N"]) -> tuple[Array, ...]:
    """The derivatives in z, x, the squares and the scales.

    With G the cotangent times the exponentials, those in the sides are products of G
    with the other side; differentiating the forward pass would build everything B
    times.
    """
    left, right, pull, scale, value = saved
    weighted = (cotangent * value).reshape(len(value), -1)
    half = -0.5 * scale[:, None]
    in_left = weighted @ (half * right).reshape(len(right), -1).T
    sums = transposed_product(left, weighted).reshape(right.shape)
    # The last column of the left side is 1.
    return *pull((in_left, half * sums)), jnp.sum(sums[-1], axis=1)


def _values_forward(
    z: Array, x: Array, square: Array, scale: Array
) -> tuple[Array, _Saved]:
    saved = _exponentials(z, x, square, scale)
    return scale[:, None] * saved.value, saved


def _mixture_forward(
    z: Array, x: Array, square: Array, scale: Array
) -> tuple[Array, _Saved]:
    saved = _exponentials(z, x, square, scale)
    # Term by term: a few additions of matrices are faster than a contraction over the
    # middle axis.
    terms = (scale[b] * saved.value[:, b] for b in range(len(scale)))
    return ft.reduce(jnp.add, terms), saved


eq_values.defvjp(_values_forward, _pulled)
eq_mixture.defvjp(_mixture_forward, lambda saved, c: _pulled(saved, c[:, None]))


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
