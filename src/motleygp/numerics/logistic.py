"""E[1 / (1 + exp(-f))] for Gaussian f, to all digits for any mean and variance.

With s(f) = 1 / (1 + exp(-f)), s(f) is the step [f > 0] but for s(-|f|), which decays
like exp(-|f|). The step has a closed form, and the rest lies in a window. For a mean
-m <= 0 and a standard deviation v,

    E[s(f)] = Phi(-m / v) + int_0^inf s(-f) [N(f | m, v^2) - N(f | -m, v^2)] df,

in which nothing is negative: small probabilities have all their digits, too.
"""

import functools as ft
import math
from typing import Any

import jax.scipy.special as jsp
import numpy as np
import scipy.special

from motleygp.numerics.library import library_of
from motleygp.numerics.packed import TINY_VARIANCE

# The window ends where the integrand has fallen by exp(-30) from its peak.
_FALL = 30.0
_NUM_NODES = 36
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@ft.cache
def _legendre(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on [0, 1]; its nodes are dense at the ends, next to which s has
    its poles +-i pi."""
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    return 0.5 * (1.0 + nodes), 0.5 * weights


def log_smaller_probability(mean: Any, var: Any, num_nodes: int = _NUM_NODES) -> Any:
    """log E[s(-|mean| + noise)], noise ~ N(0, var), in the library of the arguments: at
    most log 1/2. One rule serves means, densities and distribution functions."""
    library = library_of(mean)
    log_ndtr = scipy.special.log_ndtr if library is np else jsp.log_ndtr
    nodes, weights = _legendre(num_nodes)
    m, v = library.abs(mean), library.maximum(var, TINY_VARIANCE)
    std = library.sqrt(v)
    # The integrand is at most exp(-f) N(f | m, v), up to a constant N(f | m - v, v).
    peak, ahead = library.maximum(m - v, 0.0), library.maximum(v - m, 0.0)
    # From m, in which a small v keeps its digits.
    low = library.maximum(-v - math.sqrt(2.0 * _FALL) * std, -m)
    # To the right of it, -log of the bound is f^2 / 2 v + f ahead / v.
    reach = 2.0 * _FALL * v / (ahead + library.sqrt(ahead**2 + 2.0 * _FALL * v))
    length = reach - library.minimum(v, m) - low
    distance = low[..., None] + length[..., None] * nodes
    f = m[..., None] + distance
    top = -peak - 0.5 * library.minimum(v, m) ** 2 / v
    near, far = distance**2, (f + m[..., None]) ** 2
    decay, half = library.exp(-f), -0.5 / v[..., None]
    lifted = top[..., None]
    bells = library.exp(half * near - f - lifted) - library.exp(half * far - f - lifted)
    inside = (bells / (1.0 + decay)) @ weights
    smallest = np.finfo(float).tiny  # the mean may be 0, and then this is 0
    log_rest = library.log(library.maximum(inside * length / std, smallest))
    return library.logaddexp(log_ndtr(-m / std), top + log_rest - _LOG_SQRT_2PI)


def probability(mean: Any, var: Any, num_nodes: int = _NUM_NODES) -> Any:
    """E[s(f)] for f ~ N(mean, var)."""
    library = library_of(mean)
    smaller = library.exp(log_smaller_probability(mean, var, num_nodes))
    return library.where(mean > 0, 1.0 - smaller, smaller)


def log_probability(mean: Any, var: Any) -> Any:
    """log E[s(f)] for f ~ N(mean, var)."""
    library = library_of(mean)
    log_smaller = log_smaller_probability(mean, var)
    log_larger = library.log1p(-library.exp(log_smaller))
    return library.where(mean > 0, log_larger, log_smaller)
