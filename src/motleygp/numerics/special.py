"""Special functions written for speed and for arguments of any size.

XLA's log-gamma on a CPU costs about thirty exponentials. The likelihoods need it in
x log x - x - log Gamma(x), whose terms nearly cancel for large x, so this module
computes the difference itself: it grows only like log x.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motleygp.numerics.library import library_of

_SHIFT = 8.0
_MANY = 1e4
_CONSTANT = 0.5 * math.log(2.0 * math.pi)
# B_2k / (2k (2k - 1)): Stirling's series of log Gamma in 1/x, highest order first.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
# (2k - 1) times these: minus the derivative of the series.
_STIRLING_SLOPE = tuple(
    c * (2 * len(_STIRLING) - 2 * i - 1) for i, c in enumerate(_STIRLING)
)
# B_2k: the series of trigamma, highest order first.
_TRIGAMMA = (-691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)
# x (x + 1) ... (x + 7) = t (t + 6) (t + 10) (t + 12) with t = x (x + 7), and the
# derivative in t; highest order first.
_RISING = (1.0, 28.0, 252.0, 720.0, 0.0)
_RISING_SLOPE = (4.0, 84.0, 504.0, 720.0)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    value = library_of(x).full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def stirling_remainder(x: Any) -> Any:
    """x log x - x - log Gamma(x) for x > 0, in the library of x.

    It behaves like log x for x -> 0 and like 1/2 log(x / 2 pi) for x -> infinity, so it
    loses no digits where log Gamma(x) itself is of the order of 1e14.
    """
    return _remainder(x) if library_of(x) is np else _remainder_in_jax(x)


def _remainder(x: Any) -> Any:
    # Stirling's series holds to 2e-14 for x >= 8. Below 8, Gamma(x) is Gamma(x + 8)
    # divided by x (x + 1) ... (x + 7).
    library = library_of(x)
    small, y = _shifted(x)
    inverse, log_y = 1.0 / y, library.log(y)
    series = inverse * _horner(_STIRLING, inverse * inverse)
    inside = library.minimum(x, _SHIFT)
    rising = library.log(_horner(_RISING, inside * (inside + 7.0)))
    shifted = x * (library.log(x) - log_y) + rising - 8.0 * log_y + _SHIFT
    return 0.5 * log_y + small * shifted - series - _CONSTANT


def _shifted(x: Any) -> tuple[Any, Any]:
    """1 where x < 8, else 0; and x + 8 where x < 8, else x.

    By arithmetic: a select would make the compiler branch around the logarithms, and
    a loop with a branch is not vectorised (twice as slow overall).
    """
    if library_of(x) is np:
        small = np.asarray(x < _SHIFT, dtype=float)
        return small, x + _SHIFT * small
    # A constant: its derivative is zero except at the jump.
    small = jax.lax.stop_gradient(jnp.clip((_SHIFT - x) * 1e300, 0.0, 1.0))
    return small, x + _SHIFT * small


_remainder_in_jax = jax.custom_jvp(_remainder)


@_remainder_in_jax.defjvp
def _remainder_jvp(primals: tuple, tangents: tuple) -> tuple:
    (x,), (tangent,) = primals, tangents
    return _remainder_in_jax(x), stirling_remainder_slope(x) * tangent


def stirling_remainder_slope(x: Any) -> Any:
    """log x - digamma(x), in the library of x."""
    library = library_of(x)
    small, y = _shifted(x)
    inverse = 1.0 / y
    square = inverse * inverse
    series = inverse * 0.5 + square * _horner(_STIRLING_SLOPE, square)
    inside = library.minimum(x, _SHIFT)
    t = inside * (inside + 7.0)
    rising = (2.0 * inside + 7.0) * _horner(_RISING_SLOPE, t) / _horner(_RISING, t)
    return series + small * (library.log(x) - library.log(y) + rising)


def trigamma_excess(x: np.ndarray) -> np.ndarray:
    """trigamma(x) - 1 / x to a relative 1e-6, in NumPy."""
    # By the recurrence, the series is needed from 3 only.
    y = np.minimum(x, _MANY) + 3.0
    inverse = 1.0 / y
    square = inverse * inverse
    series = inverse + 0.5 * square + inverse * square * _horner(_TRIGAMMA, square)
    series = series + sum(1.0 / (x + k) ** 2 for k in range(3)) - 1.0 / x
    return np.where(x < _MANY, series, (0.5 + 1.0 / (6.0 * x)) / x**2)
