"""A q(u) that is joint over the processes: its marginals, bound, gradients, steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from motleygp import priors
from motleygp.inference import joint
from motleygp.inference.data import Dataset, make_dataset
from motleygp.inference.derivatives import gradients, unwhitened_gradients
from motleygp.inference.model import Model
from motleygp.inference.objective import Terms, elbo, full_elbo, function_moments
from motleygp.inference.posterior import (
    Posterior,
    divergence,
    from_factor,
    from_precision,
    from_prior,
    joined,
    unwhiten,
    whiten,
)
from motleygp.numerics.packed import unpacked
from motleygp.optim import Guard
from test_exact_gp import (
    Problem,
    descend,
    eq_kernel,
    evaluations,
    exact_gp,
    several_latents,
    whole_step,
)
from test_joint import NUM_FUNCTIONS, NUM_INDUCING, make_model

pytestmark = pytest.mark.usefixtures("quick_compilation")

_elbo = eqx.filter_jit(elbo)
_gradients = eqx.filter_jit(gradients)
_row_moments = eqx.filter_jit(joint.row_moments)
_unwhiten, _whiten = eqx.filter_jit(unwhiten), eqx.filter_jit(whiten)

FORMS = [priors.LMC, priors.LatentConvolution]
forms = pytest.mark.parametrize("form", FORMS)
# The latent convolution has pairs of columns beside all that the linear model has.
most = pytest.mark.parametrize(
    "form",
    [pytest.param(priors.LMC, marks=pytest.mark.slow), priors.LatentConvolution],
)


def joint_model(form: type[priors.AbstractPrior]) -> tuple[Model, Posterior, jax.Array]:
    """A heteroscedastic and a Gaussian output, and a dense q(u)."""
    model, _, x = make_model(form)
    rng = np.random.default_rng(7)
    size = len(model.prior.inducing) * NUM_INDUCING
    root = rng.normal(size=(1, size, size)) / 2.0
    precision = root @ root.swapaxes(1, 2) + 0.5 * np.eye(size)
    mean = rng.normal(size=(1, size))
    return model, from_precision(jnp.asarray(mean), jnp.asarray(precision)), x


def data_of(model: Model, x: jax.Array) -> Dataset:
    """Values of both outputs, the second at other rows than the first."""
    rng = np.random.default_rng(3)
    xs = [np.asarray(x), rng.normal(size=(3, 2))]
    ys = [rng.normal(size=len(own)) for own in xs]
    return make_dataset(xs, ys, model.likelihoods)


def response(model: Model, x: jax.Array) -> np.ndarray:
    """cov[f_j(x_n), v_gm] of the whitened v: (J N, G M)."""
    prior, columns = model.prior, []
    sites = priors.everywhere(x, NUM_FUNCTIONS)
    for g in range(len(prior.inducing)):
        group = jax.tree.map(lambda leaf, g=g: leaf[g], prior.groups())
        k = prior.covariances(group, sites)
        jitter = prior.jitter * np.mean(np.diag(k.uu))
        lower = np.linalg.cholesky(np.asarray(k.uu) + jitter * np.eye(NUM_INDUCING))
        basis = np.linalg.solve(lower, np.asarray(k.ug))
        basis = basis.reshape(NUM_INDUCING, prior.columns_per_row, -1)
        shares = np.asarray(prior.weights)[:, g][None, :, None] * basis
        columns.append(shares.reshape(NUM_INDUCING, -1))
    return np.concatenate(columns).T


@forms
def test_rows_have_the_covariances_of_the_definition(form):
    """cov[f] = K_ff - A A^T + A V A^T with A = cov[f, v], and E[f] = A m."""
    model, q, x = joint_model(form)
    A, size = response(model, x), NUM_FUNCTIONS * len(x)
    prior_cov = np.asarray(model.prior.covariance(x, x)).reshape(size, size)
    full = prior_cov - A @ A.T + A @ np.asarray(q.cov()[0]) @ A.T
    full = full.reshape(NUM_FUNCTIONS, len(x), NUM_FUNCTIONS, len(x))
    mean, cov = _row_moments(model, q, x)
    expected = np.asarray(model.offset)[:, None] + (A @ q.mean[0]).reshape(mean.shape)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    for n in range(len(x)):
        np.testing.assert_allclose(cov[n], full[:, n, :, n], atol=1e-7)


@most
def test_independent_parts_joined_are_the_same_posterior(form):
    model, q, x = make_model(form)
    data, together = data_of(model, x), joined(q)
    terms, grads = _gradients(model, q, data)
    joint_terms, joint_grads = _gradients(model, together, data)
    np.testing.assert_allclose(joint_terms.elbo, terms.elbo, rtol=1e-10)
    for ours, theirs in zip(
        jax.tree.leaves(joint_grads.theta), jax.tree.leaves(grads.theta), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
    gradient, target = joint_grads.q.gradient, joint_grads.q.target[0]
    np.testing.assert_allclose(gradient.reshape(q.mean.shape), grads.q.gradient)
    blocks = target.reshape(2, NUM_INDUCING, 2, NUM_INDUCING)
    for g in range(2):
        np.testing.assert_allclose(blocks[g, :, g], grads.q.target[g], atol=1e-9)
    np.testing.assert_allclose(_whole(model, together, data), _whole(model, q, data))
    np.testing.assert_allclose(
        divergence(together, joined(from_prior(model.prior))).sum(),
        divergence(q, from_prior(model.prior)).sum(),
    )


def _whole(model: Model, q: Posterior, data: Dataset) -> float:
    return full_elbo(model, q, data)


@most
def test_gradients_are_those_of_the_bound(form):
    """Against automatic differentiation through the moments of q(u), and theta."""
    model, q, x = joint_model(form)
    data = data_of(model, x)

    @jax.jit
    def loss(mean, cov) -> jax.Array:
        return -_terms(model, from_cov(mean, cov), data).elbo

    in_mean, in_cov = jax.grad(loss, argnums=(0, 1))(q.mean, q.cov())
    _, grads = _gradients(model, q, data)
    np.testing.assert_allclose(grads.q.gradient, in_mean, rtol=1e-8, atol=1e-8)
    twice = in_cov + jnp.swapaxes(in_cov, 1, 2)
    expected = q.precision + twice
    np.testing.assert_allclose(grads.q.target, expected, rtol=1e-7, atol=1e-7)
    in_theta = eqx.filter_grad(lambda m: -_terms(m, q, data).elbo)(model)
    for ours, theirs in zip(
        jax.tree.leaves(grads.theta),
        jax.tree.leaves(eqx.filter(in_theta, eqx.is_inexact_array)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


def from_cov(mean: jax.Array, cov: jax.Array) -> Posterior:
    return from_factor(mean, jnp.linalg.cholesky(cov))


def _terms(model: Model, q: Posterior, data: Dataset) -> Terms:
    return elbo(model, q, data)


def test_the_bound_moves_with_theta_as_finite_differences_say():
    """The derivative that is written out, against differences of the bound."""
    model, q, x = joint_model(priors.LatentConvolution)
    data = data_of(model, x)
    _, grads = _gradients(model, q, data)
    step = 1e-4
    for place in ((0, 0), (2, 1)):
        shifted = [
            eqx.tree_at(
                lambda m: m.prior.weights, model, model.prior.weights.at[place].add(s)
            )
            for s in (step, -step)
        ]
        up, down = (float(_elbo(m, q, data).elbo) for m in shifted)
        slope = -(up - down) / (2.0 * step)
        np.testing.assert_allclose(grads.theta.prior.weights[place], slope, rtol=1e-5)


@forms
def test_whitening_is_undone(form):
    model, q, _ = joint_model(form)
    mean, cov = _unwhiten(model.prior, q)
    again = _whiten(model.prior, mean, cov)
    np.testing.assert_allclose(again.mean, q.mean, atol=1e-8)
    np.testing.assert_allclose(again.precision, q.precision, rtol=1e-6, atol=1e-6)


def test_unwhitened_steps_are_the_whitened_ones():
    model, q, x = joint_model(priors.LMC)
    data = data_of(model, x)
    terms, grads = _gradients(model, q, data)
    mean, cov = _unwhiten(model.prior, q)
    plain = from_cov(mean, cov)
    same, mapped = eqx.filter_jit(unwhitened_gradients)(model, plain, data)
    np.testing.assert_allclose(same.elbo, terms.elbo, rtol=1e-8)
    # Both steps of length 1 end at the same q(u).
    target = np.linalg.inv(np.asarray(mapped.q.target[0]))
    _, expected = _unwhiten(model.prior, from_precision(q.mean, grads.q.target))
    np.testing.assert_allclose(target, expected[0], rtol=1e-5, atol=1e-8)


def test_draws_have_the_covariances_of_the_posterior():
    model, q, x = joint_model(priors.LMC)
    drawn, _ = eqx.filter_jit(joint.draw_functions)(
        model, q, jax.random.key(0), x, 40_000
    )
    mean, cov = _row_moments(model, q, x)
    draws = np.asarray(drawn)
    for n in range(len(x)):
        own = np.asarray(cov[n])
        found = np.cov(draws[:, :, n].T)
        scale = np.sqrt(np.outer(np.diag(own), np.diag(own)))
        assert np.max(np.abs(found - own) / scale) < 0.03
    error = np.abs(draws.mean(axis=0) - np.asarray(mean))
    assert np.max(error / draws.std(axis=0)) < 0.03


def test_the_function_form_has_no_joint_posterior():
    model, _, _ = make_model(priors.Convolution)
    with pytest.raises(ValueError, match="`joint_q` must be False"):
        Model(model.prior, model.offset, model.likelihoods, joint_q=True)


# Gaussian outputs, where one step is exact for any number of processes.


def optimal(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The optimal q(u): V^-1 = K^-1 + A A^T, m = V A y, A = K^-1 K_uf / noise."""
    x, output, residual = problem.stacked()
    noise = problem.noise[output]
    blocks, crosses = [], []
    for g, (z, scale) in enumerate(
        zip(problem.inducing, problem.lengthscale, strict=True)
    ):
        blocks.append(eq_kernel(z, z, scale) + problem.jitter * np.eye(len(z)))
        crosses.append(problem.weights[output, g] * eq_kernel(z, x, scale))
    K = np.zeros((sum(map(len, blocks)),) * 2)
    start = 0
    for block in blocks:
        K[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    A = np.linalg.solve(K, np.concatenate(crosses)) / noise
    V = np.linalg.inv(np.linalg.inv(K) + A @ A.T)
    return V @ A @ (residual / noise), V


def dense_latents() -> Problem:
    """Three processes whose inducing points are the data."""
    rng = np.random.default_rng(4)
    x = np.linspace(0.0, 1.0, 16)[:, None]
    weights = rng.normal(size=(3, 3))
    ys = list(np.sin(5.0 * x[:, 0] + np.arange(3)[:, None]) + 0.1 * rng.normal(size=16))
    return Problem(
        xs=[x] * 3,
        ys=ys,
        lengthscale=np.array([[0.08], [0.12], [0.2]]),
        weights=weights,
        offset=np.array([0.1, 0.0, -0.3]),
        noise=np.array([0.3, 0.5, 0.4]),
        inducing=np.tile(x, (3, 1, 1)),
        jitter=1e-10,
    )


@pytest.mark.parametrize("dense", [True, False], ids=["Z = X", "few"])
def test_one_step_is_the_optimal_posterior(dense):
    problem = dense_latents()
    if not dense:
        problem = problem._replace(inducing=problem.inducing[:, ::2], jitter=1e-8)
    model, data = problem.package()
    q = whole_step(model, from_prior(model.prior, joint=True), data)
    mean, cov = _unwhiten(model.prior, q)
    m, V = optimal(problem)
    np.testing.assert_allclose(mean[0], m, rtol=1e-8, atol=1e-8 * np.abs(m).max())
    np.testing.assert_allclose(cov[0], V, rtol=1e-8, atol=1e-8 * np.abs(V).max())
    if dense:
        exact = exact_gp(problem, problem.xs[0][:1])
        bound = float(_elbo(model, q, data).elbo)
        np.testing.assert_allclose(bound, exact.log_evidence, rtol=1e-6)


def test_guarded_steps_need_few_evaluations_where_latents_are_collinear(capsys):
    problem = several_latents(collinear=True)
    model, data = problem.package()
    best = -float(
        _elbo(
            model, whole_step(model, from_prior(model.prior, joint=True), data), data
        ).elbo
    )
    values = descend(model, data, Guard(), jnp.asarray(0.0), joint=True, length=30)
    needed = evaluations(np.asarray(values), best)
    with capsys.disabled():
        print(f"\ncollinear, joint q: evaluations to 1e-6 of {best:.6f}: {needed}")
    assert needed is not None and needed <= 20


def test_packed_moments_are_those_of_the_rows():
    model, q, x = joint_model(priors.LMC)
    _, var = eqx.filter_jit(function_moments)(model, q, x)
    _, cov = _row_moments(model, q, x)
    pair = np.moveaxis(unpacked(np.asarray(var)[[0, 1, 3]], 2), -1, 0)
    np.testing.assert_allclose(pair, np.asarray(cov)[:, :2, :2], atol=1e-10)
