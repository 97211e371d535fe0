"""Binary outputs."""

from typing import Any, ClassVar

import jax
import numpy as np
import scipy.special
from jaxtyping import Array

from motleygp.likelihoods._base import AbstractLikelihood
from motleygp.numerics.chunks import by_chunks
from motleygp.numerics.library import sigmoid, softplus
from motleygp.numerics.logistic import (
    log_probability,
    log_smaller_probability,
    probability,
)
from motleygp.numerics.quadrature import expect


class Bernoulli(AbstractLikelihood):
    """P(y = 1) = 1 / (1 + exp(-f))."""

    name: ClassVar[str] = "bernoulli"
    functions: ClassVar[tuple[str, ...]] = ("logit of the probability",)
    support: ClassVar[str] = "0 or 1"
    discrete: ClassVar[bool] = True
    binary: ClassVar[bool] = True
    in_numpy: ClassVar[bool] = True

    def log_prob(self, y: Any, f: Any) -> Any:
        return -softplus((1.0 - 2.0 * y) * f[0])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        # N(m, v) is symmetric, so the sign flips only the mean.
        return -expect(
            jax.nn.softplus, (1.0 - 2.0 * y) * mean[0], var[0], self.num_nodes_1d
        )

    def conditional_mean(self, f: Any) -> Any:
        return sigmoid(f[0])

    def conditional_variance(self, f: Any) -> Any:
        return sigmoid(f[0]) * sigmoid(-f[0])

    @by_chunks
    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        log_smaller = log_smaller_probability(mean[0], var[0])
        smaller, larger = np.exp(log_smaller), -np.expm1(log_smaller)
        return np.where(mean[0] > 0, larger, smaller), smaller * larger

    @by_chunks
    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return log_probability((2.0 * y - 1.0) * mean[0], var[0])

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        below = np.where(y < 0, 0.0, scipy.special.expit(-f[0]))
        return np.where(np.isnan(y), np.nan, np.where(y >= 1, 1.0, below))

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        # By the rule of the mean: P(Y <= 0) is 1 - E[y].
        below = np.where(y < 0, 0.0, probability(-mean[0], var[0]))
        return np.where(np.isnan(y), np.nan, np.where(y >= 1, 1.0, below))

    def predictive_quantile(
        self, levels: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        below = probability(-mean[0], var[0])
        return (below[:, None] < levels).astype(float)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return (rng.random(f[0].shape) < scipy.special.expit(f[0])).astype(float)

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return (y == 0) | (y == 1)

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return np.clip(t, 0, 1)

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        return np.array([scipy.special.logit(np.average(y, weights=weight))])

    def constant_fit(
        self, y: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple["Bernoulli", np.ndarray]:
        return self, self.moment_fit(y, weight)
