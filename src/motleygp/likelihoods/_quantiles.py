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
# fourth root of that of the whole, since all are of the form exp(-c / spacing^2).
_REACH = 6.0
_LARGEST_ERROR = 2e-3
# The size of the last coefficients of the polynomial, at most.
_LARGEST_REST = 3e-8
# Levels next to 0 and 1 need nodes of f beyond the reach.
LEAST_LEVEL = 1e-3
# Sizes beyond which an exponent loses digits.
_LARGEST_SIZE = 1e5
# The spacing of the nodes, and the degree of the polynomial per standard deviation of
# its stretch: for most rows, and for the others. Every stretch has a few more.
_FINENESS, _DEGREE = ((0.7, 7), (0.5, 10), (0.35, 14)), 10
_MARGINS, _WIDER, _LOOKS = (0.8, 0.5), 1.5, 4
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
    for rows in chunks(mean.shape[1], _CHUNK_ROWS):
        left = np.arange(rows.start, rows.stop)
        for fineness in _FINENESS:
            own = _Rows(line, levels[inner], mean[:, left], var[:, left], *fineness)
            roots, error = own.roots()
            good = error <= _LARGEST_ERROR
            found[np.ix_(left[good], inner)] = roots[good]
            left = left[~good]
            if not left.size:
                break
    return found


class _Rows:
    """The cdf of some rows, each on a stretch of its own."""

    def __init__(
        self,
        line: Line,
        levels: Float[np.ndarray, " K"],
        mean: Float[np.ndarray, "2 N"],
        var: Float[np.ndarray, "V N"],
        spacing: float,
        per_std: int,
    ):
        self.line, self.levels = line, levels
        z, self.weights = _grid(spacing)
        self.f = mean[..., None] + colour(var, z)
        self.terms = line.terms(*self.f)
        self.ends = scipy.special.ndtri([levels.min(), levels.max()])
        across = self.ends[1] - self.ends[0] + sum(_MARGINS)
        self.degree = math.ceil(_DEGREE + per_std * across)
        few, share = _few_nodes()
        centre, within = line.place(*(mean[..., None] + colour(var, few)))
        self.centre = centre @ share
        self.std = np.sqrt((within + (centre - self.centre[:, None]) ** 2) @ share)

    def roots(self) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, " N"]]:
        """The quantiles, and the error of the cdf by half of the nodes; infinite if
        the polynomial or the terms have too few digits."""
        low = self.centre + self.std * (self.ends[0] - _MARGINS[0])
        high = self.centre + self.std * (self.ends[1] + _MARGINS[1])
        left = np.arange(len(low))
        first, cdf = np.empty((4, len(low))), np.empty((4, self.degree + 2, len(low)))
        for _ in range(_LOOKS):
            first[:, left] = self._below(low[left], left)
            density = self._density(low[left], high[left], left)
            integral = _polynomial(self.degree).integral @ density
            cdf[:, :, left] = integral * 0.5 * (high - low)[left]
            cdf[:, 0, left] += first[:, left]
            last = np.sum(cdf[0], axis=0)
            short = first[0] >= self.levels.min(), last <= self.levels.max()
            left = np.flatnonzero(short[0] | short[1])
            if not left.size:
                break
            low = low - _WIDER * self.std * short[0]
            high = high + _WIDER * self.std * short[1]
        values = _polynomial(self.degree).values @ cdf
        x = self._inverse(cdf[0], values[0])
        error = np.max(np.abs(values[1:] - values[0]), axis=(0, 1))
        rough = np.max(np.abs(cdf[0, -3:]), axis=0) > _LARGEST_REST
        sizes = np.maximum(*(np.max(np.abs(t), axis=1) for t in self.terms[:2]))
        rough |= sizes > _LARGEST_SIZE
        rough[left] = True
        centre, half_length = 0.5 * (low + high), 0.5 * (high - low)
        roots = centre[:, None] + half_length[:, None] * x
        return roots, np.where(rough | np.isnan(error), np.inf, error)

    def _below(self, low: np.ndarray, rows: np.ndarray) -> Float[np.ndarray, "4 N"]:
        return self.weights @ self.line.cdf(low[:, None], *self.f[:, rows]).T

    def _density(
        self, low: np.ndarray, high: np.ndarray, rows: np.ndarray
    ) -> Float[np.ndarray, "4 T N"]:
        """p(t) at the nodes of the polynomial, by all rules."""
        x = _polynomial(self.degree).nodes
        t = low[:, None] + (high - low)[:, None] * 0.5 * (1.0 + x)
        u, v = self.line.features(t)
        found = np.empty((len(rows), 4, len(x)))
        size = self.weights.shape[1] * len(x)
        parts = np.array_split(np.arange(len(rows)), 1 + len(rows) * size // _PAIRS)
        for part in parts:
            a, b, c = (term[rows[part]][..., None] for term in self.terms)
            exponent = a * u[part, None, :]
            exponent += b * v[part, None, :]
            exponent += c
            found[part] = self.weights @ np.exp(exponent, out=exponent)
        return np.moveaxis(found, 0, -1)

    def _inverse(
        self, cdf: Float[np.ndarray, "S N"], values: Float[np.ndarray, "T N"]
    ) -> Float[np.ndarray, "N K"]:
        """The roots on [-1, 1], by Newton's method from a line between two nodes."""
        x = _polynomial(self.degree).nodes
        number = np.sum(values[:, :, None] < self.levels, axis=0)
        after = np.clip(number, 1, len(x) - 1)
        rows = np.arange(values.shape[1])[:, None]
        f_low, f_high = values[after - 1, rows], values[after, rows]
        low, high = x[after - 1], x[after]
        root = low + (high - low) * (self.levels - f_low) / (f_high - f_low)
        slope = chebyshev.chebder(cdf)[:, :, None]
        for _ in range(_NUM_NEWTON):
            excess = chebyshev.chebval(root, cdf[:, :, None], tensor=False)
            rise = chebyshev.chebval(root, slope, tensor=False)
            step = (excess - self.levels) / rise
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
