"""The log density of a Beta as a function of log b, given log a, in NumPy.

Its slope in g = log b is A(g) - b l, with A(g) = b [psi(n) - psi(b)], n = a + b and
l = -log(1 - y). All functions take f = log a, and y, log y and log(1 - y).
"""

import numpy as np
import scipy.special

from motleygp.likelihoods._quantiles import Line
from motleygp.numerics.integrals import Ridge
from motleygp.numerics.library import sigmoid, softplus
from motleygp.numerics.special import (
    stirling_remainder,
    stirling_remainder_slope,
    trigamma_excess,
)

# The search for the peak, and the least share of the slope in log A that it trusts.
_NUM_NEWTON, _LEAST = 3, 0.02
_LARGEST = 46.0  # a log size


def log_prob_of_positives(
    f: np.ndarray, g: np.ndarray, y: np.ndarray, log_y: np.ndarray, log_1_y: np.ndarray
) -> np.ndarray:
    """`Beta.log_prob` with the divergence as a sum of positive terms, whose rounding
    grows like sqrt(a + b): a wide q(f) has values of 1e15.

    With p = a / n, it is n [D(p, y) + D(1 - p, 1 - y)], where
    D(p, y) = p log(p / y) - p + y.
    """
    (a, b), d = _sizes(f, g), f - g
    n, away = a + b, np.log1p(np.exp(-np.abs(d)))
    u = -away - np.maximum(-d, 0.0) - log_y
    v = -away - np.maximum(d, 0.0) - log_1_y
    in_a = a * u - n * (y * np.expm1(u))
    in_b = b * v - n * ((1.0 - y) * np.expm1(v))
    remainders = stirling_remainder(a) + stirling_remainder(b) - stirling_remainder(n)
    # Neither is negative, but rounding would make them so for n beyond 1e30.
    divergence = np.maximum(in_a, 0.0) + np.maximum(in_b, 0.0)
    return remainders - divergence - log_y - log_1_y


def _sizes(f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a and b, or sizes in the same proportion of which p = a / n has enough digits:
    p(y | f) is as good as a step in f - g for all larger ones."""
    lowered = np.maximum(np.minimum(f, g) - _LARGEST, 0.0)
    return np.exp(f - lowered), np.exp(g - lowered)


def _gain(f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """b, psi(n) - psi(b) and b^2 [psi'(b) - psi'(n)] = A(g) - A'(g)."""
    a, b = _sizes(f, g)
    n = a + b
    gap = stirling_remainder_slope(b) - stirling_remainder_slope(n)
    excess = trigamma_excess(b) - trigamma_excess(n)
    return b, softplus(f - g) + gap, a * b / n + b * (b * excess)


def _peak(
    f: np.ndarray, y: np.ndarray, log_y: np.ndarray, log_1_y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    # By A / b = l: log(A / b) falls by one per unit of g where b is small or large.
    a, rate = np.exp(f), -log_1_y
    # a (1 - y) / y if that is large; else the solution for A = a / n.
    small = 2.0 / (rate + np.sqrt(rate**2 + 4.0 * rate / a))
    g = np.log(small + a * np.exp(log_1_y - log_y))
    curvature = np.ones_like(g)
    for _ in range(_NUM_NEWTON):
        b, gain, curvature = _gain(f, g)
        fall = np.clip(curvature / (b * gain), _LEAST, 1.0)
        g = g + (np.log(gain) - np.log(rate)) / fall
    return g, curvature


def _slope(
    f: np.ndarray,
    g: np.ndarray,
    y: np.ndarray,
    log_y: np.ndarray,
    log_1_y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    b, gain, curvature = _gain(f, g)
    first = b * (gain + log_1_y)
    return first, curvature - first


RIDGE = Ridge(log_prob_of_positives, _peak, _slope)


# p of t = logit y.


def _place(f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.exp(f), np.exp(g)
    variance = trigamma_excess(a) + trigamma_excess(b) + 1.0 / a + 1.0 / b
    return scipy.special.psi(a) - scipy.special.psi(b), variance


def _terms(f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # y (1 - y) p(y) = y^a (1 - y)^b / B(a, b).
    a, b = np.exp(f), np.exp(g)
    gammaln = scipy.special.gammaln
    return a, b, gammaln(a + b) - gammaln(a) - gammaln(b)


LINE = Line(
    _place,
    _terms,
    lambda t: (-softplus(-t), -softplus(t)),
    lambda t, f, g: scipy.special.betainc(np.exp(f), np.exp(g), sigmoid(t)),
)
