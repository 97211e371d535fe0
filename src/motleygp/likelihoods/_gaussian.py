"""Real outputs."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, PyTree

from motleygp.likelihoods._real import AbstractReal
from motleygp.numerics.chunks import by_chunks, chunks
from motleygp.numerics.integrals import log_expect_exp_of_one
from motleygp.numerics.library import library_of
from motleygp.numerics.moments import mean_and_variance
from motleygp.numerics.packed import TINY_VARIANCE, covariance
from motleygp.numerics.steps import SMOOTH, stepped_rule

_LOG_2PI = math.log(2.0 * math.pi)
_FLAT = 1e-9
# The CRPS: the reach of nodes of f_2 in standard deviations, their largest distance and
# number, and the pairs of them at a time.
_CRPS_REACH, _CRPS_SPACING, _CRPS_MOST, _CRPS_PAIRS = 7.0, 0.45, 160, 1 << 15


def _log_normal(y: Any, mean: Any, log_variance: Any) -> Any:
    """log N(y | mean, exp(log_variance))."""
    square = (y - mean) ** 2 * library_of(log_variance).exp(-log_variance)
    return -0.5 * (_LOG_2PI + log_variance + square)


class Gaussian(AbstractReal):
    """y ~ N(f, noise^2); `noise` is a standard deviation, learned unless `fixed`."""

    name: ClassVar[str] = "gaussian"
    parts: ClassVar[Mapping[str, str]] = MappingProxyType({"noise": "log_noise"})
    functions: ClassVar[tuple[str, ...]] = ("mean",)
    in_numpy: ClassVar[bool] = True

    log_noise: Float[Array, ""]
    fixed: bool = eqx.field(static=True)

    def __init__(
        self, noise: float | Array = 1.0, *, fixed: bool = False, num_nodes: int = 20
    ):
        if isinstance(noise, int | float) and not noise > 0:
            raise ValueError(f"`noise` must be a positive number; got {noise}.")
        self.log_noise = jnp.log(jnp.asarray(noise, dtype=float))
        self.fixed = fixed
        self.num_nodes = num_nodes

    @property
    def noise(self) -> Array:
        return jnp.exp(self.log_noise)

    def trainable(self) -> PyTree:
        return jax.tree.map(lambda _: not self.fixed, self)

    def in_units(self, scale: float) -> "Gaussian":
        return self._with_log_noise(self.log_noise - math.log(scale))

    def parameters(self) -> dict[str, Array]:
        return {"noise": self.noise}

    def with_parameters(self, values: Mapping[str, float]) -> "Gaussian":
        noise = float(values["noise"])
        if not noise > 0:
            raise ValueError(f"`noise` must be positive; got {noise:g}.")
        return self._with_log_noise(jnp.log(noise))

    def at_start(
        self, f: np.ndarray, unexplained: float
    ) -> tuple["Gaussian", np.ndarray]:
        if self.fixed:
            return self, f
        return self._with_log_noise(self.log_noise + 0.5 * math.log(unexplained)), f

    def _with_log_noise(self, log_noise: Array) -> "Gaussian":
        return eqx.tree_at(lambda lik: lik.log_noise, self, log_noise)

    def log_prob(self, y: Any, f: Any) -> Any:
        log_noise = self.log_noise
        if library_of(f) is np:
            log_noise = np.asarray(log_noise)
        return _log_normal(y, f[0], 2.0 * log_noise)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        precision = jnp.exp(-2.0 * self.log_noise)
        return self.log_prob(y, mean) - 0.5 * precision * var[0]

    def conditional_variance(self, f: Any) -> Any:
        return library_of(f).broadcast_to(self.noise**2, f[0].shape)

    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return mean[0], var[0] + float(self.noise) ** 2

    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        return _log_normal(y, mean[0], np.log(var[0] + float(self.noise) ** 2))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return scipy.special.ndtr((y - f[0]) / float(self.noise))

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        std = np.sqrt(var[0] + float(self.noise) ** 2)
        return scipy.special.ndtr((y - mean[0]) / std)

    def predictive_quantile(
        self, levels: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        std = np.sqrt(var[0] + float(self.noise) ** 2)
        return mean[0][:, None] + std[:, None] * scipy.special.ndtri(levels)

    def predictive_crps(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        """E|Y - y| - std / sqrt(pi)."""
        variance = var[0] + float(self.noise) ** 2
        return _mean_size(mean[0] - y, variance) - np.sqrt(variance / math.pi)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f[0] + float(self.noise) * rng.standard_normal(f[0].shape)

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        return np.array([np.average(y, weights=weight)])

    def constant_fit(
        self, y: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple["Gaussian", np.ndarray]:
        mean, variance = mean_and_variance(y, weight)
        fitted = self
        if not self.fixed:
            fitted = self._with_log_noise(0.5 * jnp.log(jnp.asarray(variance)))
        return fitted, np.array([mean])


def _mean_size(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E|x| for x ~ N(mean, variance)."""
    std = np.sqrt(variance)
    z = mean / std
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    return mean * (2.0 * scipy.special.ndtr(z) - 1.0) + 2.0 * std * density


def _given_second(var: Any) -> tuple[Any, Any]:
    """The slope of E[f_1 | f_2] in f_2, and var[f_1 | f_2]."""
    v, c = var[1] + TINY_VARIANCE, covariance(var, 2, 0, 1)
    rest = var[0] - c * c / v
    return c / v, rest * (rest > 0.0)


class HetGaussian(AbstractReal):
    """y ~ N(f_1, exp f_2): the noise variance has its own function."""

    name: ClassVar[str] = "hetgaussian"
    functions: ClassVar[tuple[str, ...]] = ("mean", "log variance")
    in_numpy: ClassVar[bool] = True

    def log_prob(self, y: Any, f: Any) -> Any:
        return _log_normal(y, f[0], f[1])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        # E[exp(-f_2) (y - f_1)^2] = exp(-m_2 + v_2/2) ((y - m_1 + c)^2 + v_1): the
        # weight exp(-f_2) moves the mean of f_1 by -c.
        precision = jnp.exp(0.5 * var[1] - mean[1])
        square = (y - mean[0] + covariance(var, 2, 0, 1)) ** 2 + var[0]
        return -0.5 * (_LOG_2PI + mean[1] + precision * square)

    def conditional_variance(self, f: Any) -> Any:
        return library_of(f).exp(f[1])

    @np.errstate(over="ignore")
    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return mean[0], var[0] + np.exp(mean[1] + 0.5 * var[1])

    @by_chunks
    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        # f_1 integrates in closed form; only f_2 needs quadrature.
        slope, rest = _given_second(var)

        def log_prob(f: Any, y: Any, m: Any, n: Any, k: Any, rest: Any) -> np.ndarray:
            variance = rest + np.exp(f)
            square = (y - m - k * (f - n)) ** 2 / variance
            return -0.5 * (_LOG_2PI + np.log(variance) + square)

        return log_expect_exp_of_one(log_prob, mean[1], var[1], y, *mean, slope, rest)

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return scipy.special.ndtr((y - f[0]) * np.exp(-0.5 * f[1]))

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        # Given f_2, the cdf has a closed form. It turns where E[f_1 | f_2] is y.
        slope, rest = (np.asarray(a) for a in _given_second(var))
        by = np.where(np.abs(slope) < _FLAT, _FLAT, slope)
        at = np.where(np.isnan(y), 0.0, mean[1] + (y - mean[0]) / by)
        reach = SMOOTH.reach * np.sqrt(var[1])
        at = np.clip(at, mean[1] - reach, mean[1] + reach)
        width = np.sqrt(rest + np.exp(at)) / np.abs(by)
        f, weights = stepped_rule(mean[1], var[1], at, width, SMOOTH)
        std = np.sqrt(rest[..., None] + np.exp(f))
        centre = mean[0][..., None] + slope[..., None] * (f - mean[1][..., None])
        below = scipy.special.ndtr((y[..., None] - centre) / std)
        return np.sum(below * weights, axis=-1)

    def predictive_crps(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray | None:
        """E|Y - y| - 1/2 E|Y - Y'| by sums over f_2, given which y is Gaussian; `None`
        where f_2 varies so much that draws are as fast.
        """
        std = np.sqrt(np.max(var[1], initial=TINY_VARIANCE))
        # The size of Y, exp(f_2 / 2), moves the mean of f_2 by half of the variance.
        length = 2.0 * _CRPS_REACH * std + 0.5 * std**2
        number = math.ceil(length / min(0.5 * std, _CRPS_SPACING)) + 1
        if number > _CRPS_MOST:
            return None
        z = np.linspace(-_CRPS_REACH, _CRPS_REACH + 0.5 * std, number)
        weights = np.exp(-0.5 * z**2)
        weights /= np.sum(weights)
        slope, rest = _given_second(var)
        found = np.empty(y.shape)
        for rows in chunks(len(y), max(1, _CRPS_PAIRS // number**2)):
            away = np.sqrt(var[1, rows])[:, None] * z
            variance = rest[rows, None] + np.exp(mean[1, rows, None] + away)
            centre = mean[0, rows, None] + slope[rows, None] * away
            single = _mean_size(centre - y[rows, None], variance) @ weights
            between = centre[:, :, None] - centre[:, None]
            pairs = _mean_size(between, variance[:, :, None] + variance[:, None])
            found[rows] = single - 0.5 * (pairs @ weights @ weights)
        return found

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f[0] + np.exp(0.5 * f[1]) * rng.standard_normal(f[0].shape)

    def at_start(
        self, f: np.ndarray, unexplained: float
    ) -> tuple["HetGaussian", np.ndarray]:
        return self, f + np.array([0.0, math.log(unexplained)])

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        mean, variance = mean_and_variance(y, weight)
        return np.array([mean, np.log(variance)])

    def constant_fit(
        self, y: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple["HetGaussian", np.ndarray]:
        return self, self.moment_fit(y, weight)
