"""Predictions under q(f), against samples, dense sums over f and known integrals."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from numpy.testing import assert_allclose, assert_array_equal

from motleygp import likelihoods
from motleygp.likelihoods import (
    AbstractLikelihood,
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    HetGaussian,
    Poisson,
)
from motleygp.prediction.predictive import Predictive


class Setting(NamedTuple):
    """A likelihood and a q(f) of no special kind."""

    likelihood: AbstractLikelihood
    mean: list[float]
    var: list[float]
    ys: list[float]
    """Values that are likely, and one in a tail."""
    impossible: list[float]
    """Values outside the support."""


SETTINGS = {
    "gaussian": Setting(Gaussian(0.5), [0.7], [0.4], [0.1, 1.0, 3.0], [np.inf]),
    "hetgaussian": Setting(
        HetGaussian(), [0.7, -0.5], [0.4, 0.6], [0.1, 1.0, 4.0], [-np.inf]
    ),
    "bernoulli": Setting(Bernoulli(), [-1.0], [2.0], [0.0, 1.0], [0.5, -1.0, 2.0]),
    "beta": Setting(Beta(), [1.0, 0.4], [0.3, 0.2], [0.2, 0.7, 0.99], [0.0, 1.0, -0.1]),
    "gamma": Setting(Gamma(), [0.8, -0.3], [0.3, 0.2], [0.3, 2.0, 40.0], [0.0, -1.0]),
    "exponential": Setting(Exponential(), [0.5], [0.3], [0.1, 1.0, 10.0], [-1e-9]),
    "poisson": Setting(Poisson(), [1.2], [0.3], [0.0, 4.0, 40.0], [-1.0, 2.5, np.inf]),
}
CONTINUOUS = [n for n, s in SETTINGS.items() if not s.likelihood.discrete]
DISCRETE = [n for n, s in SETTINGS.items() if s.likelihood.discrete]

# One number of rows for all log densities, so that each is compiled once.
ROWS = 401
# Enough for a few values: without the compiler's optimisations, a row takes long.
FEW = 16

every_likelihood = pytest.mark.parametrize("name", SETTINGS)


def _predictive(name: str, num_rows: int, **units: float) -> Predictive:
    """The setting's q(f), the same in all rows."""
    setting = SETTINGS[name]
    mean = np.tile(np.array(setting.mean)[:, None], num_rows)
    var = np.tile(np.array(setting.var)[:, None], num_rows)
    return Predictive(setting.likelihood, mean, var, **units)


def _several_rows(name: str) -> Predictive:
    """Rows that differ."""
    setting, shift = SETTINGS[name], np.array([-1.0, 0.0, 0.5, 1.0])
    mean = np.array(setting.mean)[:, None] + shift
    var = np.array(setting.var)[:, None] * np.array([0.1, 1.0, 2.0, 0.5])
    return Predictive(setting.likelihood, mean, var)


def _log_prob(name: str, y: list[float]) -> np.ndarray:
    """The predictive log density of a few values."""
    size = FEW if len(y) <= FEW else ROWS
    padded = np.resize(np.array(y), size)
    return _predictive(name, size).log_prob(padded)[: len(y)]


conditional_log_prob = eqx.filter_jit(lambda lik, y, f: lik.log_prob(y, f))


def _dense(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: list[float],
    var: list[float],
    num_points: int,
) -> float:
    """log E[exp(log_density(f))] by the trapezium rule over twelve deviations."""
    z = np.linspace(-12.0, 12.0, num_points)
    log_weight = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) + np.log(z[1] - z[0])
    axes = [m + np.sqrt(v) * z for m, v in zip(mean, var, strict=True)]
    total = log_density(np.stack(np.meshgrid(*axes, indexing="ij")))
    for i in range(len(mean)):
        shape = [1] * len(mean)
        shape[i] = num_points
        total = total + log_weight.reshape(shape)
    return float(np.asarray(sp.logsumexp(total)))


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """A search that never ends fails, rather than stopping the whole suite."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_every_likelihood_has_a_setting():
    assert set(SETTINGS) == set(likelihoods.BY_NAME)


# Samples, moments, cdf.


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_follow_the_cdf(name: str):
    predictive = _predictive(name, 3000)
    draws = predictive.sample(random_state=1)[0]
    assert st.kstest(predictive.cdf(draws), "uniform").pvalue > 1e-3


def _counts_test(predictive: Predictive, draws: np.ndarray) -> float:
    """The p-value of draws in cells of about equal probability."""
    edges = np.unique(np.quantile(draws, np.linspace(0.05, 0.95, 19)).round())
    cells = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1)
    below = Predictive(
        predictive.likelihood,
        np.tile(predictive.f_mean[:, :1], len(edges)),
        np.tile(predictive.f_var[:, :1], len(edges)),
    ).cdf(edges)
    probability = np.diff(below, prepend=0.0, append=1.0)
    kept = cells + probability > 0
    expected = probability[kept] * len(draws)
    return st.chisquare(cells[kept], expected).pvalue


@pytest.mark.parametrize("name", DISCRETE)
def test_samples_of_counts_follow_the_cdf(name: str):
    predictive = _predictive(name, 1)
    draws = predictive.sample(100_000, random_state=1)[:, 0]
    assert _counts_test(predictive, draws) > 1e-3


def test_samples_follow_the_cdf_where_counts_are_large():
    # p(y | f) is thirty times narrower in f than q(f): the cdf must be no staircase.
    predictive = Predictive(Poisson(), np.array([[7.0]]), np.array([[1.0]]))
    draws = predictive.sample(20_000, random_state=1)[:, 0]
    assert _counts_test(predictive, draws) > 1e-3


@pytest.mark.parametrize("lik", [Gamma(), Beta()], ids=lambda lik: lik.name)
def test_samples_follow_the_cdf_where_the_likelihood_is_narrow(lik):
    ones = np.ones((2, 3000))
    predictive = Predictive(lik, 6.0 * ones, ones)
    draws = predictive.sample(random_state=1)[0]
    assert st.kstest(predictive.cdf(draws), "uniform").pvalue > 1e-3


@every_likelihood
def test_moments_are_those_of_samples(name: str):
    predictive, number = _predictive(name, 1), 1_000_000
    draws = predictive.sample(number, random_state=2)[:, 0]
    centred = draws - draws.mean()
    error = draws.std() / np.sqrt(number)
    assert abs(predictive.mean[0] - draws.mean()) < 4.0 * error
    error = np.std(centred**2) / np.sqrt(number)
    assert abs(predictive.variance[0] - draws.var()) < 5.0 * error
    assert_allclose(predictive.std, np.sqrt(predictive.variance), rtol=1e-15)


@every_likelihood
def test_moments_are_those_of_the_base_class(name: str):
    predictive = _several_rows(name)
    q = predictive.f_mean, predictive.f_var
    default = AbstractLikelihood.predictive_moments
    first, second = default(predictive.likelihood, *q)
    assert_allclose(predictive.mean, first, rtol=1e-8)
    assert_allclose(predictive.variance, second, rtol=1e-8)


@every_likelihood
def test_samples_have_a_row_each(name: str):
    predictive = _several_rows(name)
    draws = predictive.sample(3, random_state=0)
    assert draws.shape == (3, len(predictive))
    assert predictive.likelihood.in_support(draws).all()
    assert_array_equal(draws, predictive.sample(3, random_state=0))
    generator = np.random.default_rng(0)
    assert_array_equal(draws, predictive.sample(3, random_state=generator))
    assert (predictive.sample(3, random_state=generator) != draws).any()


@every_likelihood
def test_cdf_of_a_missing_value_is_missing(name: str):
    value = _predictive(name, 2).cdf([np.nan, SETTINGS[name].ys[0]])
    assert_array_equal(np.isnan(value), [True, False])


# Quantiles.

LEVELS = [1e-3, 0.5, 0.975]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantile_inverts_the_cdf(name: str):
    predictive = _several_rows(name)
    quantiles = predictive.quantile(LEVELS)
    assert quantiles.shape == (4, 3)
    for level, column in zip(LEVELS, quantiles.T, strict=True):
        assert_allclose(predictive.cdf(column), level, atol=1e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_quantile_is_the_smallest_integer_that_reaches_the_level(name: str):
    predictive = _several_rows(name)
    for level, column in zip(LEVELS, predictive.quantile(LEVELS).T, strict=True):
        assert predictive.likelihood.in_support(column).all()
        assert (predictive.cdf(column) >= level).all()
        assert (predictive.cdf(column - 1.0) < level).all()


@every_likelihood
def test_interval_is_two_quantiles(name: str):
    predictive = _several_rows(name)
    exact = predictive.quantile([0.1, 0.9])
    assert_allclose(predictive.interval(0.8), exact, rtol=1e-12)


def test_interval_holds_95_percent_unless_told():
    predictive = _several_rows("gaussian")
    exact = predictive.quantile([0.025, 0.975])
    assert_allclose(predictive.interval(), exact, rtol=1e-12)


def test_quantile_of_one_level_has_one_column():
    assert _several_rows("gamma").quantile(0.5).shape == (4, 1)


@pytest.mark.parametrize("level", [1e-9, 1.0 - 1e-9])
@pytest.mark.parametrize("lik", [Gaussian(), Exponential()], ids=lambda lik: lik.name)
def test_quantile_far_in_the_tail(lik: AbstractLikelihood, level: float):
    predictive = Predictive(lik, np.array([[1.0]]), np.array([[0.2]]))
    tail = min(level, 1.0 - level)
    found = predictive.quantile([level])[:, 0]
    assert_allclose(predictive.cdf(found), level, rtol=0, atol=1e-3 * tail)


@pytest.mark.parametrize("level", [1.0 - 1e-9, 1.0 - 1e-15])
def test_quantile_of_counts_far_in_the_tail(level: float):
    predictive = Predictive(Poisson(), np.array([[1.0]]), np.array([[0.2]]))
    with _time_limit(5):
        found = predictive.quantile([level])[:, 0]
    assert predictive.cdf(found)[0] >= level
    assert predictive.cdf(found - 1.0)[0] < level


def test_quantile_of_a_spike_at_zero():
    # A shape of exp(-5): one draw in forty is below exp(-550).
    predictive = Predictive(Gamma(), np.array([[-5.0], [0.0]]), 0.1 * np.ones((2, 1)))
    levels = [0.025, 0.1, 0.5]
    for level, y in zip(levels, predictive.quantile(levels)[0], strict=True):
        assert_allclose(predictive.cdf([y]), level, atol=1e-6)


# The log density.


def _line(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Points y of the support, and the weights dy of a trapezium rule on the line."""
    lik, t = SETTINGS[name].likelihood, np.linspace(-30.0, 30.0, ROWS)
    y, step = lik.from_line(t), t[1] - t[0]
    slope = {"beta": y * (1.0 - y), "gamma": y, "exponential": y}
    return y, step * slope.get(name, np.ones_like(y))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_integrates_to_one(name: str):
    y, weight = _line(name)
    total = np.exp(_predictive(name, ROWS).log_prob(y)) @ weight
    assert_allclose(total, 1.0, atol=1e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_add_up_to_one(name: str):
    y = np.arange(2.0) if name == "bernoulli" else np.arange(float(ROWS))
    probability = np.exp(_log_prob(name, list(y)))
    assert_allclose(probability.sum(), 1.0, atol=1e-6)
    cdf = _predictive(name, len(y)).cdf(y)
    assert_allclose(np.cumsum(probability), cdf, atol=1e-6)


@every_likelihood
def test_log_prob_is_that_of_samples_of_f(name: str, rng: np.random.Generator):
    lik, mean, var, ys, _ = SETTINGS[name]
    number = 1_000_000
    noise = rng.standard_normal((len(mean), number))
    f = np.array(mean)[:, None] + np.sqrt(var)[:, None] * noise
    for y, found in zip(ys, _log_prob(name, ys), strict=True):
        draws = conditional_log_prob(lik, jnp.full(number, y), jnp.asarray(f))
        density = np.exp(draws)
        error = np.std(density) / np.sqrt(number)
        assert abs(np.exp(found) - np.mean(density)) < 4.0 * error


@every_likelihood
def test_log_prob_of_missing_and_impossible_values(name: str):
    setting = SETTINGS[name]
    value = _log_prob(name, [np.nan, *setting.impossible, setting.ys[0]])
    assert np.isnan(value[0])
    assert (value[1:-1] == -np.inf).all()
    assert np.isfinite(value[-1])


@every_likelihood
def test_log_prob_where_there_is_nothing_to_score(name: str):
    value = _log_prob(name, [np.nan, SETTINGS[name].impossible[0]])
    assert_array_equal(value, [np.nan, -np.inf])


def _twin(lik: AbstractLikelihood, y: float) -> Callable[[np.ndarray], np.ndarray]:
    """SciPy's log density of y for an array of f."""
    twins: dict[type, Callable[[np.ndarray], np.ndarray]] = {
        HetGaussian: lambda f: st.norm.logpdf(y, f[0], np.exp(0.5 * f[1])),
        Bernoulli: lambda f: -np.logaddexp(0.0, (1.0 - 2.0 * y) * f[0]),
        Beta: lambda f: st.beta.logpdf(y, np.exp(f[0]), np.exp(f[1])),
        Gamma: lambda f: st.gamma.logpdf(y, np.exp(f[0]), scale=np.exp(-f[1])),
        Exponential: lambda f: f[0] - y * np.exp(f[0]),
        Poisson: lambda f: st.poisson.logpmf(y, np.exp(f[0])),
    }
    return twins[type(lik)]


HARD = {
    "counts in the thousands": (Poisson(), 3000.0, [7.0], [1.0]),
    "counts far in the tail": (Poisson(), 5000.0, [0.0], [1.0]),
    "no count where thousands are due": (Poisson(), 0.0, [8.0], [1.0]),
    "a long wait": (Exponential(), 1e4, [0.0], [1.0]),
    "a short wait": (Exponential(), 1e-12, [0.0], [1.0]),
    "an unlikely label": (Bernoulli(), 1.0, [-20.0], [4.0]),
    "an outlier": (HetGaussian(), 300.0, [0.0, 0.0], [1.0, 1.0]),
    "small noise": (HetGaussian(), 1.0, [0.0, -5.0], [1.0, 1.0]),
    "beta, wide q": (Beta(), 0.3, [2.0, 1.0], [2.25, 2.25]),
    "beta, narrow": (Beta(), 0.3, [6.0, 6.5], [1.0, 1.0]),
    "beta, symmetric": (Beta(), 0.5, [5.0, 5.0], [1.0, 1.0]),
    "beta, tail": (Beta(), 1e-9, [2.0, 1.0], [0.25, 0.25]),
    "gamma, wide q": (Gamma(), 1.5, [2.0, 1.0], [2.25, 2.25]),
    "gamma, narrow": (Gamma(), 1.5, [6.0, 6.5], [1.0, 1.0]),
    "gamma, tail": (Gamma(), 1000.0, [0.0, 0.3], [1.0, 1.0]),
    "gamma, lower tail": (Gamma(), 1e-9, [2.0, 1.0], [1.0, 1.0]),
}


@pytest.mark.parametrize("hard", HARD.values(), ids=HARD.keys())
def test_log_prob_where_q_says_little_of_the_integrand(hard: tuple):
    """Narrow likelihoods and tails, against a dense sum over f."""
    lik, y, mean, var = hard
    rows = (np.tile(np.array(part)[:, None], FEW) for part in (mean, var))
    value = Predictive(lik, *rows).log_prob(np.full(FEW, y))[0]
    points = 20001 if len(mean) == 1 else 801
    assert_allclose(value, _dense(_twin(lik, y), mean, var, points), rtol=0, atol=1e-4)


# Units, and what is refused.


def test_shift_and_scale():
    inner = _predictive("gaussian", ROWS)
    outer = _predictive("gaussian", ROWS, shift=5.0, scale=2.0)
    y = np.resize([0.1, 1.0, np.nan], ROWS)
    assert_allclose(outer.mean, 5.0 + 2.0 * inner.mean)
    assert_allclose(outer.std, 2.0 * inner.std)
    assert_allclose(outer.variance, 4.0 * inner.variance)
    assert_allclose(outer.quantile(LEVELS), 5.0 + 2.0 * inner.quantile(LEVELS))
    assert_allclose(outer.interval(0.5), 5.0 + 2.0 * inner.interval(0.5))
    assert_allclose(outer.cdf(5.0 + 2.0 * y), inner.cdf(y))
    assert_allclose(outer.log_prob(5.0 + 2.0 * y), inner.log_prob(y) - np.log(2.0))
    assert_allclose(outer.sample(4, 0), 5.0 + 2.0 * inner.sample(4, 0))


def test_a_predictive_says_what_it_is():
    predictive = _several_rows("poisson")
    assert len(predictive) == 4
    assert repr(predictive) == "Predictive(poisson, 4 rows)"


@pytest.mark.parametrize("method", ["log_prob", "cdf"])
@pytest.mark.parametrize("y", [np.array(1.0), [1.0], np.ones((1, 4)), np.ones(5)])
def test_values_of_the_wrong_shape_are_refused(method: str, y):
    with pytest.raises(ValueError, match=r"^`y` must have shape \(4,\); got \(.*\)\.$"):
        getattr(_several_rows("gaussian"), method)(y)


@pytest.mark.parametrize("levels", [[0.0], [1.0], [0.5, -0.1], [0.1, np.nan]])
def test_levels_that_are_no_probabilities_are_refused(levels):
    with pytest.raises(
        ValueError,
        match=r"^`levels` must be .* strictly between 0 and 1; got \[.*\]\.$",
    ):
        _several_rows("gaussian").quantile(levels)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 95.0, float("nan")])
def test_coverage_that_is_no_probability_is_refused(coverage: float):
    with pytest.raises(
        ValueError, match=r"^`coverage` must lie strictly between 0 and 1; got .*\.$"
    ):
        _several_rows("gaussian").interval(coverage)
