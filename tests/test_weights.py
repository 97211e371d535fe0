"""Weights of rows, and exposures of counts, in the bound and in held-out scores."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import small
from motleygp.inference.data import make_dataset
from motleygp.inference.objective import (
    elbo,
    full_elbo,
    function_moments,
    held_out_nlpd,
)
from motleygp.inference.posterior import from_prior
from motleygp.likelihoods import Gaussian, Poisson
from motleygp.training.initialise import initial_model

pytestmark = pytest.mark.usefixtures("quick_compilation")

LIKELIHOODS = (Gaussian(0.5), Poisson())
_elbo = eqx.filter_jit(elbo)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(40, 1))
    exposure = rng.uniform(0.5, 20.0, size=40)
    ys = [
        np.sin(x[:, 0]),
        rng.poisson(exposure * np.exp(np.sin(x[:, 0]))).astype(float),
    ]
    return x, ys, exposure


@pytest.fixture(scope="module")
def model(table):
    x, ys, _ = table
    data = make_dataset([x, x], ys, LIKELIHOODS)
    return initial_model(np.random.default_rng(0), data, LIKELIHOODS, **small.SETTINGS)


def bound(model, data) -> np.ndarray:
    return np.asarray(_elbo(model, from_prior(model.prior), data).expected_log_lik)


def test_a_whole_weight_counts_a_row_so_many_times(table, model):
    x, ys, exposure = table
    weight = np.arange(40) % 3.0
    times = weight.astype(int)
    weighted = make_dataset(
        [x, x], ys, LIKELIHOODS, weights=[weight] * 2, exposures=[exposure] * 2
    )
    repeated = make_dataset(
        [np.repeat(x, times, axis=0)] * 2,
        [np.repeat(y, times) for y in ys],
        LIKELIHOODS,
        exposures=[np.repeat(exposure, times)] * 2,
    )
    np.testing.assert_allclose(
        bound(model, weighted), bound(model, repeated), rtol=1e-10
    )
    q = from_prior(model.prior)
    np.testing.assert_allclose(
        full_elbo(model, q, weighted), full_elbo(model, q, repeated), rtol=1e-10
    )
    np.testing.assert_allclose(
        held_out_nlpd(model, q, weighted), held_out_nlpd(model, q, repeated), rtol=1e-10
    )


def test_weights_follow_their_rows(table, model):
    x, ys, _ = table
    weight = np.arange(40.0)
    seen = ys[1].copy()
    seen[:5] = np.nan
    data = make_dataset(
        [x, x], [ys[0], seen], LIKELIHOODS, weights=[weight, weight + 100.0]
    )
    other = np.where(np.isnan(seen), 0.0, weight + 100.0)
    np.testing.assert_array_equal(data[0].weight, [weight, other])
    rows = jnp.asarray([8, 6, 3])
    np.testing.assert_array_equal(data[0].take(rows).weight[1], [108.0, 106.0, 0.0])
    assert (
        bound(model, data)[0] != bound(model, make_dataset([x, x], ys, LIKELIHOODS))[0]
    )


def test_an_exposure_multiplies_the_rate_alone(table, model):
    x, ys, exposure = table
    with_it = make_dataset([x, x], ys, LIKELIHOODS, exposures=[np.ones(40), exposure])
    without = make_dataset([x, x], ys, LIKELIHOODS)
    new, old = bound(model, with_it), bound(model, without)
    np.testing.assert_allclose(new[0], old[0], rtol=1e-12)
    # E[log Poisson(y | e exp f)] = E[y (f + log e) - e exp f - log y!].
    mean, var = function_moments(model, from_prior(model.prior), with_it[0].x)
    m, v, y = np.asarray(mean[1]), np.asarray(var[1]), ys[1]
    log_factorial = -scipy.stats.poisson.logpmf(y, 1.0) - 1.0
    terms = y * (m + np.log(exposure)) - exposure * np.exp(m + v / 2) - log_factorial
    np.testing.assert_allclose(new[1], terms.sum(), rtol=1e-10)


def test_the_start_is_the_rate_of_one_unit(table):
    x, ys, exposure = table
    data = make_dataset([x, x], ys, LIKELIHOODS, exposures=[np.ones(40), exposure])
    rng = np.random.default_rng(0)
    model = initial_model(rng, data, LIKELIHOODS, **small.SETTINGS)
    expected = np.log(ys[1].sum() / exposure.sum())
    np.testing.assert_allclose(model.offset[1], expected, rtol=1e-10)
