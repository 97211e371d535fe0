"""Counts."""

from typing import Any, ClassVar

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import scipy.special
from jaxtyping import Array

from motleygp.likelihoods._base import AbstractLikelihood
from motleygp.numerics.chunks import by_chunks
from motleygp.numerics.integrals import log_expect_exp_of_one
from motleygp.numerics.library import library_of
from motleygp.numerics.special import stirling_remainder


class Poisson(AbstractLikelihood):
    """y ~ Poisson with rate exp f."""

    name: ClassVar[str] = "poisson"
    functions: ClassVar[tuple[str, ...]] = ("log rate",)
    support: ClassVar[str] = "0, 1, 2, ..."
    discrete: ClassVar[bool] = True
    counts: ClassVar[bool] = True
    turns: ClassVar[bool] = True
    in_numpy: ClassVar[bool] = True

    def log_prob(self, y: Any, f: Any) -> Any:
        # With t = f - log y: log p = -y (exp t - 1 - t) + r(y) - log y. As for Gamma,
        # nothing large cancels.
        library = library_of(f)
        count = library.maximum(y, 1.0)
        t = f[0] - library.log(count)
        positive = -count * (library.expm1(t) - t) + stirling_remainder(count)
        return library.where(y > 0, positive - library.log(count), -library.exp(f[0]))

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        rate = jnp.exp(mean[0] + 0.5 * var[0])
        return y * mean[0] - rate - jsp.gammaln(y + 1.0)

    def conditional_mean(self, f: Any) -> Any:
        return library_of(f).exp(f[0])

    def conditional_variance(self, f: Any) -> Any:
        return library_of(f).exp(f[0])

    @np.errstate(over="ignore")
    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rate = np.exp(mean[0] + 0.5 * var[0])
        # In this order, a rate whose square overflows has a variance.
        return rate, rate + rate * (rate * np.expm1(var[0]))

    @by_chunks
    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return log_expect_exp_of_one(
            lambda f, y: self.log_prob(y, f[None]), mean[0], var[0], y
        )

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        # P(Y <= k) is the upper regularised incomplete gamma Q(k + 1, rate).
        upper = scipy.special.gammaincc(np.maximum(np.floor(y), 0) + 1.0, np.exp(f[0]))
        return np.where(y < 0, 0.0, upper)

    def turn(self, y: np.ndarray, *f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # P(Y <= k | f) = P(G > exp f) with G ~ Gamma of shape k + 1.
        shape = np.maximum(np.floor(y), 0.0) + 1.0
        return np.log(shape), 1.0 / np.sqrt(shape)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        # NumPy draws for rates up to 2^63; beyond 1e15, a normal agrees to 1e-8.
        rate = np.exp(f[0])
        small = rng.poisson(np.minimum(rate, 1e15)).astype(float)
        normal = np.round(rate + np.sqrt(rate) * rng.standard_normal(rate.shape))
        return np.where(rate > 1e15, normal, small)

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & (y >= 0) & (y == np.floor(y))

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return np.maximum(t, 0)

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        return np.array([np.log(np.average(y, weights=weight))])

    def constant_fit(
        self, y: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple["Poisson", np.ndarray]:
        return self, self.moment_fit(y, weight)
