"""Updates with new rows only: the old q(u) takes the place of p(u)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small
from motleygp.inference.data import make_dataset
from motleygp.inference.derivatives import gradients
from motleygp.inference.model import Model, all_fixed, trainable
from motleygp.inference.objective import elbo
from motleygp.inference.posterior import (
    Posterior,
    divergence,
    from_precision,
    from_prior,
    kl_to_prior,
)
from motleygp.inference.projection import project
from motleygp.likelihoods import Gaussian
from motleygp.priors import everywhere
from motleygp.training import absorb

pytestmark = pytest.mark.usefixtures("quick_compilation")

_gradients = eqx.filter_jit(gradients)


def random_posterior(model: Model, seed: int) -> Posterior:
    rng = np.random.default_rng(seed)
    num_groups, num_inducing, _ = model.prior.inducing.shape
    root = rng.normal(size=(num_groups, num_inducing, num_inducing))
    precision = root @ root.swapaxes(1, 2) + np.eye(num_inducing)
    mean = rng.normal(size=(num_groups, num_inducing))
    return from_precision(jnp.asarray(mean), jnp.asarray(precision))


@pytest.fixture(scope="module")
def problem():
    task = small.task()
    model, _ = task.start(np.random.default_rng(0), task.data, task.likelihoods)
    return model, task.data


def test_a_base_at_the_prior_changes_nothing(problem):
    model, data = problem
    q = random_posterior(model, 1)
    terms, grads = _gradients(model, q, data)
    same_terms, same_grads = _gradients(model, q, data, from_prior(model.prior))
    np.testing.assert_allclose(same_terms.elbo, terms.elbo, rtol=1e-12)
    for one, other in zip(
        jax.tree.leaves(same_grads), jax.tree.leaves(grads), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_the_divergence_is_that_of_two_normals(problem):
    model, _ = problem
    q, base = (random_posterior(model, seed) for seed in (1, 2))
    np.testing.assert_allclose(
        divergence(q, from_prior(model.prior)), kl_to_prior(q), rtol=1e-10
    )
    m, v = np.asarray(q.mean[0]), np.asarray(q.cov()[0])
    m_0, v_0 = np.asarray(base.mean[0]), np.asarray(base.cov()[0])
    shift = m - m_0
    expected = 0.5 * (
        np.trace(np.linalg.solve(v_0, v))
        + shift @ np.linalg.solve(v_0, shift)
        - len(m)
        + np.linalg.slogdet(v_0)[1]
        - np.linalg.slogdet(v)[1]
    )
    np.testing.assert_allclose(divergence(q, base)[0], expected, rtol=1e-9)
    # The signs of the factors, which gradients may change, do not matter.
    others = (flipped(q), base), (q, flipped(base)), (flipped(q), flipped(base))
    for one, other in others:
        np.testing.assert_allclose(divergence(one, other)[0], expected, rtol=1e-9)


def flipped(q: Posterior) -> Posterior:
    """The same q, with some rows of its factors negated."""
    signs = np.where(np.arange(q.mean.shape[1]) % 2, 1.0, -1.0)
    return eqx.tree_at(lambda q: q.half, q, q.half * signs[:, None])


def test_rows_are_absorbed_after_a_factor_changed_its_signs(problem):
    model, data = problem
    base = random_posterior(model, 1)
    settings = dict(seed=0, batch_size=30, num_steps=20)
    one, other = (absorb(model, q, data, **settings) for q in (base, flipped(base)))
    assert not one.steps.q.refused.any() and not other.steps.q.refused.any()
    assert not other.steps.refused.any()
    np.testing.assert_allclose(other.state.q.mean, one.state.q.mean, rtol=1e-9)


def test_the_gradient_in_the_mean_is_that_of_the_new_bound(problem):
    model, data = problem
    q, base = (random_posterior(model, seed) for seed in (1, 2))

    @eqx.filter_jit
    def loss(mean):
        at = eqx.tree_at(lambda p: p.mean, q, mean)
        return jnp.sum(divergence(at, base)) - jnp.sum(
            elbo(model, at, data).expected_log_lik
        )

    terms, grads = _gradients(model, q, data, base)
    np.testing.assert_allclose(-terms.elbo, loss(q.mean), rtol=1e-12)
    expected = eqx.filter_jit(jax.grad(loss))(q.mean)
    np.testing.assert_allclose(grads.q.gradient, expected, rtol=1e-8, atol=1e-8)


def test_real_rows_are_absorbed_as_bayes_rule_says():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(30, 1))
    likelihood = (Gaussian(0.5),)
    data = make_dataset([x], [np.sin(3 * x[:, 0])], likelihood)
    model, _ = small.task().start(rng, data, likelihood)
    base = random_posterior(model, 4)
    result = absorb(model, base, data, seed=0, batch_size=30, num_steps=400)
    # With one process of weight w, y = w B^T v + offset + noise.
    noise = float(model.likelihoods[0].noise)
    weight = float(model.prior.weights[0, 0])
    basis = weight * np.asarray(
        project(model.prior, base, everywhere(data[0].x, 1)).basis[0]
    )
    precision = np.asarray(base.precision[0]) + basis @ basis.T / noise**2
    centred = np.asarray(data[0].y[0] - model.offset[0])
    push = np.asarray(base.precision[0] @ base.mean[0]) + basis @ centred / noise**2
    q = result.state.q
    np.testing.assert_allclose(q.precision[0], precision, rtol=1e-4, atol=1e-3)
    expected = np.linalg.solve(precision, push)
    np.testing.assert_allclose(q.mean[0], expected, rtol=1e-3, atol=1e-3)
    for one, other in zip(
        jax.tree.leaves(result.state.model), jax.tree.leaves(model), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_nothing_moves_where_all_is_fixed(problem):
    model, _ = problem
    assert not any(jax.tree.leaves(trainable(all_fixed(model))))
    assert any(jax.tree.leaves(trainable(model)))
