"""Predictive means, cdfs and log densities against brute force, and one another."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from numpy.testing import assert_allclose, assert_array_equal

from motleygp import likelihoods as lik
from motleygp.numerics.logistic import log_probability
from motleygp.numerics.steps import stepped_rule
from motleygp.prediction import Predictive

pytestmark = pytest.mark.usefixtures("quick_compilation")

# Other tests define likelihoods, too.
OWN = [n for n, c in lik.BY_NAME.items() if c.__module__.startswith("motleygp")]
MEANS = np.array([-60.0, -7.0, -0.5, 0.0, 0.3, 4.0, 25.0])
STDS = np.array([1e-3, 0.2, 1.0, 3.0, 10.0, 30.0])
LOGITS = tuple(a.ravel() for a in np.meshgrid(MEANS, STDS))


@pytest.fixture(scope="module")
def experiment(experiments):
    return experiments("predictive_errors")


@pytest.fixture(scope="module")
def exact(experiment):
    return experiment.exact


# One rule for a probability.


def test_logistic_normal_integral_is_that_of_a_fine_grid():
    mean, std = LOGITS
    z = np.linspace(-40.0, 40.0, 160_001)
    log_weight = st.norm.logpdf(z) + np.log(z[1] - z[0])
    expected = [
        sp.logsumexp(-np.logaddexp(0.0, -(m + s * z)) + log_weight)
        for m, s in zip(mean, std, strict=True)
    ]
    found = log_probability(jnp.asarray(mean), jnp.asarray(std**2))
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert_allclose(log_probability(mean, std**2), found, rtol=1e-12, atol=1e-14)


def test_probabilities_of_both_labels_come_from_one_rule():
    mean, std = LOGITS
    predictive = Predictive(lik.Bernoulli(), mean[None], std[None] ** 2)
    one, zeros = predictive.mean, np.zeros(len(mean))
    assert ((one >= 0.0) & (one <= 1.0)).all()
    assert_allclose(predictive.cdf(zeros), 1.0 - one, rtol=0, atol=1e-12)
    log_zero, log_one = predictive.log_prob(zeros), predictive.log_prob(zeros + 1.0)
    assert_allclose(np.exp(log_one), one, rtol=1e-12)
    assert_allclose(np.exp(log_zero), 1.0 - one, rtol=0, atol=1e-12)
    # The logs, where a mean next to 1 does not round the other probability.
    apart = one < 1.0 - 1e-3
    assert_allclose(log_one[apart], np.log(one[apart]), rtol=1e-12, atol=1e-12)
    assert_allclose(log_zero[apart], np.log1p(-one[apart]), rtol=1e-12, atol=1e-12)
    assert_allclose(predictive.variance, one * np.exp(log_zero), rtol=1e-10)
    # A quantile is 1 exactly where P(Y <= 0) is below the level.
    assert_array_equal(predictive.quantile(0.5)[:, 0], predictive.cdf(zeros) < 0.5)


def test_the_probability_of_a_wide_logit_is_that_of_the_cdf():
    predictive = Predictive(lik.Bernoulli(), np.array([[-3.0]]), np.array([[900.0]]))
    assert_allclose(predictive.mean, 0.46024443779, rtol=1e-9)
    assert_allclose(predictive.cdf([0.0]), 1.0 - predictive.mean, rtol=1e-12)


# The rule for a step.


@pytest.mark.parametrize("width", [3.0, 0.1, 1e-3, 1e-9])
def test_a_step_of_any_width_has_its_expectation(width):
    # E[Phi((f - at) / width)] = Phi((m - at) / sqrt(v + width^2)).
    mean, var = np.array([0.3, -1.0, 5.0, 0.0]), np.array([0.5, 4.0, 1e-6, 100.0])
    at = np.array([0.0, 2.0, 5.0, 40.0])
    f, weights = stepped_rule(mean, var, at, width)
    found = np.sum(weights * sp.ndtr((f - at[:, None]) / width), axis=1)
    expected = sp.ndtr((mean - at) / np.sqrt(var + width**2))
    assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_the_nodes_of_a_row_do_not_depend_on_others():
    mean, var = np.array([0.3, 0.3]), np.array([0.5, 100.0])
    f, weights = stepped_rule(mean, var, 0.1, np.array([0.5, 1e-6]))
    own, own_weights = stepped_rule(mean[:1], var[:1], 0.1, 0.5)
    size = own.shape[1]
    assert_array_equal(f[0, :size], own[0])
    assert_allclose(weights[0, :size], own_weights[0], rtol=1e-14)
    assert not weights[0, size:].any()


# Predictions, at the places where they were wrong.

HARD = {
    "a narrow gamma": ("gamma", (12.0, 9.0), (1.0, 1.0), 0.9, [20.0, 72.0]),
    "a shape that varies": ("gamma", (6.0, 6.5), (3.0, 0.3), 0.9, [0.6, 4200.0]),
    "a rate that varies": ("gamma", (1.0, -1.0), (0.3, 3.0), 0.0, [0.01, 7.0]),
    "small shapes": ("gamma", (-2.0, 1.0), (3.0, 3.0), -0.9, [1e-30, 0.01]),
    "a narrow beta": ("beta", (6.0, 5.0), (0.3, 3.0), 0.9, [0.00075, 0.75]),
    "a wide beta": ("beta", (1.0, 0.4), (3.0, 3.0), 0.0, [1e-6, 0.6]),
    "beta at an end": ("beta", (-2.0, -1.0), (3.0, 0.3), 0.9, [1e-20, 1.0 - 1e-9]),
    "a variance that varies": (
        "hetgaussian",
        (1.0, 0.0),
        (3.0, 3.0),
        -0.9,
        [3.0, -140.0],
    ),
    "two modes": ("hetgaussian", (0.0, -10.0), (1.0, 3.0), 0.0, [0.1, 4.0]),
    "large counts": ("poisson", (10.0,), (3.0,), 0.0, [0.0, 24400.0]),
    "counts of 1e11": ("poisson", (10.0,), (3.0,), 0.0, [7e11, 3.0]),
    "long waits": ("exponential", (0.0,), (3.0,), 0.0, [1e-5, 15000.0]),
}


@pytest.mark.parametrize("hard", HARD.values(), ids=HARD.keys())
def test_predictions_are_those_of_brute_force(hard, experiment, exact):
    name, mean, std, rho, ys = hard
    q = exact.Gaussian(mean, std, rho)
    found = experiment.predictive(name, [q] * len(ys))
    for y, cdf, log_prob in zip(ys, found.cdf(ys), found.log_prob(ys), strict=True):
        assert abs(log_prob - exact.log_prob(name, y, q)) < 1e-6
        assert abs(cdf - exact.cdf(name, y, q)) < 1e-4
    assert_allclose(found.mean[0], exact.mean(name, q), rtol=1e-6)
    if name == "beta":
        assert_allclose(found.variance[0], exact.beta_variance(q), rtol=1e-6)


def test_brute_force_has_converged(exact):
    for name, mean, std, rho, ys in HARD.values():
        q, y = exact.Gaussian(mean, std, rho), ys[0]
        for fn in (exact.log_prob, exact.cdf):
            assert_allclose(fn(name, y, q), fn(name, y, q, 2), rtol=0, atol=1e-9)


def test_the_variance_of_a_narrow_beta_keeps_its_digits(exact):
    rows = [
        exact.Gaussian((12.0, 12.0), (0.01, 0.01), 0.9),
        exact.Gaussian((12.0, 9.0), (1.0, 1.0), 0.9),
    ]
    both = np.array([[q.mean[k] for q in rows] for k in (0, 1)])
    var = np.array([[q.std[k] ** 2 for q in rows] for k in (0, 1)])
    var = np.concatenate([var, 0.9 * var[:1]])
    found = Predictive(lik.Beta(), both, var).variance
    assert_allclose(found, [exact.beta_variance(q, 2) for q in rows], rtol=1e-6)


def test_moments_are_kept_and_follow_the_rows():
    predictive = Predictive(
        lik.Beta(), np.array([[0.1, 1.0], [0.3, 0.2]]), np.ones((2, 2))
    )
    mean, part = predictive.mean, predictive[1:]
    assert_allclose(part.mean, mean[1:], rtol=1e-14)
    assert_array_equal(predictive.mean, mean)
    predictive.mean[:] = 0.0
    assert_array_equal(predictive.mean, mean)


@pytest.mark.parametrize("likelihood", [lik.Poisson(), lik.Gamma()])
def test_a_variance_that_no_float_holds_is_infinite_and_not_missing(likelihood):
    size = likelihood.num_functions
    mean = np.array([[400.0, 100.0], [0.0, 0.0]])[:size]
    var = np.array([[0.0, 1000.0], [0.0, 0.0]])[:size]
    predictive = Predictive(likelihood, mean, var)
    assert_allclose(predictive.mean, np.exp([400.0, 600.0]), rtol=1e-12)
    assert_array_equal(np.isinf(predictive.variance), [False, True])
    assert_allclose(predictive.variance[0], np.exp(400.0), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_errors_keep_their_bars(name, experiment):
    for line in experiment.errors(name):
        for part, most in line.allowed().items():
            assert not getattr(line, part) > most, line
