"""Quantiles by root finding, for all rows and levels at once.

The search is for the root of Phi^-1(cdf) - Phi^-1(level), which is close to a line for
most distributions, so few evaluations of the cdf are needed.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy.special
from jaxtyping import Float

# The search ends here, near the limits of floats.
LINE_REACH = 2.0**60
# Its relative error, in y and in the level.
_ROOT_DIGITS = 1e-13
_MOST_STEPS = 200
_HALVINGS, _LARGEST_SINH = 40, 42.0
_TINY, _BELOW_ONE = np.finfo(float).tiny, 1.0 - 2.0**-53

# P(Y <= y) of some rows, at one value for each.
Cdf = Callable[[np.ndarray, np.ndarray], np.ndarray]
Pairs = Float[np.ndarray, " K"]


def _probit(p: np.ndarray) -> np.ndarray:
    return scipy.special.ndtri(np.clip(p, _TINY, _BELOW_ONE))


@np.errstate(over="ignore", invalid="ignore")
def place_on_line(
    from_line: Callable[[np.ndarray], np.ndarray],
    mean: Float[np.ndarray, " N"],
    std: Float[np.ndarray, " N"],
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Where on the real line `from_line` gives the mean, and the standard deviation
    there: of the two sides, the smaller one. 0 and 1 if there is no such place."""
    there = np.stack([mean, mean + std, mean - std])
    low = np.full(there.shape, -_LARGEST_SINH)
    high = -low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = from_line(np.sinh(middle)) < there
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    place = np.sinh(0.5 * (low + high))
    # Values outside the support have their place at an end of the line.
    known = np.isfinite(there) & (np.abs(place) < 0.1 * math.sinh(_LARGEST_SINH))
    length = np.where(known[1:], np.abs(place[1:] - place[0]), np.inf)
    scale = np.min(length, axis=0)
    usable = known[0] & np.isfinite(scale) & (scale > 0.0)
    return np.where(known[0], place[0], 0.0), np.where(usable, scale, 1.0)


@np.errstate(over="ignore", invalid="ignore")
def roots_on_line(
    cdf: Cdf, rows: np.ndarray, levels: Pairs, centre: Pairs, scale: Pairs
) -> Pairs:
    """The t at which the cdf of each row is its level, from the place and the scale of
    its distribution; the end of the range next to it if there is none."""
    target = _probit(levels)

    def excess(t: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = cdf(t, rows[which])
        closest = _ROOT_DIGITS * np.minimum(levels[which], 1.0 - levels[which])
        found = np.abs(value - levels[which]) <= closest
        return np.where(found, 0.0, _probit(value) - target[which]), found

    every = np.arange(len(levels))
    a = centre + scale * target
    f_a, _ = excess(a, every)
    b, f_b = _other_ends(excess, a, f_a, scale)
    best = np.where(np.abs(f_a) < np.abs(f_b), a, b)
    # Without a change of sign there is no root.
    left = every[(f_a != 0.0) & (f_b != 0.0) & (np.sign(f_a) != np.sign(f_b))]
    best[left] = _chandrupatla(excess, left, a[left], f_a[left], b[left], f_b[left])
    return best


def _other_ends(
    excess: Callable, a: Pairs, f_a: Pairs, scale: Pairs
) -> tuple[Pairs, Pairs]:
    """Points on the other side of the roots, and the excess there."""
    step = -scale * (1.2 * f_a + 0.1 * np.sign(f_a))
    step = np.clip(step, -8.0 * scale, 8.0 * scale)
    b, f_b = a.copy(), f_a.copy()
    left = np.flatnonzero(f_a != 0.0)
    while left.size:
        b[left] = a[left] + step[left]
        f_b[left] = excess(b[left], left)[0]
        left = left[(np.sign(f_b) == np.sign(f_a))[left]]
        left = left[np.abs(b[left]) <= LINE_REACH]
        step[left] *= 2.0
    return b, f_b


def _chandrupatla(
    excess: Callable,
    which: np.ndarray,
    a: Pairs,
    f_a: Pairs,
    b: Pairs,
    f_b: Pairs,
) -> Pairs:
    """Roots between a and b by inverse quadratic interpolation where it is safe, and by
    bisection elsewhere (Chandrupatla, 1997)."""
    found = np.where(np.abs(f_a) < np.abs(f_b), a, b)
    place = np.arange(len(which))
    # The first point divides the bracket as the secant does.
    share = np.clip(f_a / (f_a - f_b), 0.01, 0.99)
    for _ in range(_MOST_STEPS):
        t = a + share * (b - a)
        f_t, done = excess(t, which)
        same = np.sign(f_t) == np.sign(f_a)
        c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
        b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
        a, f_a = t, f_t
        nearer = np.abs(f_a) < np.abs(f_b)
        best, width = np.where(nearer, a, b), np.abs(b - a)
        least = 2.0 * _ROOT_DIGITS * np.abs(best) + np.finfo(float).tiny
        found[place] = np.where(done, t, best)
        left = ~done & (f_t != 0.0) & (width > least)
        if not left.any():
            break
        a, f_a, b, f_b, c, f_c, width, least, which, place = (
            v[left] for v in (a, f_a, b, f_b, c, f_c, width, least, which, place)
        )
        xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        safe = (1.0 - np.sqrt(1.0 - xi) < phi) & (phi < np.sqrt(xi))
        with np.errstate(all="ignore"):
            inverse = f_a / (f_b - f_a) * f_c / (f_b - f_c)
            inverse += (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        nearest = np.minimum(0.5, 0.5 * least / width)
        share = np.where(safe & np.isfinite(inverse), inverse, 0.5)
        share = np.clip(share, nearest, 1.0 - nearest)
    return found


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def smallest_integers(
    cdf: Cdf, rows: np.ndarray, levels: Pairs, centre: Pairs, scale: Pairs
) -> Pairs:
    """The smallest integer, not below 0, at which the cdf of each row is at least its
    level, from the place and the scale of its distribution."""
    target = _probit(levels)
    below, above = np.full(levels.shape, -1.0), np.full(levels.shape, np.inf)
    f_below, f_above = np.full((2, *levels.shape), np.nan)
    tried = np.clip(np.floor(centre + scale * target), 0.0, LINE_REACH)
    step, left = np.maximum(np.ceil(0.5 * scale), 1.0), np.arange(len(levels))
    for count in range(_MOST_STEPS):
        own = tried[left]
        value = cdf(own, rows[left])
        reached = (value >= levels[left]) | (own >= LINE_REACH)
        excess = _probit(value) - target[left]
        up, down = left[reached], left[~reached]
        above[up], f_above[up] = own[reached], excess[reached]
        below[down], f_below[down] = own[~reached], excess[~reached]
        middle = np.floor(0.5 * (below + above))
        # Not until they are one apart: beyond 2^53, neighbouring floats are not.
        left = left[(below < middle)[left] & ((middle < above) | np.isinf(above))[left]]
        if not left.size:
            break
        a, b, f_a, f_b = below[left], above[left], f_below[left], f_above[left]
        # Where both ends are as far from the level in probits, no line tells.
        share = np.nan_to_num(np.clip(f_a / (f_a - f_b), 0.0, 1.0), nan=0.5)
        between = middle[left] if count % 3 == 2 else np.round(a + share * (b - a))
        # Until both ends are tried, past the place where a line would end.
        stride = step[left]
        further = np.where(
            np.isinf(b),
            a + np.maximum(np.ceil(-f_a * scale[left]), stride),
            b - np.maximum(np.ceil(f_b * scale[left]), stride),
        )
        step[left] *= 2.0
        open_ended = np.isinf(b) | np.isnan(f_a)
        tried[left] = np.where(open_ended, further, between)
        tried[left] = np.clip(tried[left], a + 1.0, np.minimum(b - 1.0, LINE_REACH))
    return above
