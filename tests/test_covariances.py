"""Likelihoods with two correlated functions, against NumPy on a plain grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paper_numpy as paper
from motleygp import likelihoods as lik
from motleygp.numerics import packed
from motleygp.prediction import Predictive

pytestmark = pytest.mark.usefixtures("quick_compilation")

NAMES = ("hetgaussian", "gamma", "beta")
CORRELATIONS = np.array([-1.0, -0.9, -0.3, 0.0, 0.6, 0.99, 1.0])
MEAN = np.array([[0.4], [0.7]]) + np.linspace(-0.3, 0.3, 7)
STDS = np.array([0.6, 0.4])
Y = np.linspace(0.2, 0.8, 7)


def moments(stds: np.ndarray = STDS) -> tuple[np.ndarray, np.ndarray]:
    """The packed second moments, and the covariance matrices."""
    var = np.tile(stds[:, None] ** 2, 7)
    var = np.concatenate([var, [CORRELATIONS * stds.prod()]])
    return var, packed.unpacked(var, 2)


@pytest.mark.parametrize("name", NAMES)
def test_expectations_are_those_of_a_grid(name):
    var, cov = moments()
    output = paper.Output("y", name, np.zeros((7, 1)), Y)
    expected = paper.expected_log_density(output, MEAN, cov, None, 80)
    fn = jax.jit(lambda m, v: lik.get(name).expected_log_prob(jnp.asarray(Y), m, v))
    found = fn(jnp.asarray(MEAN), jnp.asarray(var))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    # The covariances matter: without them the values differ.
    apart = fn(jnp.asarray(MEAN), jnp.asarray(var[:2]))
    assert np.abs(apart - expected)[CORRELATIONS != 0].min() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_differences(name):
    var, _ = moments()
    likelihood = lik.get(name)

    @jax.jit
    def total(m, v):
        return jnp.sum(likelihood.expected_log_prob(jnp.asarray(Y), m, v))

    slopes = jax.jit(jax.grad(total, argnums=(0, 1)))(jnp.asarray(MEAN), var)
    # Away from correlations of 1, where a difference would leave the cone.
    inside = np.abs(CORRELATIONS) < 0.995
    for place, point in enumerate((MEAN, var)):
        for row in range(len(point)):
            for column in np.flatnonzero(inside):
                step = np.zeros_like(point)
                step[row, column] = 1e-5
                ends = [[MEAN, var], [MEAN, var]]
                ends[0][place], ends[1][place] = point + step, point - step
                difference = (total(*ends[0]) - total(*ends[1])) / 2e-5
                np.testing.assert_allclose(
                    slopes[place][row, column], difference, rtol=1e-5, atol=1e-7
                )


@pytest.mark.parametrize("stds", [STDS, np.array([0.5, 0.5])], ids=["two", "same"])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_reach_the_edge_of_the_cone(name, stds):
    """At a correlation of 1, the derivatives are the limit of those inside. There, the
    difference of functions with the same variance has none."""
    var, _ = moments(stds)
    likelihood, y, mean = lik.get(name), jnp.asarray(Y), jnp.asarray(MEAN)
    slope = jax.jit(
        jax.grad(lambda v: jnp.sum(likelihood.expected_log_prob(y, mean, v)))
    )
    near = var.copy()
    near[2] *= 1.0 - 1e-7
    ends = slope(jnp.asarray(var)), slope(jnp.asarray(near))
    np.testing.assert_allclose(*ends, rtol=1e-4, atol=1e-6)


def grid(cov: np.ndarray, num: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Values of f around 0 at an even grid, (2, N, K), and their weights."""
    z = np.linspace(-8.0, 8.0, num)
    w = np.exp(-0.5 * z**2)
    both = np.stack(np.meshgrid(z, z, indexing="ij")).reshape(2, -1)
    values, vectors = np.linalg.eigh(np.moveaxis(cov, -1, 0))
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    weights = np.multiply.outer(w, w).ravel()
    return np.einsum("njk,ks->jns", root, both), weights / weights.sum()


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_a_grid(name):
    var, cov = moments()
    likelihood = lik.get(name)
    p = Predictive(likelihood, MEAN, var)
    noise, weights = grid(cov)
    f = MEAN[:, :, None] + noise
    density = np.exp(paper.log_density(name, Y[:, None], f, None)) @ weights
    np.testing.assert_allclose(p.log_prob(Y), np.log(density), atol=1e-6)
    np.testing.assert_allclose(
        p.cdf(Y), likelihood.cdf(Y[:, None], f) @ weights, atol=1e-4
    )
    mean = np.asarray(likelihood.conditional_mean(jnp.asarray(f))) @ weights
    square = np.asarray(likelihood.conditional_mean(jnp.asarray(f))) ** 2 @ weights
    within = np.asarray(likelihood.conditional_variance(jnp.asarray(f))) @ weights
    np.testing.assert_allclose(p.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(p.variance, within + square - mean**2, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_quantiles(name):
    var, _ = moments()
    p = Predictive(lik.get(name), MEAN, var)
    draws = p.sample(100_000, random_state=0)
    for level in (0.05, 0.5, 0.95):
        share = np.mean(draws <= p.quantile(level)[:, 0], axis=0)
        error = np.sqrt(level * (1.0 - level) / len(draws))
        assert np.abs(share - level).max() < 4.5 * error


def test_packing_and_blocks():
    cov = np.arange(9.0).reshape(3, 3)
    cov = cov + cov.T
    np.testing.assert_array_equal(packed.unpacked(packed.packed(cov), 3), cov)
    rows = packed.rows_of_blocks([1, 2, 1, 3], 11)
    assert [list(r) for r in rows] == [[0], [1, 2, 7], [3], [4, 5, 6, 8, 9, 10]]
    rows = packed.rows_of_blocks([1, 2], 3)
    assert [list(r) for r in rows] == [[0], [1, 2]]
    with pytest.raises(ValueError, match="may have one per pair"):
        Predictive(lik.Gamma(), np.zeros((2, 4)), np.ones((4, 4)))
