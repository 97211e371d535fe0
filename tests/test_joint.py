"""Joint draws, and the functions' covariances at one row, for every prior."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from motleygp import priors
from motleygp.inference import joint
from motleygp.inference.model import Model
from motleygp.inference.objective import function_moments
from motleygp.inference.posterior import Posterior, from_precision, from_prior
from motleygp.kernels import EQ
from motleygp.likelihoods import Gaussian, HetGaussian
from motleygp.prediction import functions
from test_threads import batched_calls

pytestmark = pytest.mark.usefixtures("quick_compilation")

_row_moments = eqx.filter_jit(joint.row_moments)
_draw = eqx.filter_jit(joint.draw_functions)

NUM_FUNCTIONS, NUM_COPIES, NUM_INDUCING, NUM_ROWS = 3, 2, 5, 4


def make_model(form: type[priors.AbstractPrior]) -> tuple[Model, Posterior, jax.Array]:
    rng = np.random.default_rng(0)
    num_groups = NUM_FUNCTIONS if form is priors.Convolution else NUM_COPIES
    arguments = dict(
        kernel=EQ(rng.uniform(0.3, 1.0, size=(NUM_COPIES, 2))),
        weights=rng.normal(size=(NUM_FUNCTIONS, NUM_COPIES)),
        inducing=rng.normal(size=(num_groups, NUM_INDUCING, 2)),
    )
    if form is not priors.LMC:
        arguments["smoothing"] = rng.uniform(0.1, 0.5, size=(NUM_FUNCTIONS, 2))
    offset = jnp.asarray([1.0, -2.0, 0.5])
    model = Model(form(**arguments), offset, (HetGaussian(), Gaussian()))
    root = rng.normal(size=(num_groups, NUM_INDUCING, NUM_INDUCING))
    precision = root @ root.swapaxes(1, 2) + np.eye(NUM_INDUCING)
    mean = rng.normal(size=(num_groups, NUM_INDUCING))
    q = from_precision(jnp.asarray(mean), jnp.asarray(precision))
    return model, q, jnp.asarray(rng.normal(size=(NUM_ROWS, 2)))


FORMS = [priors.LMC, priors.Convolution, priors.LatentConvolution]


@pytest.mark.parametrize("form", FORMS)
def test_the_columns_full_covariance_has_the_variances_on_its_diagonal(form):
    model, _, x = make_model(form)
    prior = model.prior
    group = jax.tree.map(lambda leaf: leaf[1], prior.groups())
    sites = priors.everywhere(x, NUM_FUNCTIONS)
    full = prior.column_covariance(group, x, x)
    np.testing.assert_allclose(full, full.T, atol=1e-14)
    expected = prior.covariances(group, sites).gg
    np.testing.assert_allclose(jnp.diagonal(full), expected, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_rows_have_the_marginals_of_the_posterior(form):
    model, q, x = make_model(form)
    mean, cov = _row_moments(model, q, x)
    expected_mean, expected_var = eqx.filter_jit(function_moments)(model, q, x)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-10)
    entries = _entries(model)
    if form is priors.Convolution:  # its functions are independent under q
        entries = entries[:NUM_FUNCTIONS]
    second = np.stack([np.asarray(cov)[:, j, i] for j, i in entries])
    np.testing.assert_allclose(second, expected_var, atol=1e-10)


def _entries(model: Model) -> list[tuple[int, int]]:
    """The variances of all functions, and the pairs within each output."""
    pairs = priors.pairs_within(model.blocks)
    assert pairs
    return [(j, j) for j in range(NUM_FUNCTIONS)] + pairs


class Growing(EQ):
    """A process whose standard deviation is 1 + |x|."""

    name: ClassVar[str] = "growing"

    def __call__(self, x, z):
        return self._std(x)[:, None] * super().__call__(x, z) * self._std(z)

    def diagonal(self, x):
        return self._std(x) ** 2

    def _std(self, x):
        return 1.0 + jnp.linalg.norm(x, axis=1)


def test_rows_have_the_marginals_of_a_kernel_that_is_not_stationary():
    model, q, x = make_model(priors.LMC)
    kernel = Growing(model.prior.kernel.lengthscale)
    model = eqx.tree_at(lambda m: m.prior.kernel, model, kernel)
    _, cov = _row_moments(model, q, x)
    _, expected = eqx.filter_jit(function_moments)(model, q, x)
    second = np.stack([np.asarray(cov)[:, j, i] for j, i in _entries(model)])
    np.testing.assert_allclose(second, expected, rtol=1e-8)


def test_draws_with_much_jitter_are_warned_about(monkeypatch):
    model, q, x = make_model(priors.LMC)
    draws = jnp.zeros((2, NUM_FUNCTIONS, NUM_ROWS))
    for jitter in (1e-5, 1e-2):
        found = draws, jnp.asarray(jitter)
        monkeypatch.setattr(functions, "_draw_functions", lambda *_, f=found: f)
        if jitter < 1e-4:
            functions.draws(model, q, np.asarray(x), 2, 0)
            continue
        with pytest.warns(UserWarning, match=r"draws have 1\.0% more variance than"):
            functions.draws(model, q, np.asarray(x), 2, 0)


@pytest.mark.parametrize("form", FORMS)
def test_where_q_is_the_prior_rows_covary_as_the_prior_says(form):
    model, _, x = make_model(form)
    _, cov = _row_moments(model, from_prior(model.prior), x)
    expected = np.einsum("jnin->nji", np.asarray(model.prior.covariance(x, x)))
    if form is priors.Convolution:  # whose functions are independent of one another
        expected = expected * np.eye(NUM_FUNCTIONS)
    np.testing.assert_allclose(cov, expected, atol=1e-8)


@pytest.mark.parametrize("form", [priors.LMC, priors.LatentConvolution])
def test_draws_have_the_posteriors_joint_moments(form):
    model, q, x = make_model(form)
    num = 40_000
    draws, jitter = _draw(model, q, jax.random.key(0), x, num)
    draws = np.asarray(draws)
    np.testing.assert_allclose(jitter, model.prior.jitter)
    mean, cov = _row_moments(model, q, x)
    std = np.sqrt(np.einsum("njj->jn", np.asarray(cov)))
    error = 5.0 / np.sqrt(num)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=error * std.max())
    # Across functions at one row, and across rows for one function.
    centred = draws - np.asarray(mean)
    across = np.einsum("sjn,sin->nji", centred, centred) / num
    np.testing.assert_allclose(across, cov, atol=2 * error * std.max() ** 2)
    rows = np.einsum("sjn,sjm->jnm", centred, centred) / num
    expected = _joint_covariance(model, q, x)
    np.testing.assert_allclose(rows, expected, atol=2 * error * std.max() ** 2)


def _joint_covariance(model: Model, q: Posterior, x: jax.Array) -> np.ndarray:
    """cov[f_j(x), f_j(x')] by NumPy: K_ff - K_fu (K_uu^-1 - K_uu^-1 S K_uu^-1) K_uf."""
    prior = model.prior
    sites = priors.everywhere(x, NUM_FUNCTIONS)
    total = np.einsum("jnjm->jnm", np.asarray(prior.covariance(x, x)))
    for g in range(NUM_COPIES):
        group = jax.tree.map(lambda leaf, g=g: leaf[g], prior.groups())
        k = prior.covariances(group, sites)
        basis = np.linalg.solve(np.linalg.cholesky(np.asarray(k.uu)), np.asarray(k.ug))
        shrink = np.eye(NUM_INDUCING) - np.asarray(q.cov())[g]
        basis = basis.reshape(NUM_INDUCING, -1, NUM_ROWS)
        basis = np.broadcast_to(basis, (NUM_INDUCING, NUM_FUNCTIONS, NUM_ROWS))
        taken = np.einsum("mjn,mk,kji->jni", basis, shrink, basis)
        weights = np.asarray(prior.weights)[:, g, None, None]
        total = total - weights**2 * taken
    return total


@pytest.mark.parametrize("form", FORMS)
def test_no_batched_factorisation_reaches_the_cpu(form):
    model, q, x = make_model(form)
    arrays, static = eqx.partition((model, q), eqx.is_array)

    def both(arrays, x):
        model, q = eqx.combine(arrays, static)
        draws = joint.draw_functions(model, q, jax.random.key(0), x, 2)
        return draws, joint.row_moments(model, q, x)

    compiled = jax.jit(both).lower(arrays, x).compile()
    assert batched_calls(compiled.as_text()) == []
