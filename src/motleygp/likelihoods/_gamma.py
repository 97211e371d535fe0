"""Positive outputs."""

import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array

from motleygp.likelihoods._base import AbstractLikelihood
from motleygp.likelihoods._quantiles import Line, quantiles_on_line
from motleygp.numerics.chunks import by_chunks
from motleygp.numerics.integrals import (
    Ridge,
    log_expect_exp_of_one,
    log_expect_exp_of_two,
)
from motleygp.numerics.library import library_of
from motleygp.numerics.moments import mean_and_variance
from motleygp.numerics.packed import covariance
from motleygp.numerics.quadrature import dense_rule, expect
from motleygp.numerics.special import (
    stirling_remainder,
    stirling_remainder_slope,
    trigamma_excess,
)

_TINY = np.finfo(float).tiny
# The smallest spread of y, relative to its mean. On narrower values, training ends
# above the constant fit: by 2 nats at 1e-7.
FINEST = 1e-6
_LARGEST = 46.0  # a log shape
_LOG_RANGE = (-740.0, 700.0)  # where exp neither underflows nor overflows


class Gamma(AbstractLikelihood):
    """y ~ Gamma with shape exp f_1 and rate exp f_2.

    With r(x) = x log x - x - log Gamma(x), shape a and t = f_2 + log y - f_1,

        log p = -a (exp t - 1 - t) + r(a) - log y,

    in which nothing large cancels.
    """

    name: ClassVar[str] = "gamma"
    functions: ClassVar[tuple[str, ...]] = ("log shape", "log rate")
    support: ClassVar[str] = "a positive number"
    discrete: ClassVar[bool] = False
    turns: ClassVar[bool] = True
    in_numpy: ClassVar[bool] = True

    def log_prob(self, y: Any, f: Any) -> Any:
        log_y, shape = library_of(f).log(y), library_of(f).exp(f[0])
        return _log_prob(f[1] + log_y - f[0], shape, log_y)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        # E[a f_1] = E[a] (m_1 + v_1) and E[a f_2] = E[a] (m_2 + c); only r(a) needs a
        # rule, in one dimension.
        log_y = jnp.log(y)
        shape, rate = jnp.exp(mean + 0.5 * var[:2])
        remainder = expect(
            lambda f: stirling_remainder(jnp.exp(f)), mean[0], var[0], self.num_nodes_1d
        )
        t = mean[1] + covariance(var, 2, 0, 1) + log_y - mean[0] - var[0]
        return -(rate * y - shape * (1.0 + t)) + remainder - log_y

    def conditional_mean(self, f: Any) -> Any:
        return library_of(f).exp(f[0] - f[1])

    def conditional_variance(self, f: Any) -> Any:
        return library_of(f).exp(f[0] - 2.0 * f[1])

    @np.errstate(over="ignore")
    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        # The mean exp(f_1 - f_2) is log-normal.
        c = covariance(var, 2, 0, 1)
        spread = var[0] + var[1] - 2.0 * c
        first = np.exp(mean[0] - mean[1] + 0.5 * spread)
        wider = var[0] + 4.0 * var[1] - 4.0 * c
        within = np.exp(mean[0] - 2.0 * mean[1] + 0.5 * wider)
        # In this order, a mean whose square overflows has a variance.
        return first, within + first * (first * np.expm1(spread))

    @by_chunks
    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return log_expect_exp_of_two(_RIDGE, mean, var, np.log(y))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        scaled = np.maximum(y, 0.0) * np.exp(f[1])
        return scipy.special.gammainc(np.exp(f[0]), scaled)

    def turn(self, y: np.ndarray, *f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Where the mean is y; log y has a standard deviation of 1 / sqrt(shape).
        return f[0] - np.log(np.maximum(y, _TINY)), np.exp(-0.5 * f[0])

    def predictive_quantile(
        self, levels: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return self.from_line(quantiles_on_line(_LINE, levels, mean, var))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        draws = rng.standard_gamma(np.exp(f[0])) * np.exp(-f[1])
        # A shape of 1e-3 draws values below the smallest float; the support is open.
        return np.maximum(draws, _TINY)

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & (y > 0)

    def resolution(self, y: np.ndarray) -> float:
        return FINEST * float(np.mean(y))

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return np.exp(np.clip(t, *_LOG_RANGE))

    def at_start(self, f: np.ndarray, unexplained: float) -> tuple["Gamma", np.ndarray]:
        # The mean stays, and the variance is nearly proportional to exp(-f).
        return self, f - np.log(unexplained)

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        mean, variance = mean_and_variance(y, weight)
        return np.array([np.log(mean**2 / variance), np.log(mean / variance)])

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        shape, t = np.exp(f[0]), f[1] + np.log(y) - f[0]
        in_shape = t + stirling_remainder_slope(shape)
        return shape * np.stack([in_shape, -np.expm1(t)])


def _log_prob(t: Any, shape: Any, log_y: Any) -> Any:
    library = library_of(shape)
    return -shape * (library.expm1(t) - t) + stirling_remainder(shape) - log_y


def _shape(f: np.ndarray) -> np.ndarray:
    """exp f, or the largest of which t has enough digits: p(y | f) is as good as a step
    of mass 1 / y in t for all larger ones."""
    return np.exp(np.minimum(f, _LARGEST))


def _slope(
    f: np.ndarray, g: np.ndarray, log_y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    t, shape = g + log_y - f, _shape(f)
    return -shape * np.expm1(t), shape * np.exp(t)


_RIDGE = Ridge(
    lambda f, g, log_y: _log_prob(g + log_y - f, _shape(f), log_y),
    lambda f, log_y: (f - log_y, _shape(f)),
    _slope,
)


def _place(f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = np.exp(f)
    return scipy.special.psi(shape) - g, trigamma_excess(shape) + 1.0 / shape


def _terms(f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # y p(y) = (y exp g)^a exp(-y exp g) / Gamma(a).
    shape = np.exp(f)
    return shape, np.exp(g), shape * g - scipy.special.gammaln(shape)


_LINE = Line(
    _place,
    _terms,
    lambda t: (t, -np.exp(t)),
    lambda t, f, g: scipy.special.gammainc(np.exp(f), np.exp(t + g)),
)


class Exponential(AbstractLikelihood):
    """y ~ Exponential with rate exp f."""

    name: ClassVar[str] = "exponential"
    functions: ClassVar[tuple[str, ...]] = ("log rate",)
    support: ClassVar[str] = "a number not below 0"
    discrete: ClassVar[bool] = False
    turns: ClassVar[bool] = True
    in_numpy: ClassVar[bool] = True

    def log_prob(self, y: Any, f: Any) -> Any:
        return f[0] - y * library_of(f).exp(f[0])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        return mean[0] - y * jnp.exp(mean[0] + 0.5 * var[0])

    def conditional_mean(self, f: Any) -> Any:
        return library_of(f).exp(-f[0])

    def conditional_variance(self, f: Any) -> Any:
        return library_of(f).exp(-2.0 * f[0])

    @np.errstate(over="ignore")
    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        first = np.exp(-mean[0] + 0.5 * var[0])
        # E[2 exp(-2 f)] - E[exp(-f)]^2.
        return first, first**2 * (2.0 * np.exp(var[0]) - 1.0)

    @by_chunks
    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return log_expect_exp_of_one(lambda f, y: f - y * np.exp(f), mean[0], var[0], y)

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -np.expm1(-np.maximum(y, 0.0) * np.exp(f[0]))

    def turn(self, y: np.ndarray, *f: np.ndarray) -> tuple[np.ndarray, float]:
        return -np.log(np.maximum(y, _TINY)), 1.0

    @by_chunks
    def predictive_crps(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        """y - 2 E[(1 - exp(-a y)) / a] + E[1 / (a + a')], with rates a and a' of two
        draws; the last is exp(-(f + f') / 2) / (2 cosh((f - f') / 2)), and the sum and
        the difference of two draws are independent."""
        std = np.sqrt(np.max(var[0], initial=0.0))
        z, weights = dense_rule(math.ceil(14.0 * max(1.0 / 0.65, std / 0.3)) + 1)
        f = mean[0][:, None] + np.sqrt(var[0])[:, None] * z
        with np.errstate(over="ignore"):
            within = -np.expm1(-y[:, None] * np.exp(f)) * np.exp(-f) @ weights
            apart = np.sqrt(0.5 * var[0])[:, None] * z
            between = 0.5 / np.cosh(apart) @ weights
            return y - 2.0 * within + np.exp(0.25 * var[0] - mean[0]) * between

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return rng.standard_exponential(f[0].shape) * np.exp(-f[0])

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & (y >= 0)

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return np.exp(np.clip(t, *_LOG_RANGE))

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        return np.array([-np.log(np.average(y, weights=weight))])

    def constant_fit(
        self, y: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple["Exponential", np.ndarray]:
        return self, self.moment_fit(y, weight)
