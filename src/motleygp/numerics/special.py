"""Special functions written for speed and for arguments of any size.

XLA's log-gamma on a CPU costs about thirty exponentials. The likelihoods need it in
x log x - x - log Gamma(x), whose terms nearly cancel for large x, so this module
computes the difference itself: it grows only like log x.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SHIFT = 8.0
_CONSTANT = 0.5 * math.log(2.0 * math.pi)
# B_2k / (2k (2k - 1)): Stirling's series of log Gamma in 1/x, highest order first.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
# (2k - 1) times these: minus the derivative of the series.
_STIRLING_SLOPE = tuple(
    c * (2 * len(_STIRLING) - 2 * i - 1) for i, c in enumerate(_STIRLING)
)
# x (x + 1) ... (x + 7) = t (t + 6) (t + 10) (t + 12) with t = x (x + 7), and the
# derivative in t; highest order first.
_RISING = (1.0, 28.0, 252.0, 720.0, 0.0)
_RISING_SLOPE = (4.0, 84.0, 504.0, 720.0)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


@jax.custom_jvp
def stirling_remainder(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x log x - x - log Gamma(x) for x > 0.

    It behaves like log x for x -> 0 and like 1/2 log(x / 2 pi) for x -> infinity, so it
    loses no digits where log Gamma(x) itself is of the order of 1e14.
    """
    # Stirling's series holds to 2e-14 for x >= 8. Below 8, Gamma(x) is Gamma(x + 8)
    # divided by x (x + 1) ... (x + 7).
    small, y = _shifted(x)
    inverse, log_y = 1.0 / y, jnp.log(y)
    series = inverse * _horner(_STIRLING, inverse * inverse)
    inside = jnp.minimum(x, _SHIFT)
    rising = jnp.log(_horner(_RISING, inside * (inside + 7.0)))
    shifted = x * (jnp.log(x) - log_y) + rising - 8.0 * log_y + _SHIFT
    return 0.5 * log_y + small * shifted - series - _CONSTANT


def _shifted(x: Array) -> tuple[Array, Array]:
    """1 where x < 8, else 0; and x + 8 where x < 8, else x.

    By arithmetic: a select would make the compiler branch around the logarithms, and
    a loop with a branch is not vectorised (twice as slow overall).
    """
    # A constant: its derivative is zero except at the jump.
    small = jax.lax.stop_gradient(jnp.clip((_SHIFT - x) * 1e300, 0.0, 1.0))
    return small, x + _SHIFT * small


@stirling_remainder.defjvp
def _stirling_remainder_jvp(primals: tuple, tangents: tuple) -> tuple:
    (x,), (tangent,) = primals, tangents
    return stirling_remainder(x), _stirling_remainder_slope(x) * tangent


def _stirling_remainder_slope(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log x - digamma(x)."""
    small, y = _shifted(x)
    inverse = 1.0 / y
    square = inverse * inverse
    series = inverse * 0.5 + square * _horner(_STIRLING_SLOPE, square)
    inside = jnp.minimum(x, _SHIFT)
    t = inside * (inside + 7.0)
    rising = (2.0 * inside + 7.0) * _horner(_RISING_SLOPE, t) / _horner(_RISING, t)
    return series + small * (jnp.log(x) - jnp.log(y) + rising)
