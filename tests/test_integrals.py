"""The rules for log densities in NumPy, against integrals known in closed form."""

import numpy as np
import pytest
import scipy.integrate as integrate
import scipy.special as sp
import scipy.stats as st
from numpy.testing import assert_allclose, assert_array_equal

from motleygp import likelihoods as lik
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.integrals import (
    Ridge,
    log_expect_exp_of_one,
    log_expect_exp_of_two,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

MEAN = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])
VAR = np.array([[0.5, 1.5, 0.01], [1.0, 0.2, 2.0]])
COVARIANCE = np.array([0.6, -0.5, 0.1])


# One function.


@pytest.mark.parametrize("slope", [0.5, -30.0])
def test_of_a_line(slope: float):
    # The integrand is a Gaussian at mean + slope var, up to 45 away from q's mean.
    found = log_expect_exp_of_one(lambda f: slope * f, MEAN[0], VAR[0])
    assert_allclose(found, slope * MEAN[0] + 0.5 * slope**2 * VAR[0], rtol=1e-12)


@pytest.mark.parametrize("centre", [0.0, 40.0])
@pytest.mark.parametrize("width", [3.0, 0.1, 1e-4])
def test_of_a_parabola(centre: float, width: float):
    at = np.full(3, centre)
    found = log_expect_exp_of_one(
        lambda f, at: -0.5 * ((f - at) / width) ** 2, MEAN[0], VAR[0], at
    )
    total = width**2 + VAR[0]
    square = (MEAN[0] - centre) ** 2 / total
    assert_allclose(found, 0.5 * (np.log(width**2 / total) - square), rtol=1e-10)


def test_of_two_peaks_far_apart():
    # log [exp(20 f) + exp(-20 f)]: Gaussians at mean +- 20 var.
    found = log_expect_exp_of_one(
        lambda f: np.logaddexp(20.0 * f, -20.0 * f), np.zeros(1), np.ones(1)
    )
    assert_allclose(found, 200.0 + np.log(2.0), rtol=1e-13)


def test_without_variance_it_is_the_function():
    found = log_expect_exp_of_one(lambda f: -np.exp(f), MEAN[0], np.zeros(3))
    assert_allclose(found, -np.exp(MEAN[0]), rtol=1e-7)


def test_where_the_function_is_not_a_number_nothing_is_left():
    def log_fn(f: np.ndarray) -> np.ndarray:
        return np.where(f > 0.0, -1.0 / f, np.nan)

    found = log_expect_exp_of_one(log_fn, np.zeros(1), np.ones(1))
    exact, _ = integrate.quad(lambda f: np.exp(-1.0 / f) * st.norm.pdf(f), 0.0, 12.0)
    assert_allclose(found, np.log(exact), rtol=1e-6)


# Two functions.


def _gaussian_ridge(width: float) -> Ridge:
    """log p = -(g - f - y)^2 / (2 width^2)."""
    return Ridge(
        lambda f, g, y: -0.5 * ((g - f - y) / width) ** 2,
        lambda f, y: (f + y, np.broadcast_to(width**-2, f.shape)),
        lambda f, g, y: (
            -(g - f - y) / width**2,
            np.broadcast_to(width**-2, np.broadcast(f, g).shape),
        ),
    )


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("width", [2.0, 0.3, 0.003, 1e-6])
@pytest.mark.parametrize("y", [0.0, 25.0])
def test_of_a_gaussian_ridge(width: float, y: float, correlated: bool):
    var = np.concatenate([VAR, COVARIANCE[None]]) if correlated else VAR
    found = log_expect_exp_of_two(_gaussian_ridge(width), MEAN, var, np.full(3, y))
    total = width**2 + VAR[0] + VAR[1] - 2.0 * correlated * COVARIANCE
    square = (MEAN[1] - MEAN[0] - y) ** 2 / total
    expected = 0.5 * (np.log(width**2 / total) - square)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("name", ["gamma", "beta", "hetgaussian", "poisson"])
def test_a_row_does_not_depend_on_the_others(name, rng):
    likelihood = lik.get(name)
    shape = likelihood.num_functions, 40
    mean, var = rng.normal(1.0, 1.0, shape), 10.0 ** rng.uniform(-3.0, 1.0, shape)
    y = np.clip(likelihood.sample(rng, mean), 1e-6, 1.0 - 1e-6)
    if name == "poisson":
        y = np.round(y)
    whole = likelihood.log_predictive(y, mean, var)
    for row in range(0, 40, 7):
        one = slice(row, row + 1)
        own = likelihood.log_predictive(y[one], mean[:, one], var[:, one])
        assert_allclose(own, whole[one], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "exponential"])
def test_the_library_agrees_with_its_default(name, rng):
    """A likelihood that defines its density alone gets the same from a program."""
    likelihood = lik.get(name)
    shape = likelihood.num_functions, 60
    mean, var = rng.uniform(-3, 3, shape), 10.0 ** rng.uniform(-3.0, 0.8, shape)
    far = mean + 2.0 * np.sqrt(var) * rng.normal(size=shape)
    y = likelihood.sample(rng, far)
    default = AbstractLikelihood.log_predictive(likelihood, y, mean, var)
    found = likelihood.log_predictive(y, mean, var)
    assert_allclose(found, default, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_the_density_of_wide_and_narrow_functions_integrates_to_one(name, rng):
    """A sum over y, which the rule over f knows nothing of."""
    likelihood = lik.get(name)
    t, step = np.linspace(-60.0, 60.0, 6001, retstep=True)
    y = likelihood.from_line(t)
    slope = y if name == "gamma" else y * sp.expit(-t)
    inside = likelihood.in_support(y)
    for std in ((0.05, 0.05), (0.4, 0.2), (0.2, 0.4)):
        mean = np.repeat([[1.5], [1.0]], len(t), axis=1)
        var = np.repeat(np.square(std)[:, None], len(t), axis=1)
        cov = 0.7 * std[0] * std[1] * np.ones((1, len(t)))
        q = mean[:, inside], np.concatenate([var, cov])[:, inside]
        density = np.exp(likelihood.log_predictive(y[inside], *q))
        assert_allclose(density @ slope[inside] * step, 1.0, rtol=1e-9)


def test_many_rows_are_those_of_few(rng):
    # Above 2048 rows, in chunks.
    mean, var = rng.normal(size=(2, 2100)), rng.uniform(0.1, 1.0, size=(2, 2100))
    y = rng.gamma(1.0, size=2100)
    whole = lik.Gamma().log_predictive(y, mean, var)
    last = lik.Gamma().log_predictive(y[2090:], mean[:, 2090:], var[:, 2090:])
    assert_allclose(whole[2090:], last, rtol=1e-12)
    first, second = lik.Beta().predictive_moments(mean, var)
    own = lik.Beta().predictive_moments(mean[:, 2090:], var[:, 2090:])
    assert_array_equal([first[2090:], second[2090:]], own)
