"""log E[exp(log_fn(f))] under one or two Gaussians, wherever the integrand may lie, in
NumPy.

A likelihood may be far narrower than q(f), or lie in its tail. So the integrand is
located first, by its values on grids; with two functions, by Laplace's approximation of
the integral over the second. Then the trapezoid rule integrates it, whose error falls
exponentially for a smooth integrand that vanishes at both ends. `log_integrals` has the
same for any likelihood, in JAX.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import wrightomega

from motleygp.numerics.packed import TINY_VARIANCE, covariance

_LOG_2PI = math.log(2.0 * math.pi)
# Nothing is left of an integrand that is this far below its top, in nats.
_FALL = 32.0
_REACH = math.sqrt(2.0 * _FALL)  # the same, in standard deviations of a Gaussian
# The grids that locate it: the nodes on each side of the middle, the share to which a
# stretch must shrink for another look, and the looks, at most.
_HALF, _SHRUNK, _LOOKS = 16, 0.6, 12
_ROUNDING = 1e-14
# The numbers of nodes, so that few sizes serve all rows, and pairs of nodes at a time.
_SIZES = np.array([16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512, 1024])
_PAIRS = 1 << 14
# The search for the mode of an inner integrand ends this close to it, in its widths.
_CLOSE, _NUM_NEWTON = 0.5, 60

# A log density at values of f, of shape (N, K); further arguments are rows, (N, 1).
LogFn = Callable[..., np.ndarray]
Rows = Float[np.ndarray, " N"]


class _Fineness(NamedTuple):
    """The nodes of a rule: the first reach of the search in standard deviations, the
    fewest, and their largest distance."""

    reach: float
    fewest: int
    spacing: float


# In one dimension a node costs little; the outer integral of two has an inner one.
_ONE = _Fineness(reach=1e4, fewest=128, spacing=0.25)
_OUTER = _Fineness(reach=300.0, fewest=32, spacing=0.3)
# The distance of inner and of outer nodes, in widths of what they integrate; where in
# the outer stretch that width is taken; and the most that a peak adds to its square.
_WIDTHS, _NEAR = 0.65, 0.5
_UPPER, _WIDEST_PEAK = 0.85, 0.4


class Ridge(NamedTuple):
    """log p(y | f, g) as a function of g, in which it has one mode; the mode moves with
    f as f + const, nearly. Further arguments are columns of rows, of shape (N, 1)."""

    log_prob: LogFn
    """log p(y | f, g)."""
    peak: Callable[..., tuple[np.ndarray, np.ndarray]]
    """The mode in g given f, and the curvature there, positive; roughly."""
    slope: Callable[..., tuple[np.ndarray, np.ndarray]]
    """The derivative in g, and minus the second one."""


@np.errstate(all="ignore")
def log_expect_exp_of_one(log_fn: LogFn, mean: Rows, var: Rows, *args: Any) -> Rows:
    """log E[exp(log_fn(f, *args))] for f ~ N(mean, var), one row each."""
    v = np.maximum(var, TINY_VARIANCE)

    def log_joint(f: np.ndarray, m: np.ndarray, v: np.ndarray, *args: Any) -> Any:
        return _proper(log_fn(f, *args)) - 0.5 * ((f - m) ** 2 / v)

    rows = (mean, v, *args)
    low, high = _located(log_joint, mean, np.sqrt(v), _ONE.reach, rows)
    total = np.empty(mean.shape)
    for size, own in _alike(_number(low, high, _ONE)):
        f, spacing = _even(low[own], high[own], size)
        total[own] = _log_sum(log_joint(f, *_columns(rows, own))) + np.log(spacing)
    return total - 0.5 * (_LOG_2PI + np.log(v))


@np.errstate(all="ignore")
def log_expect_exp_of_two(
    ridge: Ridge,
    mean: Float[np.ndarray, "2 N"],
    var: Float[np.ndarray, "V N"],
    *args: Any,
) -> Rows:
    """log E[p(y | f, g)] for Gaussian (f, g): the integral over g given f lies inside
    the one over f."""
    v, c = np.maximum(var[0], TINY_VARIANCE), covariance(var, 2, 0, 1)
    slope = c / v
    rest = np.maximum(var[1] - slope * c, _ROUNDING * var[1] + TINY_VARIANCE)

    def given(f: np.ndarray, *rows: Any) -> tuple[np.ndarray, np.ndarray, tuple]:
        """log N(f), E[g | f] and the rest, up to a constant."""
        m, v, n, k, *others = rows
        return -0.5 * ((f - m) ** 2 / v), n + k * (f - m), tuple(others)

    def laplace(f: np.ndarray, *rows: Any) -> np.ndarray:
        outer, centre, (rest, *args) = given(f, *rows)
        mode, width = _mode(ridge, f, centre, rest, *args)
        height = ridge.log_prob(f, mode, *args) - 0.5 * (mode - centre) ** 2 / rest
        return _proper(outer + height + np.log(width))

    rows = (mean[0], v, mean[1], slope, rest, *args)
    low, high = _located(laplace, mean[0], np.sqrt(v), _OUTER.reach, rows)
    width = _outer_width(ridge, low, high, slope, rest, args)
    total = np.empty(v.shape)
    for size, own in _alike(_number(low, high, _OUTER, _NEAR * width)):
        for part in _parts(own, size):
            f, spacing = _even(low[part], high[part], size)
            outer, centre, (own_rest, *own_args) = given(f, *_columns(rows, part))
            inner = _log_inner(ridge, f, outer, centre, own_rest, own_args)
            total[part] = _log_sum(_proper(outer + inner)) + np.log(spacing)
    return total - 0.5 * (2.0 * _LOG_2PI + np.log(v) + np.log(rest))


def _outer_width(
    ridge: Ridge, low: Rows, high: Rows, slope: Rows, rest: Rows, args: tuple
) -> Rows:
    """The width in f of the stretch where the peak in g, f + const, meets E[g | f]."""
    # The peak is narrowest far up in f, where little is left of the integrand.
    upper = (low + _UPPER * (high - low))[:, None]
    _, curvature = ridge.peak(upper, *_columns(args, slice(None)))
    inner = np.sqrt(rest + np.minimum(1.0 / curvature[:, 0], _WIDEST_PEAK))
    return inner / np.maximum(np.abs(slope - 1.0), 1e-3)


def _log_inner(
    ridge: Ridge,
    f: Float[np.ndarray, "N K"],
    outer: Float[np.ndarray, "N K"],
    centre: Float[np.ndarray, "N K"],
    rest: Float[np.ndarray, "N 1"],
    args: list[np.ndarray],
) -> Float[np.ndarray, "N K"]:
    """log of the integral over g of p(y | f, g) exp(-(g - centre)^2 / 2 rest)."""
    mode, width = _mode(ridge, f, centre, rest, *args)

    def height(f: Any, g: Any, centre: Any, rest: Any, args: Any) -> np.ndarray:
        return _proper(ridge.log_prob(f, g, *args) - 0.5 * (g - centre) ** 2 / rest)

    top = height(f, mode, centre, rest, args)
    ends = []
    for sign in (-1.0, 1.0):
        # What is left at the end of a Gaussian window says how much longer it must be:
        # further out, the log density falls at least like a line.
        length = _REACH * width
        fallen = top - height(f, mode + sign * length, centre, rest, args)
        longer = np.maximum(_FALL / np.maximum(fallen, 0.1), 1.0)
        ends.append(sign * np.minimum(length * longer, _REACH * np.sqrt(rest)))
    spacing = np.minimum(_WIDTHS * width, _OUTER.spacing)
    matters = outer + top + np.log(width)
    matters = matters >= np.max(matters, axis=-1, keepdims=True) - _FALL
    asked = np.where(matters, (ends[1] - ends[0]) / spacing, 0.0)
    found = np.empty(f.shape)
    for size, own in _alike(_rounded(np.max(asked, axis=-1))):
        for part in _parts(own, size * f.shape[1]):
            low, high = (mode[part] + end[part] for end in ends)
            g, step = _even(low, high, size)
            lifted = (a[part][..., None] for a in (f, centre))
            f_own, c_own = lifted
            own_args = [a[part][..., None] for a in args]
            value = height(f_own, g, c_own, rest[part][..., None], own_args)
            value -= top[part][..., None]
            found[part] = np.log(np.sum(np.exp(value), axis=-1) * step)
    return found + top


def _mode(
    ridge: Ridge,
    f: Float[np.ndarray, "N K"],
    centre: Float[np.ndarray, "N K"],
    rest: Float[np.ndarray, "N 1"],
    *args: Any,
) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, "N K"]]:
    """The mode in g of p(y | f, g) N(g | centre, rest), nearly, and the width there.

    Next to its peak, most log densities are like -k (exp t - 1 - t), with t = g - peak.
    With that one, the mode is known: t + s^2 k (exp t - 1) = centre - peak is solved by
    Wright's omega. From there Newton's method, between the peak and the centre.
    """
    own, curvature = ridge.peak(f, *args)
    weight = curvature * rest
    away = centre - own + weight
    g = own + away - wrightomega(away + np.log(weight))
    low, high = np.minimum(own, centre), np.maximum(own, centre)
    g = np.where(np.isnan(g), centre, np.clip(g, low, high))
    shape = f.shape
    each = [np.broadcast_to(a, shape).ravel() for a in (f, centre, rest, *args)]
    low, high, g = (a.ravel().copy() for a in (low, high, g))
    width, left = np.empty(g.shape), np.arange(g.size)
    for _ in range(_NUM_NEWTON):
        at, (f_own, c_own, r_own, *others) = g[left], [a[left] for a in each]
        first, second = ridge.slope(f_own, at, *others)
        first = first - (at - c_own) / r_own
        second = 1.0 / r_own + np.maximum(np.nan_to_num(second), 0.0)
        width[left] = 1.0 / np.sqrt(second)
        far = np.abs(first) > _CLOSE * np.sqrt(second)
        far &= high[left] - low[left] > _ROUNDING * (1.0 + np.abs(at))
        left, at, step = left[far], at[far], (first / second)[far]
        if not left.size:
            break
        rising = step > 0
        low[left] = np.where(rising, at, low[left])
        high[left] = np.where(rising, high[left], at)
        there = at + step
        inside = (there > low[left]) & (there < high[left])
        g[left] = np.where(inside, there, 0.5 * (low[left] + high[left]))
    return g.reshape(shape), width.reshape(shape)


def _located(
    log_fn: LogFn, centre: Rows, scale: Rows, reach: float, rows: tuple
) -> tuple[Rows, Rows]:
    """The ends of a stretch outside of which nothing is left of exp(log_fn)."""
    steps = np.arange(-_HALF, _HALF + 1) / _HALF
    first = np.sinh(math.asinh(reach) * steps)
    f = centre[:, None] + scale[:, None] * first
    low, high = _stretch(f, log_fn(f, *_columns(rows, slice(None))))
    left = np.arange(len(centre))
    for _ in range(_LOOKS):
        f, _ = _even(low[left], high[left], len(steps))
        ends = _stretch(f, log_fn(f, *_columns(rows, left)))
        shrunk = ends[1] - ends[0] < _SHRUNK * (high[left] - low[left])
        low[left], high[left] = ends
        left = left[shrunk]
        if not left.size:
            break
    return low, high


def _stretch(
    f: Float[np.ndarray, "N K"], value: Float[np.ndarray, "N K"]
) -> tuple[Rows, Rows]:
    """The ends of what matters: from the node before the first that is not far below
    the top, to the node after the last."""
    matters = value >= np.max(value, axis=-1, keepdims=True) - _FALL
    size, rows = f.shape[-1], np.arange(len(f))
    first = np.maximum(np.argmax(matters, axis=-1) - 1, 0)
    last = np.minimum(size - np.argmax(matters[:, ::-1], axis=-1), size - 1)
    return f[rows, first], f[rows, last]


def _even(low: np.ndarray, high: np.ndarray, size: int) -> tuple[np.ndarray, Any]:
    """Even nodes along a new last axis, and their distance."""
    steps = np.linspace(0.0, 1.0, size)
    return low[..., None] + (high - low)[..., None] * steps, (high - low) / (size - 1)


def _number(
    low: Rows, high: Rows, fineness: _Fineness, spacing: Any = np.inf
) -> np.ndarray:
    asked = (high - low) / np.minimum(spacing, fineness.spacing)
    return _rounded(np.maximum(asked, fineness.fewest))


def _rounded(asked: np.ndarray) -> np.ndarray:
    """The number of nodes of each row, among a few."""
    place = np.searchsorted(_SIZES, np.nan_to_num(asked))
    return _SIZES[np.minimum(place, len(_SIZES) - 1)]


def _alike(sizes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of each number of nodes."""
    for size in np.unique(sizes):
        yield int(size), np.flatnonzero(sizes == size)


def _parts(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Some rows at a time, so that their nodes fit in the cache."""
    return np.array_split(rows, max(1, math.ceil(len(rows) * size / _PAIRS)))


def _columns(rows: tuple, which: Any) -> list[np.ndarray]:
    return [row[which][:, None] for row in rows]


def _proper(value: np.ndarray) -> np.ndarray:
    """Minus infinity for what is not a number."""
    return np.where(np.isnan(value), -np.inf, value)


def _log_sum(value: Float[np.ndarray, "N K"]) -> Rows:
    top = np.max(value, axis=-1)
    top = np.where(np.isfinite(top), top, 0.0)
    return top + np.log(np.sum(np.exp(value - top[:, None]), axis=-1))
