"""Predictive distributions by brute force, to check those of the library.

Nothing here is shared with the library: textbook densities in SciPy, integrated over f
by Gauss-Legendre panels that shrink towards the place where the likelihood turns. The
integral over f_2 given f_1 lies inside the one over f_1. Doubling the panels changes
the results by less than 1e-10 (`tests/test_predictive_errors.py`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special as sp

_REACH = 12.0  # in standard deviations
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_LOG_2PI = np.log(2.0 * np.pi)

Density = Callable[..., np.ndarray]


class Textbook(NamedTuple):
    """p(y | f): its log density and cdf, and where it turns.

    `turn` has the place and the width in f, or in f_2 for an f_1, at which the cdf of y
    goes from 0 to 1.
    """

    log_prob: Density
    cdf: Density
    turn: Callable[..., tuple]


def _remainder(x: np.ndarray) -> np.ndarray:
    """x log x - x - log Gamma(x)."""
    small = np.minimum(x, 1e4)
    exact = sp.xlogy(small, small) - small - sp.gammaln(small)
    large = np.maximum(x, 1e4)
    series = 0.5 * np.log(large / (2.0 * np.pi)) - 1.0 / (12.0 * large)
    return np.where(x < 1e4, exact, series)


def _gamma_log_prob(y: float, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    t = g + np.log(y) - f
    small = 0.5 * t**2 + t**3 / 6.0 + t**4 / 24.0
    excess = np.where(np.abs(t) < 1e-3, small, np.expm1(np.minimum(t, 700.0)) - t)
    return -np.exp(f) * excess + _remainder(np.exp(f)) - np.log(y)


def _excess(log_ratio: np.ndarray, at: float) -> np.ndarray:
    """p log(p / at) - p + at for p = at exp(log_ratio), without cancellation."""
    u = log_ratio
    series = at * (u**2 / 2 + u**3 / 3 + u**4 / 8 + u**5 / 30)
    p = np.exp(u + np.log(at))
    return np.where(np.abs(u) < 1e-3, series, p * u - (p - at))


def _logit(y: float) -> float:
    return float(np.log(y) - np.log1p(-y))


def _beta_log_prob(y: float, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    a, b = np.exp(f), np.exp(g)
    remainders = _remainder(a) + _remainder(b) - _remainder(a + b)
    # KL[(p, q) || (y, 1 - y)] of p = a / (a + b), as a sum of two positive terms.
    u = -np.logaddexp(0.0, g - f) - np.log(y)
    v = -np.logaddexp(0.0, f - g) - np.log1p(-y)
    divergence = _excess(u, y) + _excess(v, 1.0 - y)
    return remainders - (a + b) * divergence - np.log(y) - np.log1p(-y)


def _beta_cdf(y: float, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    a, b = np.exp(f), np.exp(g)
    normal = (_logit(y) - (f - g)) / np.sqrt(1.0 / a + 1.0 / b)
    huge = (f > 18.0) & (g > 18.0)
    rest = sp.betainc(np.where(huge, 1.0, a), np.where(huge, 1.0, b), y)
    return np.where(huge, sp.ndtr(normal), rest)


def _normal_log_prob(y: float, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    return -0.5 * (_LOG_2PI + g + (y - f) ** 2 * np.exp(-g))


def _poisson_log_prob(y: float, f: np.ndarray) -> np.ndarray:
    if y == 0:
        return -np.exp(f)
    return _gamma_log_prob(1.0, np.full_like(f, np.log(y)), f) - np.log(y)


TEXTBOOKS = {
    "gaussian": Textbook(
        lambda y, f: _normal_log_prob(y, f, np.log(0.25)),
        lambda y, f: sp.ndtr((y - f) / 0.5),
        lambda y: (y, 0.5),
    ),
    # Its first function is integrated inside, at a turn of width exp(f_2 / 2).
    "hetgaussian": Textbook(
        lambda y, g, f: _normal_log_prob(y, f, g),
        lambda y, g, f: sp.ndtr((y - f) * np.exp(-0.5 * g)),
        lambda y, g: (y, np.exp(0.5 * g)),
    ),
    "bernoulli": Textbook(
        lambda y, f: -np.logaddexp(0.0, (1.0 - 2.0 * y) * f),
        lambda y, f: sp.expit(-f) if y < 1 else np.ones_like(f),
        lambda y: (0.0, 1.0),
    ),
    "poisson": Textbook(
        _poisson_log_prob,
        lambda y, f: sp.gammaincc(y + 1.0, np.exp(f)),
        lambda y: (np.log(y + 1.0), 1.0 / np.sqrt(y + 1.0)),
    ),
    "exponential": Textbook(
        lambda y, f: f - y * np.exp(f),
        lambda y, f: -np.expm1(-y * np.exp(f)),
        lambda y: (-np.log(y), 1.0),
    ),
    "gamma": Textbook(
        _gamma_log_prob,
        lambda y, f, g: sp.gammainc(np.exp(f), y * np.exp(g)),
        lambda y, f: (f - np.log(y), np.exp(-0.5 * f)),
    ),
    "beta": Textbook(
        _beta_log_prob,
        _beta_cdf,
        lambda y, f: (f - _logit(y), np.sqrt(np.exp(-f) * (1.0 + np.exp(_logit(y))))),
    ),
}


class Gaussian(NamedTuple):
    """q(f) of one row: the means, the standard deviations and the correlation."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    correlation: float = 0.0

    def reversed(self) -> "Gaussian":
        return Gaussian(self.mean[::-1], self.std[::-1], self.correlation)


def _panels(
    centre: np.ndarray, std: float, at: np.ndarray, width: np.ndarray, fine: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes over `_REACH` deviations and log weights, one row per centre: the panels
    have the length of `width` next to `at`, and 2 / `fine` far from it."""
    longest = min(2.0, std) / fine
    width = np.minimum(width, longest)[:, None] / fine
    turn = np.log2(1.0 + longest / width)
    reach = _REACH * std
    near, far = np.clip(at, centre - reach, centre + reach), 2.0 * reach
    j = np.arange(np.ceil(np.max(turn) + far / longest) + 1.0)
    even = longest * (1.0 + j - turn)
    offset = np.where(j < turn, width * (2.0 ** np.minimum(j, turn) - 1.0), even)
    edges = near[:, None] + np.concatenate([-offset[:, :0:-1], offset], axis=1)
    edges = np.clip(edges, (centre - reach)[:, None], (centre + reach)[:, None])
    half = 0.5 * np.diff(edges)[..., None]
    nodes = 0.5 * (edges[:, 1:] + edges[:, :-1])[..., None] + half * _NODES
    with np.errstate(divide="ignore"):  # panels beyond the reach have no length
        log_weights = np.log(half * _WEIGHTS)
    nodes, log_weights = (a.reshape(len(centre), -1) for a in (nodes, log_weights))
    z = (nodes - centre[:, None]) / std
    return nodes, log_weights - 0.5 * (_LOG_2PI + z**2) - np.log(std)


def _inner(q: Gaussian) -> tuple[float, float]:
    """The slope of E[f_2 | f_1] in f_1, and the standard deviation of f_2 given f_1."""
    slope = q.correlation * q.std[1] / q.std[0]
    return slope, q.std[1] * np.sqrt(1.0 - q.correlation**2)


def _outer(q: Gaussian, turn: Callable, y: float, fine: int) -> tuple:
    """Nodes of f_1 and log weights; they are dense where E[f_2 | f_1] is the turn."""
    slope, std = _inner(q)
    f = q.mean[0] + q.std[0] * np.linspace(-_REACH, _REACH, 4001)
    at, width = turn(y, f)
    gap = q.mean[1] + slope * (f - q.mean[0]) - at
    nearest = int(np.argmin(np.abs(gap)))
    width = np.hypot(std, np.broadcast_to(width, f.shape)[nearest])
    steepness = np.abs(np.gradient(gap, f))[nearest] / width
    return _panels(
        np.array([q.mean[0]]),
        q.std[0],
        np.array([f[nearest]]),
        np.array([1.0 / max(steepness, 1e-9)]),
        fine,
    )


def _log_expected(
    log_fn: Density, turn: Callable, y: float, q: Gaussian, fine: int
) -> float:
    """log E[exp(log_fn(y, f))]."""
    if len(q.mean) == 1:
        at, width = (np.array([v], dtype=float) for v in turn(y))
        f, weight = _panels(np.array(q.mean), q.std[0], at, width, fine)
        return float(sp.logsumexp(log_fn(y, f) + weight))
    (f,), (outer_weight,) = _outer(q, turn, y, fine)
    kept = np.isfinite(outer_weight)
    f, outer_weight = f[kept], outer_weight[kept]
    slope, std = _inner(q)
    total = []
    for part in np.array_split(np.arange(len(f)), 1 + len(f) // 200):
        centre = q.mean[1] + slope * (f[part] - q.mean[0])
        at, width = turn(y, f[part])
        width = np.broadcast_to(
            np.asarray(width), at.shape if np.ndim(at) else f[part].shape
        )
        at = np.broadcast_to(np.asarray(at, dtype=float), width.shape)
        g, weight = _panels(centre, std, at, width, fine)
        used = np.isfinite(weight).any(axis=0)
        g, weight = g[:, used], weight[:, used]
        value = log_fn(y, f[part][:, None], g) + weight
        total.append(sp.logsumexp(value + outer_weight[part][:, None]))
    return float(sp.logsumexp(total))


def _ordered(name: str, q: Gaussian) -> Gaussian:
    """q(f) in the order of integration."""
    return q.reversed() if name == "hetgaussian" else q


@np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore")
def log_prob(name: str, y: float, q: Gaussian, fine: int = 1) -> float:
    """log p(y)."""
    book = TEXTBOOKS[name]
    return _log_expected(book.log_prob, book.turn, y, _ordered(name, q), fine)


@np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore")
def cdf(name: str, y: float, q: Gaussian, fine: int = 1) -> float:
    """P(Y <= y)."""
    book = TEXTBOOKS[name]

    def log_cdf(y: float, *f: np.ndarray) -> np.ndarray:
        return np.log(book.cdf(y, *f))

    return float(np.exp(_log_expected(log_cdf, book.turn, y, _ordered(name, q), fine)))


def _log_mean_exp(mean: float, std: float, power: float) -> float:
    """log E[exp(power f)], with the reach moved to where the integrand lies."""
    centre = np.array([mean + power * std**2])
    f, weight = _panels(centre, std, centre, np.array([1.0]), 1)
    tilt = 0.5 * ((f - centre) ** 2 - (f - mean) ** 2) / std**2
    return float(sp.logsumexp(power * f + tilt + weight))


def _difference(q: Gaussian) -> tuple[float, float]:
    a, b = q.std
    spread = (a - b) ** 2 + 2.0 * a * b * (1.0 - q.correlation)
    return q.mean[0] - q.mean[1], float(np.sqrt(spread))


def mean(name: str, q: Gaussian, fine: int = 1) -> float:
    """E[y]."""
    if name in ("gaussian", "hetgaussian"):
        return q.mean[0]
    if name == "poisson":
        return float(np.exp(_log_mean_exp(q.mean[0], q.std[0], 1.0)))
    if name == "exponential":
        return float(np.exp(_log_mean_exp(q.mean[0], q.std[0], -1.0)))
    m, s = _difference(q) if name in ("beta", "gamma") else (q.mean[0], q.std[0])
    if name == "gamma":
        return float(np.exp(_log_mean_exp(m, s, 1.0)))
    return float(np.exp(log_prob("bernoulli", 1.0, Gaussian((m,), (s,)), fine)))


def _log_mean_exp_of(q: Gaussian, weights: tuple[float, ...]) -> float:
    """log E[exp(weights . f)]."""
    scaled = [w * s for w, s in zip(weights, q.std, strict=True)]
    square = sum(s**2 for s in scaled)
    if len(scaled) == 2:
        square += 2.0 * q.correlation * scaled[0] * scaled[1]
    mean = sum(w * m for w, m in zip(weights, q.mean, strict=True))
    return _log_mean_exp(mean, float(np.sqrt(square)), 1.0)


@np.errstate(over="ignore")
def variance(name: str, q: Gaussian) -> float:
    """var[y], from the moments of p(y | f)."""
    if name == "beta":
        return beta_variance(q)
    if name == "bernoulli":
        other = q._replace(mean=(-q.mean[0],))
        return mean(name, q) * mean(name, other)
    if name == "gaussian":
        return q.std[0] ** 2 + 0.25
    if name == "hetgaussian":
        return float(q.std[0] ** 2 + np.exp(_log_mean_exp_of(q, (0.0, 1.0))))
    # E[var[y | f]] and E[y | f], as exponentials of sums of the functions.
    within, first = {
        "poisson": ((1.0,), (1.0,)),
        "exponential": ((-2.0,), (-1.0,)),
        "gamma": ((1.0, -2.0), (1.0, -1.0)),
    }[name]
    twice = tuple(2.0 * w for w in first)
    square = 2.0 * _log_mean_exp_of(q, first)
    between = np.exp(square) * np.expm1(_log_mean_exp_of(q, twice) - square)
    return float(np.exp(_log_mean_exp_of(q, within)) + between)


@np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore")
def beta_variance(q: Gaussian, fine: int = 1) -> float:
    """var[y] = E[(a (a + 1)) / (n (n + 1))] - E[y]^2, n = a + b, from E[y (1 - y)]."""

    def log_fn(_: float, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        n = np.logaddexp(f, g)
        return f + g - 2.0 * n + n - np.logaddexp(0.0, n)

    def turn(_: float, f: np.ndarray) -> tuple:
        return f, np.ones_like(f)

    first = mean("beta", q, fine)
    other = mean("beta", q.reversed(), fine)
    return first * other - float(np.exp(_log_expected(log_fn, turn, 0.5, q, fine)))
