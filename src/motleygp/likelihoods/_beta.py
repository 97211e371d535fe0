"""Proportions."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.nn import sigmoid, softplus
from jaxtyping import Array

from motleygp.likelihoods._base import AbstractLikelihood
from motleygp.likelihoods._gamma import FINEST
from motleygp.numerics.moments import mean_and_variance
from motleygp.numerics.packed import covariance
from motleygp.numerics.quadrature import expect, expect_exps
from motleygp.numerics.special import stirling_remainder

# Nodes of the predictive moments in one dimension; half as many in each of two.
_MOMENT_NODES = 64
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

    def log_prob(self, y: Array, f: Array) -> Array:
        log_y, log_1_y = jnp.log(y), jnp.log1p(-y)
        a, b, d = jnp.exp(f[0]), jnp.exp(f[1]), f[0] - f[1]
        remainders = (
            stirling_remainder(a) + stirling_remainder(b) - stirling_remainder(a + b)
        )
        divergence = a * (softplus(-d) + log_y) + b * (softplus(d) + log_1_y)
        # It is never positive, but rounding would make it so for a + b beyond 1e16.
        divergence = jnp.minimum(divergence, 0.0)
        return divergence + remainders - log_y - log_1_y

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        log_y, log_1_y = jnp.log(y), jnp.log1p(-y)
        a, b = jnp.exp(mean + 0.5 * var[:2])
        # E[exp(f) h(f, g)] = E[exp f] E[h(f + v, g + c)]: the weight a moves the means,
        # and the rest depends only on the difference of two Gaussians.
        c = covariance(var, 2, 0, 1)
        d, spread = mean[0] - mean[1], var[0] + var[1] - 2.0 * c
        in_a = expect(softplus, c - d - var[0], spread, self.num_nodes_1d)
        in_b = expect(softplus, c + d - var[1], spread, self.num_nodes_1d)
        alone = expect(
            lambda f: stirling_remainder(jnp.exp(f)), mean, var[:2], self.num_nodes
        )
        together = expect_exps(
            lambda a, b: stirling_remainder(a + b), mean, var, self.num_nodes
        )
        divergence = a * (in_a + log_y) + b * (in_b + log_1_y)
        return divergence + alone[0] + alone[1] - together - log_y - log_1_y

    def conditional_mean(self, f: Array) -> Array:
        return 1.0 / (1.0 + jnp.exp(f[1] - f[0]))

    def conditional_variance(self, f: Array) -> Array:
        mean = self.conditional_mean(f)
        return mean * (1.0 - mean) / (1.0 + jnp.exp(f[0]) + jnp.exp(f[1]))

    def predictive_moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        # E[y | f] depends on the difference of the functions alone.
        spread = var[0] + var[1] - 2.0 * covariance(var, 2, 0, 1)

        def expected(fn: Callable[[Array], Array]) -> Array:
            difference = mean[0] - mean[1]
            return expect(lambda d: fn(sigmoid(d)), difference, spread, _MOMENT_NODES)

        first = expected(lambda share: share)
        between = expected(lambda share: (share - first[..., None]) ** 2)
        within = expect_exps(
            lambda a, b: (a / (a + b)) * (b / (a + b)) / (1.0 + a + b),
            mean,
            var,
            _MOMENT_NODES // 2,
        )
        return first, within + between

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return scipy.special.betainc(np.exp(f[0]), np.exp(f[1]), np.clip(y, 0.0, 1.0))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        draws = rng.beta(np.exp(f[0]), np.exp(f[1]))
        # Small a and b draw values that round to 0 or 1; the support is open.
        return np.clip(draws, _TINY, _BELOW_ONE)

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return (y > 0) & (y < 1)

    def resolution(self, y: np.ndarray) -> float:
        return FINEST * float(min(np.mean(y), np.mean(1.0 - y)))

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return scipy.special.expit(t)

    def at_start(self, f: np.ndarray, unexplained: float) -> tuple["Beta", np.ndarray]:
        # The mean stays, and the variance is nearly proportional to exp(-f).
        return self, f - np.log(unexplained)

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        mean, variance = mean_and_variance(y, weight)
        total = max(mean * (1.0 - mean) / variance - 1.0, 1e-2)
        return np.log([mean * total, (1.0 - mean) * total])
