"""Quantiles of a continuous output with two functions, all levels at once.

The predictive density is a sum over nodes of f that are the same for all y. It is an
exponential of few terms at each, so a row has it at the nodes of a polynomial on the
stretch that holds the quantiles. The cdf at the lower end of it, by the same nodes of
f, and the integral of the polynomial make the cdf there.
"""

import functools as ft
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Float
from numpy.polynomial import chebyshev

from motleygp.numerics.chunks import chunks
from motleygp.numerics.packed import colour

# The nodes of f: an even grid in white noise, within this reach. Every other row,
# column or diagonal of it make three more rules. The largest of their errors is the
# fourth root of that of the whole, if all are of the form exp(-c / spacing^2). They
# are not where p(t | f) is like exp(-exp f), so the nodes must be close in f, too; nor
# where its width in f varies much, so f must not have a wide distribution.
_REACH = 6.0
_LARGEST_ERROR, _LARGEST_STEP, _WIDEST = 1e-3, 0.45, 0.9
# The size of the last coefficients of the polynomial, at most.
_LARGEST_REST = 3e-9
# Levels next to 0 and 1 need nodes of f beyond the reach.
LEAST_LEVEL = 1e-3
# Sizes beyond which an exponent loses digits.
_LARGEST_SIZE = 1e5
# The spacing of the nodes, and the degree of the polynomial: for most rows, and for the
# others. The fewest degrees per standard deviation of the stretch.
_FINENESS, _FEWEST = ((0.7, 46), (0.5, 52), (0.35, 96)), 7.0
# The ends of the stretch: their margin in standard deviations, and the probability
# beyond them, as a share of that beyond the outermost level, by a rough rule.
_MARGIN, _BEYOND, _LOOKS = 0.4, 0.8, 24
_NUM_NEWTON = 8
# Rows at a time, which limits the memory; and pairs of nodes of f and t.
_CHUNK_ROWS, _PAIRS = 512, 1 << 15

Nodes = Float[np.ndarray, "N K"]


class Line(NamedTuple):
    """p(t | f) of the place t of y on the real line."""

    place: Callable[[Nodes, Nodes], tuple[Nodes, Nodes]]
    """E[t | f] and var[t | f]."""
    terms: Callable[[Nodes, Nodes], tuple[Nodes, Nodes, Nodes]]
    """The coefficients A, B and C of log p(t | f) = A u(t) + B v(t) + C."""
    features: Callable[[Nodes], tuple[Nodes, Nodes]]
    """u and v."""
    cdf: Callable[[Nodes, Nodes, Nodes], Nodes]
    """P(T <= t | f)."""


@np.errstate(all="ignore")
def quantiles_on_line(
    line: Line,
    levels: Float[np.ndarray, " K"],
    mean: Float[np.ndarray, "2 N"],
    var: Float[np.ndarray, "V N"],
) -> Float[np.ndarray, "N K"]:
    """The t at which P(T <= t) is each level; NaN where p(t | f) is too narrow in f for
    the nodes, and for levels next to 0 and 1."""
    found = np.full((mean.shape[1], len(levels)), np.nan)
    inner = np.abs(levels - 0.5) <= 0.5 - LEAST_LEVEL
    if not inner.any():
        return found
    stretch = _stretches(line, levels[inner], mean, var)
    widest = np.sqrt(np.max(var[:2], axis=0))
    for rows in chunks(mean.shape[1], _CHUNK_ROWS):
        left = rows.start + np.flatnonzero(widest[rows] <= _WIDEST)
        for spacing, degree in _FINENESS:
            fine = spacing * widest[left] <= _LARGEST_STEP
            now = left[fine & (_FEWEST * stretch.length[left] <= degree)]
            if not now.size:
                continue
            ends = stretch.low[now], stretch.high[now]
            own = _Rows(line, mean[:, now], var[:, now], *ends, spacing, degree)
            roots, error = own.roots(levels[inner])
            good = error <= _LARGEST_ERROR
            found[np.ix_(now[good], inner)] = roots[good]
            left = np.setdiff1d(left, now[good])
    return found


class _Stretches(NamedTuple):
    """The stretch of each row that holds its quantiles."""

    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    length: Float[np.ndarray, " N"]
    """In standard deviations."""


def _stretches(
    line: Line,
    levels: Float[np.ndarray, " K"],
    mean: Float[np.ndarray, "2 N"],
    var: Float[np.ndarray, "V N"],
) -> _Stretches:
    """From the mean and the variance, and longer where these tell too little; by a few
    nodes of f, which is enough for a start."""
    z, share = _few_nodes()
    f = mean[..., None] + colour(var, z)
    centres, within = line.place(*f)
    centre = centres @ share
    std = np.sqrt((within + (centres - centre[:, None]) ** 2) @ share)
    ends = []
    for level, sign in ((levels.min(), -1.0), (levels.max(), 1.0)):
        end = centre + std * (scipy.special.ndtri(level) + sign * _MARGIN)
        for _ in range(_LOOKS):
            beyond = line.cdf(end[:, None], *f) @ share
            beyond = beyond if sign < 0 else 1.0 - beyond
            short = beyond > _BEYOND * (level if sign < 0 else 1.0 - level)
            if not short.any():
                break
            end = end + sign * _MARGIN * std * short
        ends.append(end)
    low, high = ends
    return _Stretches(low, high, (high - low) / std)


class _Rows:
    """The cdf of some rows, each on a stretch of its own."""

    def __init__(
        self,
        line: Line,
        mean: Float[np.ndarray, "2 N"],
        var: Float[np.ndarray, "V N"],
        low: Float[np.ndarray, " N"],
        high: Float[np.ndarray, " N"],
        spacing: float,
        degree: int,
    ):
        self.line, self.low, self.high, self.degree = line, low, high, degree
        z, self.weights = _grid(spacing)
        self.f = mean[..., None] + colour(var, z)
        self.terms = line.terms(*self.f)

    def roots(
        self, levels: Float[np.ndarray, " K"]
    ) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, " N"]]:
        """The quantiles, and the error of the cdf by half of the nodes; infinite if the
        stretch is too short, or the polynomial or the terms have too few digits."""
        half_length = 0.5 * (self.high - self.low)
        first = self.weights @ self.line.cdf(self.low[:, None], *self.f).T
        cdf = _polynomial(self.degree).integral @ self._density() * half_length
        cdf[:, 0] += first
        values = _polynomial(self.degree).values @ cdf
        x = self._inverse(levels, cdf[0], values[0])
        error = np.max(np.abs(values[1:] - values[0]), axis=(0, 1))
        rough = np.max(np.abs(cdf[0, -3:]), axis=0) > _LARGEST_REST
        sizes = np.maximum(*(np.max(np.abs(t), axis=1) for t in self.terms[:2]))
        rough |= sizes > _LARGEST_SIZE
        rough |= (values[0, 0] >= levels.min()) | (values[0, -1] <= levels.max())
        roots = self.low[:, None] + half_length[:, None] * (1.0 + x)
        return roots, np.where(rough | np.isnan(error), np.inf, error)

    def _density(self) -> Float[np.ndarray, "4 T N"]:
        """p(t) at the nodes of the polynomial, by all rules."""
        x = _polynomial(self.degree).nodes
        low, length = self.low[:, None], (self.high - self.low)[:, None]
        t = low + length * 0.5 * (1.0 + x)
        u, v = self.line.features(t)
        found = np.empty((len(t), 4, len(x)))
        at_once = max(1, _PAIRS // (self.weights.shape[1] * len(x)))
        for rows in chunks(len(t), at_once):
            a, b, c = (term[rows, :, None] for term in self.terms)
            exponent = a * u[rows, None, :]
            exponent += b * v[rows, None, :]
            exponent += c
            found[rows] = self.weights @ np.exp(exponent, out=exponent)
        return np.moveaxis(found, 0, -1)

    def _inverse(
        self,
        levels: Float[np.ndarray, " K"],
        cdf: Float[np.ndarray, "S N"],
        values: Float[np.ndarray, "T N"],
    ) -> Float[np.ndarray, "N K"]:
        """The roots on [-1, 1], by Newton's method from a line between two nodes."""
        x = _polynomial(self.degree).nodes
        number = np.sum(values[:, :, None] < levels, axis=0)
        after = np.clip(number, 1, len(x) - 1)
        rows = np.arange(values.shape[1])[:, None]
        f_low, f_high = values[after - 1, rows], values[after, rows]
        low, high = x[after - 1], x[after]
        root = low + (high - low) * (levels - f_low) / (f_high - f_low)
        slope = chebyshev.chebder(cdf)[:, :, None]
        for _ in range(_NUM_NEWTON):
            excess = chebyshev.chebval(root, cdf[:, :, None], tensor=False)
            rise = chebyshev.chebval(root, slope, tensor=False)
            step = (excess - levels) / rise
            root = np.clip(root - step, low, high)
            if np.nanmax(np.abs(step), initial=0.0) < 1e-14:
                break
        return root


@ft.cache
def _grid(spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of two standard Gaussians, (2, K), and the weights of the four rules."""
    most = math.floor(_REACH / spacing)
    i, j = (a.ravel() for a in np.mgrid[-most : most + 1, -most : most + 1])
    z = spacing * np.stack([i, j])
    inside = np.sum(z**2, axis=0) <= _REACH**2
    z, i, j = z[:, inside], i[inside], j[inside]
    weights = np.exp(-0.5 * np.sum(z**2, axis=0))
    odd = np.stack([np.zeros_like(i), i, j, i + j]) % 2
    every = weights * (odd == 0)
    return z, every / np.sum(every, axis=1, keepdims=True)


@ft.cache
def _few_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nine nodes of two standard Gaussians, and their weights."""
    z, w = math.sqrt(3.0) * np.array([-1.0, 0.0, 1.0]), np.array([1.0, 4.0, 1.0]) / 6.0
    return np.stack([a.ravel() for a in np.meshgrid(z, z)]), np.outer(w, w).ravel()


class _Polynomial(NamedTuple):
    """Chebyshev's nodes on [-1, 1], ends included, and the matrices from values there
    to the coefficients of the integral from -1, and from these to its values there."""

    nodes: Float[np.ndarray, " T"]
    integral: Float[np.ndarray, "S T"]
    values: Float[np.ndarray, "T S"]


@ft.cache
def _polynomial(degree: int) -> _Polynomial:
    x = -np.cos(np.pi * np.arange(degree + 1) / degree)
    coefficients = np.linalg.inv(chebyshev.chebvander(x, degree))
    integral = chebyshev.chebint(coefficients, lbnd=-1.0)
    return _Polynomial(x, integral, chebyshev.chebvander(x, degree + 1))
