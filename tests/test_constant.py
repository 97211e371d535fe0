"""A fit that learns nothing is tried again, and told of."""

import numpy as np
import pytest
import scipy.stats
from sklearn.exceptions import ConvergenceWarning

import motleygp as mg
from motleygp.inference.data import make_dataset
from motleygp.likelihoods import Gaussian, Poisson
from motleygp.optim import fng
from motleygp.prediction.seen import see
from motleygp.training import Task, data_driven_start
from motleygp.training.constant import constant_score

pytestmark = pytest.mark.usefixtures("quick_compilation")

SETTINGS: dict = dict(num_inducing=5, batch_size=20, random_state=0, progress=False)


@pytest.mark.parametrize("held_out", [False, True])
def test_the_score_of_the_constant_fit_is_scipys(rng, held_out):
    x, weight = rng.random((30, 1)), rng.integers(1, 4, 30).astype(float)
    y, counts = rng.normal(3.0, 2.0, 30), rng.poisson(4.0, 30).astype(float)
    likelihoods = (Gaussian(), Poisson())
    exposure = rng.uniform(1.0, 2.0, 30)
    data = make_dataset(
        [x, x],
        [y, counts],
        likelihoods,
        weights=[weight, weight],
        exposures=[np.ones(30), exposure],
    )
    task = Task(data, None, likelihoods, data_driven_start, fng(), 10, 100)
    rate = np.sum(weight * counts) / np.sum(weight * exposure)
    times = np.repeat(y, weight.astype(int))
    logs = np.stack(
        [
            scipy.stats.norm.logpdf(y, times.mean(), times.std()),
            scipy.stats.poisson.logpmf(counts, rate * exposure),
        ]
    )
    if held_out:
        task = task._replace(held_out=data)
        expected = -np.mean(logs @ weight / weight.sum())
    else:
        expected = -np.sum(logs @ weight)
    np.testing.assert_allclose(constant_score(task), expected)


def test_noise_is_tried_twice_and_told_of(rng):
    X, y = rng.random((40, 1)), rng.normal(size=40)
    model = mg.MotleyGP(["gaussian"], max_iter=500, **SETTINGS)
    with pytest.warns(ConvergenceWarning, match="no better than the constant fit") as w:
        model.fit(X, y)
    assert len(model.restarts_) == 2
    assert "training rows: minus the bound is" in str(w[0].message)
    assert "the inputs may say nothing about the outputs" in str(w[0].message)


def test_a_short_run_is_told_to_go_on(rng):
    X = rng.random((40, 1))
    y = np.sin(6.0 * X[:, 0])
    model = mg.MotleyGP(["gaussian"], max_iter=2, **SETTINGS)
    with pytest.warns(ConvergenceWarning, match="raise `max_iter`"):
        model.fit(X, y)
    assert len(model.restarts_) == 1


def test_the_marginal_is_that_of_scipy(rng):
    y = rng.gamma(2.0, 3.0, size=200)
    y[5] = np.nan
    seen = see(y, mg.likelihoods.get("gamma"), None)
    assert (seen.rows, seen.observed) == (200, 199)
    known = y[~np.isnan(y)]
    shape, _, scale = scipy.stats.gamma.fit(known, floc=0)
    expected = scipy.stats.gamma.logpdf(known, shape, scale=scale)
    found = seen.log_prob(known, np.ones(len(known)))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("size", [300, 5000])  # 5000 rows are three chunks
def test_exposures_count_in_the_marginal(rng, size):
    exposure = rng.uniform(0.5, 5.0, size=size)
    y = rng.poisson(2.0 * exposure).astype(float)
    seen = see(y, Poisson(), exposure)
    rate = y.sum() / exposure.sum()
    expected = scipy.stats.poisson.logpmf(y, rate * exposure)
    np.testing.assert_allclose(seen.log_prob(y, exposure), expected, rtol=1e-9)
    assert seen.log_prob(y[:0], exposure[:0]).shape == (0,)
