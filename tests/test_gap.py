"""A gap of one output that others fill: `experiments/gap.py`."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gap(experiments):
    return experiments("gap")


@pytest.mark.parametrize("num_outputs", [2, 3])
@pytest.mark.parametrize("name", ["convolution", "lmc"])
def test_a_joint_posterior_is_exact_in_a_gap(gap, name, num_outputs):
    columns = [("given", "joint")]
    for seed in range(3):
        _, excess = gap.row(name, num_outputs, seed, columns)
        assert excess <= 0.05


def test_a_factorised_posterior_is_too_sure_in_a_gap(gap):
    _, excess = gap.row("convolution", 2, 0, [("given", "factorised")])
    assert excess > 0.5


def test_the_exact_evidence_is_a_normal_density(gap, experiments):
    drawn = experiments("drawn")
    prior = gap.prior_of("convolution", 2)
    draw = drawn.draw(0, prior, length=1)
    rows = np.arange(0, len(draw.x), 20)
    j, n = np.repeat([0, 1], len(rows)), np.tile(np.arange(len(rows)), 2)
    x, y = draw.x[rows], draw.y[:, rows].ravel()
    noise, offset = np.array([0.2, 0.3]), np.array([0.5, -0.1])
    cov = drawn.full_covariance(prior, x).reshape(len(y), -1) + np.diag(noise[j] ** 2)
    expected = scipy.stats.multivariate_normal(offset[j], cov).logpdf(y)
    at = drawn.Parameters(prior, jnp.log(noise), jnp.asarray(offset))
    found = drawn.log_evidence(at, jnp.asarray(x), jnp.asarray(y), j, n)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_learned_values_are_more_likely_than_the_generating_ones(gap, experiments):
    drawn = experiments("drawn")
    prior = gap.prior_of("lmc", 2)
    draw = drawn.draw(0, prior, length=1)
    every = np.ones(draw.y.shape, bool)
    every[:, ::2] = False
    likely = drawn.at_most_likely_values(draw, every, prior)

    def density(draw):
        seen, noise = every.ravel(), np.repeat(draw.noise, len(draw.x))
        cov = draw.covariance.reshape(len(seen), -1) + np.diag(noise**2)
        normal = scipy.stats.multivariate_normal(cov=cov[np.ix_(seen, seen)])
        return normal.logpdf(draw.y.ravel()[seen])

    assert density(likely) > density(draw) + 1.0
