"""Scores and tests of calibration, against integrals, sums, enumeration and NumPy."""

import functools as ft
import itertools as it
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate

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
from motleygp.prediction import metrics
from motleygp.prediction.predictive import Predictive


class Setting(NamedTuple):
    """A likelihood and a q(f) of no special kind."""

    likelihood: AbstractLikelihood
    mean: list[float]
    var: list[float]


SETTINGS = {
    "gaussian": Setting(Gaussian(0.5), [0.7], [0.4]),
    "hetgaussian": Setting(HetGaussian(), [0.7, -0.5], [0.4, 0.6]),
    "bernoulli": Setting(Bernoulli(), [-1.0], [2.0]),
    "beta": Setting(Beta(), [1.0, 0.4], [0.3, 0.2]),
    "gamma": Setting(Gamma(), [0.8, -0.3], [0.3, 0.2]),
    "exponential": Setting(Exponential(), [0.5], [0.3]),
    "poisson": Setting(Poisson(), [1.2], [0.3]),
}
CONTINUOUS = [n for n, s in SETTINGS.items() if not s.likelihood.discrete]
DISCRETE = [n for n, s in SETTINGS.items() if s.likelihood.discrete]
MANY = 4000
# One number of rows for log densities, so that each is compiled once.
FEW = 30

every_likelihood = pytest.mark.parametrize("name", SETTINGS)


def _predictive(name: str, num_rows: int, **units: float) -> Predictive:
    """Rows that differ."""
    lik, mean, var = SETTINGS[name]
    noise = np.random.default_rng(5).standard_normal((2, len(mean), num_rows))
    f_mean = np.array(mean)[:, None] + 0.5 * noise[0]
    f_var = np.array(var)[:, None] * np.exp(0.5 * noise[1])
    return Predictive(lik, f_mean, f_var, **units)


@ft.cache
def _simulated(name: str) -> tuple[Predictive, np.ndarray]:
    """Many rows, and values drawn from them.

    The seed is that of the scores, whose own draws must differ from these.
    """
    p = _predictive(name, MANY)
    return p, p.sample(1, 0)[0]


def _moved(p: Predictive, shift: float, spread: float) -> Predictive:
    """Another first function, and all variances multiplied."""
    f_mean = p.f_mean.copy()
    f_mean[0] += shift
    return Predictive(p.likelihood, f_mean, spread * p.f_var)


def _logits(f: np.ndarray) -> Predictive:
    """A binary output of known probabilities, expit(f)."""
    return Predictive(Bernoulli(), f[None], np.zeros((1, len(f))))


def _all_labels(num_rows: int) -> list[np.ndarray]:
    """All the labels that some rows may have."""
    return [np.array(y) for y in it.product([0.0, 1.0], repeat=num_rows)]


def test_every_likelihood_has_a_setting():
    assert set(SETTINGS) == set(likelihoods.BY_NAME)


# Errors of points.


def test_scores_of_a_gaussian_output(rng: np.random.Generator):
    f, y = rng.standard_normal((2, FEW))
    p = Predictive(Gaussian(0.3), f[None], np.full((1, FEW), 0.16))
    assert_allclose(metrics.rmse(p, y), np.sqrt(np.mean((y - f) ** 2)))
    assert_allclose(metrics.mae(p, y), np.mean(np.abs(y - f)))
    assert_allclose(metrics.nlpd(p, y), -np.mean(st.norm.logpdf(y, f, 0.5)))


def test_rmse_is_of_the_mean_and_mae_of_the_median():
    f, y = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.2, 3.0])
    p = Predictive(Exponential(), f[None], np.zeros((1, 3)))
    assert_allclose(metrics.rmse(p, y), np.sqrt(np.mean((y - np.exp(-f)) ** 2)))
    median = np.log(2.0) * np.exp(-f)
    assert_allclose(metrics.mae(p, y), np.mean(np.abs(y - median)), rtol=1e-6)


def test_the_median_of_counts_is_a_count():
    rate, y = np.array([0.4, 3.3, 20.0]), np.array([2.0, 3.0, 15.0])
    p = Predictive(Poisson(), np.log(rate)[None], np.zeros((1, 3)))
    exact = np.mean(np.abs(y - st.poisson.median(rate)))
    assert_allclose(metrics.mae(p, y), exact, rtol=1e-12)


def test_nlpd_of_a_value_that_cannot_occur_is_infinite():
    y = np.resize([1.0, 2.0, -1.0], FEW)
    assert metrics.nlpd(_predictive("poisson", FEW), y) == np.inf


def test_scores_of_a_binary_output():
    p = _logits(np.array([-2.0, -1.0, 0.5, 3.0]))
    y = np.array([0.0, 1.0, 1.0, 1.0])
    assert metrics.accuracy(p, y) == 0.75
    exact = np.mean((sp.expit(p.f_mean[0]) - y) ** 2)
    assert_allclose(metrics.brier(p, y), exact, rtol=1e-12)


# CRPS.


def _gaussian_crps(mean: float, std: float, y: float) -> float:
    """The integral of (F(t) - 1{t >= y})^2."""
    lower = integrate.quad(lambda t: st.norm.cdf(t, mean, std) ** 2, mean - 12 * std, y)
    upper = integrate.quad(lambda t: st.norm.sf(t, mean, std) ** 2, y, mean + 12 * std)
    return lower[0] + upper[0]


def test_crps_of_a_gaussian_output():
    f, y = np.array([0.0, 1.0, -2.0]), np.array([0.1, 3.5, -2.9])
    var, noise = np.array([0.1, 0.5, 1.0]), 0.7
    p = Predictive(Gaussian(noise), f[None], var[None])
    std = np.sqrt(var + noise**2)
    found = np.mean([_gaussian_crps(*row) for row in zip(f, std, y, strict=True)])
    assert_allclose(metrics.crps(p, y), found, rtol=1e-7)
    z = (y - f) / std
    closed = z * (2.0 * st.norm.cdf(z) - 1.0) + 2.0 * st.norm.pdf(z) - np.pi**-0.5
    assert_allclose(metrics.crps(p, y), np.mean(std * closed), rtol=1e-12)


def test_crps_of_a_binary_output():
    p, y = _predictive("bernoulli", FEW), np.resize([0.0, 1.0, 1.0], FEW)
    probability = np.exp(p.log_prob(np.ones(FEW)))
    assert_allclose(metrics.crps(p, y), np.mean((probability - y) ** 2), rtol=1e-6)


def _three(name: str, ys: list[float]) -> tuple[Predictive, np.ndarray, Predictive]:
    """Three rows many times over, a value for each, and the three rows once."""
    p = _predictive(name, 3)
    repeated = (np.tile(a, 32) for a in (p.f_mean, p.f_var))
    return Predictive(p.likelihood, *repeated), np.tile(ys, 32), p


def _integrated_crps(
    p: Predictive, row: int, y: float, line: Callable, slope: Callable, reach: float
) -> float:
    """The integral of (F(t) - 1{t >= y})^2 on the line that maps to the support.

    Gauss-Legendre on both sides of y.
    """
    nodes, weights = np.polynomial.legendre.leggauss(120)
    total = 0.0
    for end, step in ((-reach, 0.0), (reach, 1.0)):
        half = 0.5 * abs(end - line(y))
        t = p.likelihood.from_line(0.5 * (end + line(y)) + half * nodes)
        f_mean, f_var = (np.repeat(a[:, [row]], 120, 1) for a in (p.f_mean, p.f_var))
        cdf = Predictive(p.likelihood, f_mean, f_var).cdf(t)
        total += half * weights @ ((cdf - step) ** 2 * slope(t))
    return total


LINES: dict[str, tuple[Callable, Callable, float, list[float]]] = {
    "hetgaussian": (lambda y: y, np.ones_like, 30.0, [0.1, 1.0, 3.0]),
    "beta": (sp.logit, lambda y: y * (1.0 - y), 15.0, [0.2, 0.7, 0.95]),
    "gamma": (np.log, lambda y: y, 8.0, [0.3, 2.0, 20.0]),
    "exponential": (np.log, lambda y: y, 8.0, [0.1, 1.0, 5.0]),
}


@pytest.mark.parametrize("name", ["hetgaussian", "exponential"])
def test_crps_without_draws_has_more_digits(name: str):
    line, slope, reach, ys = LINES[name]
    lik, mean, var = SETTINGS[name]
    for spread in (1e-6, 1.0, 5.0):
        own = (np.tile(np.array(a)[:, None], 3) for a in (mean, spread * np.array(var)))
        p = Predictive(lik, *own)
        exact = [
            _integrated_crps(p, row, value, line, slope, 2.0 * reach)
            for row, value in enumerate(ys)
        ]
        found = p.crps_in_closed_form(np.array(ys))
        assert_allclose(found, exact, rtol=1e-5)


def test_crps_of_correlated_functions_without_draws():
    mean, var = np.array([[0.3], [-0.5]]), np.array([[0.8], [0.5], [-0.5]])
    p = Predictive(HetGaussian(), mean, var)
    found = p.crps_in_closed_form(np.array([1.2]))
    line, slope, reach, _ = LINES["hetgaussian"]
    assert_allclose(found, _integrated_crps(p, 0, 1.2, line, slope, reach), rtol=1e-5)


def test_crps_of_a_variance_that_varies_widely_takes_draws():
    wide = np.array([[0.1], [25.0]])
    p = Predictive(HetGaussian(), np.zeros((2, 1)), wide)
    assert p.crps_in_closed_form(np.ones(1)) is None


@pytest.mark.parametrize("name", LINES)
def test_crps_is_the_integral_of_the_squared_cdf(name: str):
    line, slope, reach, ys = LINES[name]
    repeated, y, p = _three(name, ys)
    exact = [
        _integrated_crps(p, row, value, line, slope, reach)
        for row, value in enumerate(ys)
    ]
    assert_allclose(metrics.crps(repeated, y), np.mean(exact), rtol=5e-3)
    # One row alone, where the draws are fewest.
    alone = Predictive(p.likelihood, p.f_mean[:, :1], p.f_var[:, :1])
    assert_allclose(metrics.crps(alone, ys[:1]), exact[0], rtol=2e-2)


def test_crps_of_counts_is_a_sum():
    repeated, y, p = _three("poisson", ys := [0.0, 4.0, 15.0])
    z, counts = np.linspace(-8.0, 8.0, 401), np.arange(400.0)
    weight = st.norm.pdf(z) / st.norm.pdf(z).sum()
    exact = []
    for mean, var, value in zip(p.f_mean[0], p.f_var[0], ys, strict=True):
        rate = np.exp(mean + np.sqrt(var) * z)
        cdf = st.poisson.cdf(counts[:, None], rate) @ weight
        exact.append(np.sum((cdf - (counts >= value)) ** 2))
    assert_allclose(metrics.crps(repeated, y), np.mean(exact), rtol=5e-3)


def _twins(num_rows: int, units: dict[str, float]) -> list[Predictive]:
    """One distribution as a Gaussian output, and as one that is scored by draws."""
    f = np.random.default_rng(3).standard_normal((1, num_rows))
    var, zero = np.full((1, num_rows), 0.4), np.zeros((1, num_rows))
    het = np.concatenate([f, np.full_like(f, 2.0 * np.log(0.5))])
    return [
        Predictive(Gaussian(0.5), f, var, **units),
        Predictive(HetGaussian(), het, np.concatenate([var, zero]), **units),
    ]


@pytest.fixture
def no_closed_form(monkeypatch):
    monkeypatch.setattr(HetGaussian, "predictive_crps", lambda *_: None)


@pytest.mark.usefixtures("no_closed_form")
def test_crps_of_many_rows_has_no_bias():
    # 64 draws a row: an estimate that counted pairs of equals would be 1 % too large.
    exact, drawn = _twins(20_000, {})
    y = exact.sample(1, 0)[0]
    assert_allclose(metrics.crps(drawn, y), metrics.crps(exact, y), rtol=4e-3)


@pytest.mark.usefixtures("no_closed_form")
def test_crps_far_from_zero_keeps_its_digits():
    exact, drawn = _twins(100, {"shift": 1e9})
    y = exact.sample(1, 0)[0]
    assert_allclose(metrics.crps(drawn, y), metrics.crps(exact, y), rtol=5e-3)


@every_likelihood
def test_crps_varies_little_with_the_seed(name: str):
    p, y = _simulated(name)
    scores = [metrics.crps(p, y, random_state=seed) for seed in range(4)]
    assert np.std(scores) < 3e-3 * np.mean(scores)


@every_likelihood
def test_crps_is_best_for_the_truth(name: str):
    p, y = _simulated(name)
    for wrong in (_moved(p, 1.0, 1.0), _moved(p, 0.0, 50.0)):
        assert metrics.crps(wrong, y) > 1.01 * metrics.crps(p, y)


def test_crps_depends_on_the_random_state_alone():
    p, y = _predictive("gamma", 5), np.ones(5)
    first = metrics.crps(p, y)
    assert metrics.crps(p, y) == metrics.crps(p, y, random_state=0) == first
    assert metrics.crps(p, y, random_state=np.random.default_rng(0)) == first
    assert metrics.crps(p, y, random_state=1) != first


# Coverage.


@pytest.mark.parametrize("name", CONTINUOUS)
def test_coverage_is_nominal(name: str):
    level, error = 0.8, np.sqrt(0.8 * 0.2 / MANY)
    assert abs(metrics.coverage(*_simulated(name), level) - level) < 4.0 * error


@pytest.mark.parametrize("name", DISCRETE)
def test_coverage_of_a_discrete_output_is_nominal_at_least(name: str):
    level, error = 0.8, np.sqrt(0.8 * 0.2 / MANY)
    assert metrics.coverage(*_simulated(name), level) > level - 4.0 * error


@every_likelihood
def test_coverage_is_that_of_intervals(name: str):
    p = _predictive(name, 40)
    y = p.sample(1, 4)[0]
    low, high = p.interval(0.6).T
    inside = np.mean((low <= y) & (y <= high))
    assert inside > 0.3
    assert metrics.coverage(p, y, 0.6) == inside


@every_likelihood
def test_coverage_at_the_ends_of_intervals(name: str):
    p = _predictive(name, 4)
    low, high = p.interval().T
    step = np.ones(4) if p.likelihood.discrete else 1e-3 * (high - low)
    assert metrics.coverage(p, low - step) == 0.0
    assert metrics.coverage(p, high + step) == 0.0
    if p.likelihood.discrete:
        assert metrics.coverage(p, low) == metrics.coverage(p, high) == 1.0
        assert metrics.coverage(p, low - 0.5) == metrics.coverage(p, high + 0.5) == 0.0
    else:
        assert metrics.coverage(p, low + step) == 1.0
        assert metrics.coverage(p, high - step) == 1.0


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_at_the_ends_of_intervals_of_labels(level: float):
    # Intervals [0, 0], [0, 1] and [1, 1]; the ends are reached by small shares too.
    p = _logits(np.array([-4.0, -0.5, 0.5, 4.0]))
    low, high = p.interval(level).T
    for y in _all_labels(4):
        inside = np.mean((low <= y) & (y <= high))
        assert metrics.coverage(p, y, level) == inside


def test_coverage_where_the_cdf_meets_the_level():
    # P(Y = 0) is the upper level: the interval ends at 0. It is the lower: it begins
    # there. Both levels are exact in floats.
    for f, y, inside in ((-1.0, 1.0, 0.0), (1.0, 0.0, 1.0)):
        p = _logits(np.array([f]))
        level = abs(2.0 * p.cdf([0.0])[0] - 1.0)
        assert p.interval(level)[0, 0 if inside else 1] == 0.0
        assert metrics.coverage(p, [y], level) == inside


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_levels_that_are_no_probabilities_are_refused(level: float):
    with pytest.raises(
        ValueError, match=r"^`level` must lie strictly between 0 and 1; got .*\.$"
    ):
        metrics.coverage(_predictive("gaussian", 2), np.ones(2), level)


# PIT.


@every_likelihood
def test_pit_of_the_truth_is_uniform(name: str):
    p, y = _simulated(name)
    some = Predictive(p.likelihood, p.f_mean[:, :1500], p.f_var[:, :1500])
    values = metrics.pit(some, y[:1500])
    assert metrics.uniformity(values).pvalue > 1e-3
    assert st.kstest(values, "uniform").pvalue > 1e-3


@every_likelihood
def test_pit_of_a_narrow_predictive_is_not_uniform(name: str):
    narrow = _predictive(name, 1200)
    y = _moved(narrow, 0.0, 50.0).sample(1, 2)[0]
    assert metrics.uniformity(metrics.pit(narrow, y)).pvalue < 1e-6


def test_pit_of_a_continuous_output_is_its_cdf():
    # More rows than are asked at a time.
    p, y = _simulated("hetgaussian")
    assert_allclose(metrics.pit(p, y), p.cdf(y), rtol=1e-14)
    assert_array_equal(metrics.pit(p, y), metrics.pit(p, y, random_state=1))


@pytest.mark.parametrize("name", DISCRETE)
def test_pit_of_a_discrete_output_lies_in_the_step_of_its_cdf(name: str):
    p, y = _predictive(name, 200), np.resize([0.0, 1.0], 200)
    values, below, upto = metrics.pit(p, y), p.cdf(y - 1.0), p.cdf(y)
    assert ((below <= values) & (values <= upto)).all()
    share = (values - below) / (upto - below)
    assert st.kstest(share, "uniform").pvalue > 1e-3
    assert_array_equal(values, metrics.pit(p, y, random_state=0))
    assert (values != metrics.pit(p, y, random_state=1)).all()


@every_likelihood
def test_pit_far_in_the_tails_is_a_probability(name: str):
    p = _predictive(name, 4)
    values = metrics.pit(p, [-1e9, 1e9, -np.inf, np.inf])
    assert_allclose(values, [0.0, 1.0, 0.0, 1.0], atol=1e-12)
    assert ((values >= 0) & (values <= 1)).all()


def test_uniformity_is_pearson_s_test():
    values = [0.0, 0.1, 0.2, 0.3, 0.6, 1.0, np.nan]
    found = metrics.uniformity(values, bins=2)
    # Four and two where three are due.
    assert_allclose(found.statistic, 2.0 / 3.0)
    assert_allclose(found.pvalue, st.chi2.sf(2.0 / 3.0, 1))
    assert metrics.uniformity(np.linspace(0.05, 0.95, 10)) == (0.0, 1.0)
    # The bins are of [0, 1], whatever came.
    assert_allclose(metrics.uniformity([0.1, 0.2, 0.3, 0.4], bins=2).statistic, 4.0)


@pytest.mark.parametrize("values", [[0.5, 1.1], [-0.1, 0.5], [np.inf, 0.5]])
def test_values_that_are_no_probabilities_are_refused(values: list[float]):
    with pytest.raises(
        ValueError, match=r"^`values` must lie between 0 and 1; got .* to .*\.$"
    ):
        metrics.uniformity(values)


def test_uniformity_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"^`values` must have at least .* none\.$"):
        metrics.uniformity([np.nan])


# Reliability.


@ft.cache
def _labels() -> tuple[np.ndarray, np.ndarray]:
    """Logits that spread, and labels drawn from them."""
    rng = np.random.default_rng(8)
    f = 2.0 * rng.standard_normal(MANY)
    return f, (rng.random(MANY) < sp.expit(f)).astype(float)


def test_reliability_of_the_truth_is_on_the_diagonal():
    f, y = _labels()
    bins = metrics.reliability(_logits(f), y)
    assert_array_equal(bins.count, np.full(10, MANY // 10))
    # A sum of labels of different probabilities varies less than a binomial.
    error = np.sqrt(bins.predicted * (1.0 - bins.predicted) / bins.count)
    assert (np.abs(bins.observed - bins.predicted) < 4.0 * error).all()


def test_reliability_is_that_of_blocks_of_sorted_rows():
    f, y = (part[:103] for part in _labels())
    bins = metrics.reliability(_logits(f), y, bins=4)
    blocks = np.split(np.argsort(f), [26, 52, 78])
    assert_array_equal(bins.count, [26, 26, 26, 25])
    assert_allclose(bins.predicted, [sp.expit(f[b]).mean() for b in blocks])
    assert_allclose(bins.observed, [y[b].mean() for b in blocks])
    shuffled = np.random.default_rng(0).permutation(103)
    again = metrics.reliability(_logits(f[shuffled]), y[shuffled], bins=4)
    for one, other in zip(bins, again, strict=True):
        assert_allclose(one, other)


def test_reliability_keeps_rows_of_equal_probability_together():
    f, y = np.repeat([2.0, -1.0, 0.5], [30, 50, 20]), np.resize([0.0, 1.0, 1.0], 100)
    bins = metrics.reliability(_logits(f), y)
    assert_array_equal(bins.count, [50, 20, 30])
    assert_allclose(bins.predicted, sp.expit([-1.0, 0.5, 2.0]))
    assert_allclose(bins.observed, [y[30:80].mean(), y[80:].mean(), y[:30].mean()])
    single = metrics.reliability(_logits(np.zeros(5)), np.ones(5))
    assert_array_equal(single.count, [5])


def test_the_reliability_test_has_mean_zero_and_variance_one():
    """Over all the labels that seven rows may have."""
    f = np.array([-3.0, -1.5, -0.2, 0.1, 0.8, 2.0, 4.0])
    p, probability = _logits(f), sp.expit(f)
    moments = np.zeros(3)
    for y in _all_labels(7):
        chance = np.prod(np.where(y == 1.0, probability, 1.0 - probability))
        z = metrics.reliability_test(p, y).statistic
        moments += chance * z ** np.arange(3)
    assert_allclose(moments, [1.0, 0.0, 1.0], atol=1e-10)


def test_the_reliability_test_grows_with_the_brier_score():
    p = _logits(np.array([-3.0, -1.0, 2.0]))
    labels = _all_labels(3)
    tests = [metrics.reliability_test(p, y) for y in labels]
    z = np.array([test.statistic for test in tests])
    score = np.array([metrics.brier(p, y) for y in labels])
    assert_allclose(np.corrcoef(z, score)[0, 1], 1.0)
    assert_allclose([test.pvalue for test in tests], 2.0 * st.norm.sf(np.abs(z)))


def test_the_reliability_test_accepts_the_truth_and_refuses_distortions():
    f, y = _labels()
    assert metrics.reliability_test(_logits(f), y).pvalue > 1e-3
    sharp = metrics.reliability_test(_logits(1.5 * f), y)
    timid = metrics.reliability_test(_logits(0.6 * f), y)
    assert max(sharp.pvalue, timid.pvalue) < 1e-6
    assert timid.statistic < 0 < sharp.statistic


def test_the_reliability_test_of_certainties_is_refused():
    p = _logits(np.array([-800.0, 800.0]))
    with pytest.raises(ValueError, match=r"^`reliability_test` must have a .*\.$"):
        metrics.reliability_test(p, [0.0, 1.0])


@pytest.mark.parametrize(
    ("test", "fewest"),
    [
        (lambda n: metrics.uniformity([0.5], bins=n), 2),
        (lambda n: metrics.reliability(_predictive("bernoulli", 1), [1.0], n), 1),
    ],
)
def test_too_few_bins_are_refused(test: Callable, fewest: int):
    test(fewest)
    with pytest.raises(
        ValueError,
        match=rf"^`bins` must be at least {fewest}; got {fewest - 1}\.$",
    ):
        test(fewest - 1)


# What all have in common.

BINARY = [
    metrics.accuracy,
    metrics.brier,
    metrics.reliability,
    metrics.reliability_test,
]
GENERAL = [
    metrics.rmse,
    metrics.mae,
    metrics.nlpd,
    metrics.crps,
    metrics.coverage,
    metrics.pit,
    metrics.summary,
]


@pytest.mark.parametrize("name", ["gaussian", "hetgaussian", "bernoulli"])
def test_summary_is_of_the_scores(name: str):
    p = _predictive(name, FEW)
    y = p.sample(1, 6)[0]
    exact = {
        "nlpd": metrics.nlpd(p, y),
        "rmse": metrics.rmse(p, y),
        "crps": metrics.crps(p, y),
        "coverage95": metrics.coverage(p, y, 0.95),
    }
    if name == "bernoulli":
        exact["accuracy"] = metrics.accuracy(p, y)
    found = metrics.summary(p, y)
    assert found == exact
    assert all(type(value) is float for value in found.values())


def _flat(result: object) -> np.ndarray:
    """The numbers of any score."""
    parts = list(result.values()) if isinstance(result, dict) else result
    return np.atleast_1d(np.asarray(parts, dtype=float)).ravel()


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_missing_rows_are_left_out(name: str):
    p = _predictive(name, FEW)
    y = p.sample(1, 6)[0]
    y[::3] = np.nan
    seen = ~np.isnan(y)
    kept = Predictive(p.likelihood, p.f_mean[:, seen], p.f_var[:, seen])
    for score in GENERAL + (BINARY if name == "bernoulli" else []):
        found, exact = _flat(score(p, y)), _flat(score(kept, y[seen]))
        if score is metrics.pit:
            assert_array_equal(np.isnan(found), ~seen)
            found = found[seen]
        assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize("score", GENERAL + BINARY)
def test_a_score_of_nothing_is_refused(score: Callable):
    with pytest.raises(
        ValueError, match=r"^`y` must have an observed value; got 2 missing ones\.$"
    ):
        score(_predictive("bernoulli", 2), [np.nan, np.nan])


@pytest.mark.parametrize("score", GENERAL + BINARY)
@pytest.mark.parametrize("y", [np.array(1.0), [1.0], np.ones((1, 2)), np.ones(3)])
def test_values_of_the_wrong_shape_are_refused(score: Callable, y):
    with pytest.raises(ValueError, match=r"^`y` must have shape \(2,\); got \(.*\)\.$"):
        score(_predictive("bernoulli", 2), y)


@pytest.mark.parametrize("score", BINARY)
def test_outputs_that_are_not_binary_are_refused(score: Callable):
    rule = "must be given a binary output, such as bernoulli; got poisson"
    with pytest.raises(ValueError, match=rf"^`{score.__name__}` {rule}\.$"):
        score(_predictive("poisson", 2), [0.0, 1.0])


@pytest.mark.parametrize("score", [*BINARY, metrics.crps])
def test_values_that_are_no_labels_are_refused(score: Callable):
    with pytest.raises(ValueError, match=r"^`y` must be 0 or 1; got 2\.$"):
        score(_predictive("bernoulli", 2), [1.0, 2.0])


@pytest.mark.parametrize("name", ["gaussian", "hetgaussian"])
def test_units(name: str):
    inner = _predictive(name, FEW)
    outer = _predictive(name, FEW, shift=5.0, scale=2.0)
    y = inner.sample(1, 6)[0]
    y[::5] = np.nan
    moved = 5.0 + 2.0 * y
    for score in (metrics.rmse, metrics.mae, metrics.crps):
        assert_allclose(score(outer, moved), 2.0 * score(inner, y))
    assert_allclose(metrics.nlpd(outer, moved), metrics.nlpd(inner, y) + np.log(2.0))
    assert metrics.coverage(outer, moved, 0.6) == metrics.coverage(inner, y, 0.6)
    assert_allclose(metrics.pit(outer, moved), metrics.pit(inner, y))
