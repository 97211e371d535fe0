"""Conditioning a row on the outputs that were observed there."""

import numpy as np
import pytest
import scipy.optimize

import paper_numpy as paper
from motleygp import likelihoods as lik
from motleygp.inference import conditioning
from motleygp.inference.conditioning import (
    Observed,
    condition,
    warn_if_stuck,
    warn_if_unfinished,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def rows(num: int, num_functions: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(num, num_functions, rank))
    return rng.normal(size=(num_functions, num)), root @ root.swapaxes(1, 2)


def test_real_outputs_are_conditioned_exactly_even_where_functions_are_bound():
    # Two processes make three functions: their covariance is singular.
    mean, cov = rows(4, 3, rank=2)
    y = np.array([[0.3, np.nan, 2.0, np.nan], [1.0, -1.0, np.nan, np.nan]])
    noise = (0.5, 0.2)
    seen = [
        Observed(lik.Gaussian(s), (d,), y[d], np.zeros(4)) for d, s in enumerate(noise)
    ]
    new_mean, new_cov, *_ = condition(mean, cov, seen)
    for n in range(4):
        own = np.flatnonzero(~np.isnan(y[:, n]))
        inner = cov[n][np.ix_(own, own)] + np.diag(np.asarray(noise)[own] ** 2)
        gain = cov[n][:, own] @ np.linalg.inv(inner)
        expected = mean[:, n] + gain @ (y[own, n] - mean[own, n])
        left = cov[n] - gain @ cov[n][own]
        np.testing.assert_allclose(new_mean[:, n], expected, atol=1e-10)
        np.testing.assert_allclose(new_cov[n], left, atol=1e-10)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (lik.Poisson(), 7.0),
        (lik.Bernoulli(), 1.0),
        (lik.HetGaussian(), 2.0),
        (lik.Gamma(), 3.0),
        (lik.Beta(), 0.8),
    ],
)
def test_other_outputs_reach_the_optimum_of_their_bound(likelihood, y):
    mean, cov = rows(1, 2, rank=2)
    exposure = 0.4 if likelihood.counts else 0.0
    own = range(likelihood.num_functions)
    seen = [Observed(likelihood, tuple(own), np.array([y]), np.array([exposure]))]
    new_mean, new_cov, *_ = condition(mean, cov, seen)
    inverse = np.linalg.inv(cov[0])
    observed = paper.Output("y", likelihood.name, np.zeros((1, 1)), np.array([y]))

    def loss(packed: np.ndarray) -> float:
        """Minus the bound, from its definition, at a mean and a Cholesky factor."""
        m, factor = packed[:2], np.zeros((2, 2))
        factor[np.tril_indices(2)] = packed[2:]
        s = factor @ factor.T
        at = (m + exposure)[own][:, None], s[np.ix_(own, own)][:, :, None]
        fit = paper.expected_log_density(observed, *at, None, 80)[0]
        shift = m - mean[:, 0]
        kl = 0.5 * (
            np.trace(inverse @ s)
            + shift @ inverse @ shift
            - 2.0
            + np.log(np.linalg.det(cov[0]) / np.linalg.det(s))
        )
        return kl - fit

    start = np.concatenate([mean[:, 0], np.linalg.cholesky(cov[0])[np.tril_indices(2)]])
    best = scipy.optimize.minimize(loss, start, tol=1e-12, method="L-BFGS-B")
    factor = np.zeros((2, 2))
    factor[np.tril_indices(2)] = best.x[2:]
    np.testing.assert_allclose(new_mean[:, 0], best.x[:2], atol=1e-4)
    np.testing.assert_allclose(new_cov[0], factor @ factor.T, atol=1e-4)


FAR = {
    "gaussian": [1e3, -1e3, 0.0],
    "hetgaussian": [1e3, -1e3, 0.0],
    "bernoulli": [0.0, 1.0, 1.0],
    "beta": [1e-9, 1 - 1e-9, 0.5],
    "gamma": [1e-9, 1e9, 1.0],
    "exponential": [1e-9, 1e9, 1.0],
    "poisson": [0.0, 1e6, 3.0],
}


def test_every_likelihood_has_far_values():
    assert set(FAR) == set(lik.BY_NAME)


@pytest.mark.parametrize("name", FAR)
def test_far_values_stay_finite_and_narrow_no_more_than_they_should(name):
    likelihood = lik.get(name)
    mean, cov = rows(3, 3, rank=3)
    functions = tuple(range(likelihood.num_functions))
    seen = [Observed(likelihood, functions, np.array(FAR[name]), np.zeros(3))]
    new_mean, new_cov, *_ = condition(mean, 4.0 * cov, seen)
    assert np.isfinite(new_mean).all()
    assert (np.linalg.eigvalsh(new_cov) >= -1e-12).all()
    if likelihood.num_functions == 1:  # log p is concave: nothing becomes wider
        assert (np.linalg.eigvalsh(4.0 * cov - new_cov) >= -1e-8).all()


def test_rows_where_nothing_was_seen_stay_as_they_are():
    mean, cov = rows(2, 2, rank=2)
    y = np.array([np.nan, 3.0])
    new_mean, new_cov, *_ = condition(
        mean, cov, [Observed(lik.Poisson(), (0,), y, np.zeros(2))]
    )
    np.testing.assert_allclose(new_mean[:, 0], mean[:, 0])
    np.testing.assert_allclose(new_cov[0], cov[0])
    assert not np.allclose(new_mean[:, 1], mean[:, 1])


def test_values_that_no_step_can_reach_are_told():
    # exp(mean) overflows: the first step is infinite, and so is every shorter one.
    mean, cov = np.full((1, 1), 800.0), np.ones((1, 1, 1))
    seen = [Observed(lik.Poisson(), (0,), np.array([3.0]), np.zeros(1))]
    found = condition(mean, cov, seen)
    np.testing.assert_array_equal(found.mean, mean)
    assert found.stuck.tolist() == [True]
    assert found.unfinished.tolist() == [False]
    with pytest.warns(UserWarning, match="1 of 1 rows are predicted without the value"):
        warn_if_stuck(found.stuck)


def counts() -> tuple[np.ndarray, np.ndarray, list[Observed]]:
    """A row near its optimum, one that needs many steps, one that no step can reach."""
    mean, cov = np.array([[1.0, 1.0, 800.0]]), np.ones((3, 1, 1))
    y = np.array([3.0, 1e6, 3.0])
    return mean, cov, [Observed(lik.Poisson(), (0,), y, np.zeros(3))]


def test_rows_before_their_optimum_are_told_from_those_without_effect(monkeypatch):
    found = condition(*counts())
    assert found.stuck.tolist() == [False, False, True]
    assert not found.unfinished.any()
    # A step that overflows is halved 50 times before its row counts as stuck.
    monkeypatch.setattr(conditioning, "_SHORTEST", 2.0**-20)
    monkeypatch.setattr(conditioning, "_MAX_STEPS", 30)
    short = condition(*counts())
    assert short.stuck.tolist() == [False, False, True]
    assert short.unfinished.tolist() == [False, True, False]
    with pytest.warns(UserWarning, match="did not converge in 1 of 3 rows, whose"):
        warn_if_unfinished(short.unfinished)


def test_rows_whose_steps_vanish_before_the_optimum_are_told():
    # 1e9 where 1 is due, and a wide q(f): no step from where they are is long enough.
    mean, cov = rows(8, 2, rank=2)
    seen = [Observed(lik.Gamma(), (0, 1), np.full(8, 1e9), np.zeros(8))]
    found = condition(mean, 9.0 * cov, seen)
    assert found.unfinished.any()
    assert not found.stuck.any()
    assert np.isfinite(found.mean).all()
    ordinary = [Observed(lik.Gamma(), (0, 1), np.linspace(0.1, 3.0, 8), np.zeros(8))]
    assert not condition(mean, cov, ordinary).unfinished.any()
