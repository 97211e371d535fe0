"""Quantiles: the searches against SciPy's, and the rule against sums over f."""

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from numpy.testing import assert_allclose, assert_array_equal

from motleygp import likelihoods as lik
from motleygp.likelihoods._quantiles import LEAST_LEVEL
from motleygp.prediction import Predictive
from motleygp.prediction.quantiles import (
    LINE_REACH,
    place_on_line,
    roots_on_line,
    smallest_integers,
)

LEVELS = np.array([1e-9, 1e-3, 0.05, 0.5, 0.9, 0.999, 1.0 - 1e-9])


class Counted:
    """A cdf by rows, and the number of its calls."""

    def __init__(self, distributions):
        self.of, self.calls = distributions, 0

    def __call__(self, t: np.ndarray, rows: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.array([self.of[r].cdf(v) for v, r in zip(t, rows, strict=True)])


def _pairs(number: int) -> tuple[np.ndarray, np.ndarray]:
    rows, levels = np.meshgrid(np.arange(number), LEVELS, indexing="ij")
    return rows.ravel(), levels.ravel()


def test_roots_are_those_of_scipy():
    every = [st.norm(3.0, 0.1), st.logistic(), st.t(2.0), st.gumbel_l(), st.expon(-1.0)]
    cdf, (rows, levels) = Counted(every), _pairs(len(every))
    # The place and scale of another distribution: a poor guess.
    ones = np.ones(len(rows))
    found = roots_on_line(cdf, rows, levels, 0.5 * ones, 2.0 * ones)
    expected = [every[r].ppf(v) for r, v in zip(rows, levels, strict=True)]
    assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert cdf.calls < 60


def test_few_calls_find_the_roots_of_a_gaussian():
    cdf, (rows, levels) = Counted([st.norm(3.0, 0.1)]), _pairs(1)
    ones = np.ones(len(rows))
    found = roots_on_line(cdf, rows, levels, 2.9 * ones, 0.2 * ones)
    assert_allclose(found, st.norm.ppf(levels, 3.0, 0.1), rtol=1e-9)
    assert cdf.calls < 8


def test_without_a_root_it_is_the_end_of_the_range():
    def cdf(t, rows):
        return np.where(rows == 0, 0.2, 0.9) + 0.0 * t

    levels, ones = np.full(2, 0.5), np.ones(2)
    found = roots_on_line(cdf, np.array([0, 1]), levels, 0.0 * ones, ones)
    assert found[0] > LINE_REACH and found[1] < -LINE_REACH


@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
def test_integers_are_those_of_scipy(scale):
    every = [st.poisson(0.01), st.poisson(4.2), st.nbinom(0.7, 1e-4), st.poisson(1e6)]
    cdf, (rows, levels) = Counted(every), _pairs(len(every))
    ones = np.ones(len(rows))
    found = smallest_integers(cdf, rows, levels, 5.0 * ones, scale * ones)
    expected = [every[r].ppf(v) for r, v in zip(rows, levels, strict=True)]
    assert_array_equal(found, np.maximum(expected, 0.0))


def test_a_place_on_the_line_is_that_of_the_mean():
    mean, std = np.array([0.1, 2.0, 1e30, np.inf]), np.array([0.1, 5.0, 1e30, np.inf])
    centre, scale = place_on_line(np.exp, mean, std)
    assert_allclose(centre[:3], np.log(mean[:3]), rtol=1e-6)
    assert_allclose(scale[:3], np.log1p(std[:3] / mean[:3]), rtol=1e-5)
    assert (centre[3], scale[3]) == (0.0, 1.0)
    # The mean plus the standard deviation is above 1: the other side gives the scale.
    centre, scale = place_on_line(sp.expit, np.array([0.9]), np.array([0.2]))
    assert_allclose(centre, sp.logit(0.9), rtol=1e-6)
    assert_allclose(scale, sp.logit(0.9) - sp.logit(0.7), rtol=1e-5)


# The rule for two functions.


def _rows(rng, low: float, high: float, shift: float) -> tuple[np.ndarray, np.ndarray]:
    mean, std = rng.normal(shift, 1.0, (2, 80)), rng.uniform(low, high, (2, 80))
    cov = rng.uniform(-0.95, 0.95, 80) * std[0] * std[1]
    return mean, np.concatenate([std**2, cov[None]])


def _cdf(likelihood, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """E[P(Y <= y | f)] on a fine grid of 10^5 nodes."""
    z = np.arange(-7.0, 7.01, 0.045)
    weight = np.exp(-0.5 * z**2)
    weight = np.outer(weight, weight) / np.sum(weight) ** 2
    found = []
    for value, m, (v, w, c) in zip(y, mean.T, var.T, strict=True):
        first = m[0] + np.sqrt(v) * z[:, None] + 0.0 * z
        rest = np.sqrt(w - c * c / v)
        second = m[1] + c / np.sqrt(v) * z[:, None] + rest * z
        found.append(
            np.sum(weight * likelihood.cdf(np.array(value), np.stack([first, second])))
        )
    return np.array(found)


# The deviations and the means of f, and the share of rows in which the rule serves.
SPREADS = [
    ((0.05, 0.3, 0.5), 0.7),
    ((0.05, 0.8, 1.5), 0.5),
    ((0.3, 1.3, 0.0), 0.02),
]


@pytest.mark.parametrize(("spread", "share"), SPREADS)
@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_the_rule_has_the_cdf_of_a_fine_grid(name, spread, share, rng):
    likelihood, (mean, var) = lik.get(name), _rows(rng, *spread)
    levels = np.array([0.001, 0.05, 0.95, 0.999])
    found = likelihood.predictive_quantile(levels, mean, var)
    known = ~np.isnan(found).any(axis=1)
    assert known.mean() > share
    some = np.flatnonzero(known)[::4]
    for level, column in zip(levels, found[some].T, strict=True):
        cdf = _cdf(likelihood, column, mean[:, some], var[:, some])
        # Next to 1, the cdf of a Beta varies between neighbouring floats.
        own = column < 1.0 - 1e-9 if name == "beta" else slice(None)
        assert_allclose(cdf[own], level, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_quantiles_are_those_of_the_cdf_whether_by_rule_or_search(name, rng):
    likelihood, levels = lik.get(name), np.array([1e-5, 0.05, 0.9])
    mean, var = _rows(rng, 0.05, 1.5, 2.0)
    ruled = likelihood.predictive_quantile(levels, mean, var)
    assert np.isnan(ruled[:, 0]).all() and levels[0] < LEAST_LEVEL
    by_rule = ~np.isnan(ruled[:, 1:]).any(axis=1)
    assert by_rule.any() and not by_rule.all()
    p = Predictive(likelihood, mean, var)
    # The bar of cdfs.
    for level, column in zip(levels, p.quantile(levels).T, strict=True):
        assert_allclose(p.cdf(column), level, rtol=0, atol=1e-4)
        searched = p[~by_rule].cdf(column[~by_rule])
        assert_allclose(searched, level, rtol=1e-8)


def test_functions_that_make_the_density_too_narrow_are_left_to_the_search():
    ones = np.ones((2, 1))
    for name in ("gamma", "beta"):
        found = lik.get(name).predictive_quantile(np.array([0.5]), 9.0 * ones, ones)
        assert np.isnan(found).all()
        p = Predictive(lik.get(name), 9.0 * ones, ones)
        assert_allclose(p.cdf(p.quantile(0.5)[:, 0]), 0.5, rtol=1e-9)


def test_a_gaussian_and_a_label_have_theirs_in_closed_form(rng):
    mean, var = rng.normal(size=(1, 9)), rng.uniform(0.1, 4.0, size=(1, 9))
    levels = np.array([0.01, 0.4, 0.99])
    found = lik.Gaussian(0.5).predictive_quantile(levels, mean, var)
    std = np.sqrt(var[0] + 0.25)
    expected = st.norm.ppf(levels, mean[0][:, None], std[:, None])
    assert_allclose(found, expected, rtol=1e-12)
    one = Predictive(lik.Bernoulli(), mean, var)
    below = one.cdf(np.zeros(9))[:, None] >= levels
    assert_array_equal(one.quantile(levels), 1.0 - below)
