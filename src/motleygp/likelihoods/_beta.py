"""Proportions."""

import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array

from motleygp.likelihoods._base import AbstractLikelihood
from motleygp.likelihoods._beta_ridge import LINE, RIDGE
from motleygp.likelihoods._gamma import FINEST
from motleygp.likelihoods._quantiles import quantiles_on_line
from motleygp.numerics.chunks import by_chunks
from motleygp.numerics.integrals import log_expect_exp_of_two
from motleygp.numerics.library import library_of, sigmoid, softplus
from motleygp.numerics.logistic import log_smaller_probability
from motleygp.numerics.moments import mean_and_variance
from motleygp.numerics.packed import TINY_VARIANCE, covariance
from motleygp.numerics.quadrature import expect, expect_exps, hermite_rule
from motleygp.numerics.special import stirling_remainder, stirling_remainder_slope

# The predictive variance: the nodes over the difference of the functions, and over one
# half of their sum; the reach in standard deviations, and the longest in units of f.
_BELL_NODES, _SIZE_NODES = 41, 22
_REACH, _LONGEST = 6.2, 20.0
_MOST = 150.0
_WIDE = 2.0  # a variance
_TINY, _BELOW_ONE = np.finfo(float).tiny, np.nextafter(1.0, 0.0)


class Beta(AbstractLikelihood):
    """y ~ Beta(a, b) with a = exp f_1 and b = exp f_2.

    With r(x) = x log x - x - log Gamma(x) and s(d) = log(1 + exp d),

        log p = a [s(f_2 - f_1) + log y] + b [s(f_1 - f_2) + log(1 - y)]
                + r(a) + r(b) - r(a + b) - log y - log(1 - y),

    where the first line is -(a + b) KL[(a, b) / (a + b) || (y, 1 - y)] and r grows like
    a logarithm: nothing large cancels.
    """

    name: ClassVar[str] = "beta"
    functions: ClassVar[tuple[str, ...]] = ("log a", "log b")
    support: ClassVar[str] = "a number strictly between 0 and 1"
    discrete: ClassVar[bool] = False
    turns: ClassVar[bool] = True
    in_numpy: ClassVar[bool] = True

    def log_prob(self, y: Any, f: Any) -> Any:
        library = library_of(f)
        log_y, log_1_y = library.log(y), library.log1p(-y)
        a, b, d = library.exp(f[0]), library.exp(f[1]), f[0] - f[1]
        remainders = (
            stirling_remainder(a) + stirling_remainder(b) - stirling_remainder(a + b)
        )
        divergence = a * (softplus(-d) + log_y) + b * (softplus(d) + log_1_y)
        # It is never positive, but rounding would make it so for a + b beyond 1e16.
        divergence = library.minimum(divergence, 0.0)
        return divergence + remainders - log_y - log_1_y

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        log_y, log_1_y = jnp.log(y), jnp.log1p(-y)
        a, b = jnp.exp(mean + 0.5 * var[:2])
        # E[exp(f) h(f, g)] = E[exp f] E[h(f + v, g + c)]: the weight a moves the means,
        # and the rest depends only on the difference of two Gaussians.
        c = covariance(var, 2, 0, 1)
        d, spread = mean[0] - mean[1], var[0] + var[1] - 2.0 * c
        moved = c + jnp.stack([-d - var[0], d - var[1]])
        in_a, in_b = expect(
            softplus, moved, jnp.stack([spread, spread]), self.num_nodes_1d
        )
        of_a, of_b, of_sum = expect_exps(stirling_remainder, mean, var, self.num_nodes)
        divergence = a * (in_a + log_y) + b * (in_b + log_1_y)
        return divergence + of_a + of_b - of_sum - log_y - log_1_y

    @by_chunks
    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return log_expect_exp_of_two(RIDGE, mean, var, y, np.log(y), np.log1p(-y))

    def conditional_mean(self, f: Any) -> Any:
        return 1.0 / (1.0 + library_of(f).exp(f[1] - f[0]))

    def conditional_variance(self, f: Any) -> Any:
        library, mean = library_of(f), self.conditional_mean(f)
        return mean * (1.0 - mean) / (1.0 + library.exp(f[0]) + library.exp(f[1]))

    @by_chunks
    @np.errstate(all="ignore")
    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        # E[y | f] depends on the difference d of the functions alone.
        c = covariance(var, 2, 0, 1)
        d, spread = mean[0] - mean[1], var[0] + var[1] - 2.0 * c
        log_smaller = log_smaller_probability(d, spread)
        smaller, larger = np.exp(log_smaller), -np.expm1(log_smaller)
        first = np.where(d > 0, larger, smaller)
        # var[y | f] = s'(d) / (1 + n) with s the logistic function and n = a + b.
        nodes, bell = _bell_rule(d, spread)
        within = np.sum(bell * _expected_rest(nodes, mean, var), axis=-1)
        # var[s(d)] = p (1 - p) - E[s'(d)] loses digits where the functions hardly vary.
        between = smaller * larger - np.sum(bell, axis=-1)
        own = spread < _WIDE
        z, weights = hermite_rule(64, trim=True)
        nodes = d[own, None] + np.sqrt(np.maximum(spread[own], 0.0))[:, None] * z
        between[own] = (sigmoid(nodes) - first[own, None]) ** 2 @ weights
        return first, within + between

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return scipy.special.betainc(np.exp(f[0]), np.exp(f[1]), np.clip(y, 0.0, 1.0))

    def turn(self, y: np.ndarray, *f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Where the mean is y; logit y has a variance of 1 / a + 1 / b there.
        y = np.clip(y, _TINY, _BELOW_ONE)
        at = f[0] + np.log1p(-y) - np.log(y)
        return at, np.sqrt(np.exp(-f[0]) + np.exp(-at))

    def predictive_quantile(
        self, levels: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return self.from_line(quantiles_on_line(LINE, levels, mean, var))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        draws = rng.beta(np.exp(f[0]), np.exp(f[1]))
        # Small a and b draw values that round to 0 or 1; the support is open.
        return np.clip(draws, _TINY, _BELOW_ONE)

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return (y > 0) & (y < 1)

    def resolution(self, y: np.ndarray) -> float:
        return FINEST * float(min(np.mean(y), np.mean(1.0 - y)))

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return np.clip(scipy.special.expit(t), _TINY, _BELOW_ONE)

    def at_start(self, f: np.ndarray, unexplained: float) -> tuple["Beta", np.ndarray]:
        # The mean stays, and the variance is nearly proportional to exp(-f).
        return self, f - np.log(unexplained)

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        mean, variance = mean_and_variance(y, weight)
        total = max(mean * (1.0 - mean) / variance - 1.0, 1e-2)
        return np.log([mean * total, (1.0 - mean) * total])

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        a, b, d = np.exp(f[0]), np.exp(f[1]), f[0] - f[1]
        of_sum = stirling_remainder_slope(a + b)
        in_a = softplus(-d) + np.log(y) + stirling_remainder_slope(a) - of_sum
        in_b = softplus(d) + np.log1p(-y) + stirling_remainder_slope(b) - of_sum
        return np.stack([a * in_a, b * in_b])


def _bell_rule(mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of d ~ N(mean, var), and their weights times s'(d) = s(d) s(-d), which is a
    bell that decays like exp(-|d|)."""
    v = np.maximum(var, TINY_VARIANCE)
    std = np.sqrt(v)
    # The weight exp(-|d|) moves the mean by the variance, to 0 at most.
    top = np.sign(mean) * np.maximum(np.abs(mean) - v, 0.0)
    reach = np.minimum(_REACH * std, _LONGEST)
    d = top[..., None] + reach[..., None] * np.linspace(-1.0, 1.0, _BELL_NODES)
    spacing = reach * (2.0 / math.sqrt(2.0 * math.pi) / (_BELL_NODES - 1)) / std
    half = -0.5 / v[..., None]
    bell = np.exp(half * (d - mean[..., None]) ** 2 - np.abs(d))
    return d, spacing[..., None] * bell / (1.0 + np.exp(-np.abs(d))) ** 2


def _expected_rest(d: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """E[1 / (1 + n)] given f_1 - f_2 = d, at nodes along the last axis.

    n = 2 cosh(d / 2) exp(h) with h = (f_1 + f_2) / 2, a Gaussian given d. It is a
    product over d and the noise of h: few exponentials serve all pairs of nodes.
    """
    c = covariance(var, 2, 0, 1)
    v = np.maximum(var[0] + var[1] - 2.0 * c, TINY_VARIANCE)
    slope = 0.5 * (var[0] - var[1]) / v
    rest = 0.25 * (var[0] + var[1] + 2.0 * c) - slope**2 * v
    std = np.sqrt(np.maximum(rest, TINY_VARIANCE))[..., None]
    away = d - (mean[0] - mean[1])[..., None]
    h = 0.5 * (mean[0] + mean[1])[..., None] + slope[..., None] * away
    # Squares must not overflow; beyond these ends, 1 / (1 + n) is 0 or 1 to all digits.
    log_size = np.clip(h + 0.5 * np.abs(d), -_MOST, _MOST)
    size = np.exp(log_size) * (1.0 + np.exp(-np.abs(d)))
    z = np.linspace(0.0, _REACH, _SIZE_NODES)
    weights = np.exp(-0.5 * z**2)
    weights[0] *= 0.5
    both = 2.0 * np.cosh(np.minimum(std * z, _MOST))
    # 1 / (1 + n) at noise z and -z in one fraction. Term by term, the compiler makes
    # one loop of the sum, without an array of all pairs.
    square = size * size
    total = np.zeros_like(size)
    for k, w in enumerate(weights / (2.0 * np.sum(weights))):
        inner = size * both[..., k, None]
        total = total + w * (2.0 + inner) / (1.0 + inner + square)
    return total
