"""Every gradient against central finite differences.

The stencil is of fourth order, so that its error, of the order of h^4, and that of
rounding, of the order of 1e-16 |F| / h, are both far below what is asked for.
"""

import functools as ft
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import paper_convolution as convolution
import paper_numpy as paper
from motleygp import kernels, likelihoods as lik, priors
from motleygp.inference.data import Dataset, make_dataset
from motleygp.inference.derivatives import gradients
from motleygp.inference.model import Model, trainable
from motleygp.inference.objective import elbo
from motleygp.inference.posterior import Posterior
from motleygp.numerics.linalg import jittered_cholesky, whitened_columns

_STEP = 1e-3
_SHIFTS = np.array([-2.0, -1.0, 1.0, 2.0])
_STENCIL = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0


_gradients = eqx.filter_jit(gradients)


pytestmark = pytest.mark.usefixtures("quick_compilation")


@eqx.filter_jit
def values_at(fn: Callable[..., jax.Array], points: Any, *args: Any) -> jax.Array:
    """`fn` at each of the stacked points, one after the other."""
    return jax.lax.map(lambda point: fn(point, *args), points)


def differences(values: jax.Array, step: float) -> tuple[np.ndarray, float]:
    """Derivatives from values at the shifts of the stencil, and their rounding error.

    A value of F is some hundred sums and factors away from its inputs.
    """
    rounding = 100.0 * np.finfo(float).eps * float(jnp.abs(values[0])) / step
    return np.asarray(values).reshape(-1, 4) @ _STENCIL / step, rounding


def slopes(
    fn: Callable[..., jax.Array], at: jax.Array, *args: Any, step: float = _STEP
) -> tuple[np.ndarray, float]:
    """Finite differences of `fn` in each entry of a vector, and their rounding."""
    shifts = step * _SHIFTS[None, :, None] * np.eye(len(at))[:, None, :]
    points = jnp.asarray((np.asarray(at) + shifts).reshape(-1, len(at)))
    return differences(values_at(fn, points, *args), step)


def assert_slopes(actual: Any, expected: np.ndarray, atol: float) -> None:
    assert atol < 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=atol)


# The bound.


class Problem(NamedTuple):
    model: Model
    q: Posterior
    data: Dataset


def make_problem(
    names: Sequence[str],
    rank: tuple[int, ...],
    *,
    normalised: bool = False,
    batch: int | None = None,
) -> Problem:
    """Each output with inputs of its own, all of them or a minibatch."""
    rng = np.random.default_rng(0)
    start = paper.random_parameters(
        rng, names, rank=rank, normalised=normalised, num_inducing=4
    )
    xs = [rng.random((6 + d, 2)) for d in range(len(names))]
    ys = [paper.random_values(rng, n, len(x)) for n, x in zip(names, xs, strict=True)]
    likelihoods = tuple(lik.get(name) for name in names)
    data = make_dataset(xs, ys, likelihoods)
    if batch is not None:
        data = tuple(block.take(jnp.arange(batch)) for block in data)
    prior = priors.LMC(
        kernels.EQ(start["lengthscale"], normalised=normalised),
        start["weights"],
        start["inducing"],
        rank=rank,
    )
    factor = rng.normal(size=start["q_cov"].shape) / 2
    cov = 0.5 * np.eye(4) + factor @ factor.swapaxes(1, 2)
    q = posterior(start["q_mean"], cov)
    return Problem(Model(prior, jnp.asarray(start["offset"]), likelihoods), q, data)


def make_convolution(
    form: str,
    names: Sequence[str],
    rank: tuple[int, ...],
    *,
    normalised: bool,
    batch: int | None,
) -> Problem:
    """The same with a convolution prior: shared inputs without a minibatch, so that
    both ways of giving rows to functions are taken."""
    rng = np.random.default_rng(0)
    start = convolution.random_parameters(
        rng,
        names,
        {"function": convolution.FUNCTION, "latent": convolution.LATENT}[form],
        num_latents=len(rank),
        normalised=normalised,
        num_inducing=4,
    )
    made: Any = {"function": priors.Convolution, "latent": priors.LatentConvolution}
    prior = made[form](
        kernels.EQ(start["lengthscale"], normalised=normalised),
        start["weights"],
        start["smoothing"],
        start["inducing"],
    )
    shared = rng.random((6, 2))
    xs = [
        shared if batch is None else rng.random((6 + d, 2)) for d in range(len(names))
    ]
    ys = [paper.random_values(rng, n, len(x)) for n, x in zip(names, xs, strict=True)]
    likelihoods = tuple(lik.get(name) for name in names)
    data = make_dataset(xs, ys, likelihoods)
    if batch is not None:
        data = tuple(block.take(jnp.arange(batch)) for block in data)
    factor = rng.normal(size=start["q_cov"].shape) / 2
    cov = 0.5 * np.eye(4) + factor @ factor.swapaxes(1, 2)
    q = posterior(rng.normal(size=start["q_mean"].shape), cov)
    return Problem(Model(prior, jnp.asarray(start["offset"]), likelihoods), q, data)


def posterior(mean: np.ndarray, cov: np.ndarray) -> Posterior:
    """q by its whitened moments."""
    precision = np.linalg.inv(cov)
    half = np.linalg.inv(np.linalg.cholesky(precision))
    return Posterior(*map(jnp.asarray, (mean, precision, half)))


@pytest.fixture(
    scope="module",
    params=[
        (("gaussian", "hetgaussian", "bernoulli", "gamma"), (2,), False, None),
        (("beta", "exponential", "poisson", "gaussian"), (1, 2), True, 4),
        (("gaussian", "hetgaussian"), (1, 1), False, None, "function"),
        (("gaussian", "poisson", "hetgaussian"), (1, 1), True, 4, "latent"),
        pytest.param(
            (("gaussian", *paper.NUM_FUNCTIONS), (2, 1, 3), True, 5),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["unit", "normalised-minibatch", "function", "latent", "all-likelihoods"],
)
def case(request) -> tuple[Problem, Any]:
    names, rank, normalised, batch, *form = request.param
    make = ft.partial(make_convolution, *form) if form else make_problem
    problem = make(names, rank, normalised=normalised, batch=batch)
    return problem, _gradients(*problem)[1]


def nelbo_of_theta(
    vector: jax.Array, unravel: Callable, fixed: Model, q: Posterior, data: Dataset
) -> jax.Array:
    return -elbo(eqx.combine(unravel(vector), fixed), q, data).elbo


def test_gradient_in_every_entry_of_theta(case):
    (model, q, data), grads = case
    theta, fixed = eqx.partition(model, trainable(model))
    vector, unravel = ravel_pytree(theta)
    expected, atol = slopes(nelbo_of_theta, vector, unravel, fixed, q, data)
    actual, _ = ravel_pytree(grads.theta)
    sizes = [leaf.size for leaf in jax.tree.leaves(theta)]
    # Length-scales, weights, inducing points, offsets, noises, and the smoothing of a
    # convolution: each on its own.
    num_noises = sum(isinstance(l, lik.Gaussian) for l in model.likelihoods)
    smoothed = isinstance(model.prior, priors.AbstractConvolution)
    assert len(sizes) == 4 + smoothed + num_noises > 4 + smoothed
    cuts = np.cumsum(sizes)[:-1]
    pairs = zip(np.split(actual, cuts), np.split(expected, cuts), strict=True)
    for leaf, expected_leaf in pairs:
        assert_slopes(leaf, expected_leaf, atol)


def nelbo_of_q(q: Posterior, model: Model, data: Dataset) -> jax.Array:
    return -elbo(model, q, data).elbo


def nelbo_at(moments: Sequence[tuple[np.ndarray, np.ndarray]], problem: Problem) -> Any:
    points = [posterior(*pair) for pair in moments]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
    return values_at(nelbo_of_q, stacked, problem.model, problem.data)


def test_gradient_in_the_mean_and_the_covariance_of_q(case):
    problem, grads = case
    mean, cov = np.asarray(problem.q.mean), np.asarray(problem.q.cov())
    num_groups, size = mean.shape
    rows, columns = np.tril_indices(size)
    shifts = _STEP * _SHIFTS
    moments = []
    for g, i in np.ndindex(mean.shape):
        unit = np.zeros_like(mean)
        unit[g, i] = 1.0
        moments += [(mean + h * unit, cov) for h in shifts]
    for g in range(num_groups):
        for i, j in zip(rows, columns, strict=True):
            unit = np.zeros_like(cov)
            unit[g, i, j] = unit[g, j, i] = 1.0
            moments += [(mean, cov + h * unit) for h in shifts]
    slope, atol = differences(nelbo_at(moments, problem), _STEP)
    in_mean, in_cov = slope[: mean.size], slope[mean.size :].reshape(num_groups, -1)
    assert_slopes(grads.q.gradient, in_mean.reshape(mean.shape), atol)
    # A step along E_ij + E_ji changes F by twice (dF/dV)_ij.
    in_cov[:, rows != columns] /= 2.0
    precision = np.linalg.inv(cov)[:, rows, columns]
    target = np.asarray(grads.q.target)
    np.testing.assert_allclose(target, target.swapaxes(1, 2), rtol=1e-12, atol=1e-14)
    assert_slopes(target[:, rows, columns], precision + 2.0 * in_cov, 2.0 * atol)


def test_what_is_fixed_has_no_gradient():
    model, q, data = make_problem(("gaussian", "gaussian"), (1,))
    fixed = Model(
        model.prior,
        model.offset,
        (lik.Gaussian(1.0, fixed=True), lik.Gaussian(1.0)),
        fixed=("offset",),
    )
    shapes: Any = eqx.filter_eval_shape(gradients, fixed, q, data)[1].theta
    assert shapes.offset is None
    assert [l.log_noise is None for l in shapes.likelihoods] == [True, False]
    free: Any = eqx.filter_eval_shape(gradients, model, q, data)[1].theta
    assert free.offset.shape == model.offset.shape
    assert [l.log_noise is None for l in free.likelihoods] == [False, False]


# Linear algebra.

_SIZE = 5


def random_covariance(smallest: float) -> np.ndarray:
    """A matrix with a mean diagonal of 3 and a given smallest eigenvalue."""
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.normal(size=(_SIZE, _SIZE)))
    values = np.array([smallest, 1.0, 2.0, 4.0, 8.0 - smallest])
    return (vectors * values) @ vectors.T


def symmetric(triangle: jax.Array) -> jax.Array:
    """The symmetric matrix whose lower half is in a vector."""
    rows, columns = np.tril_indices(_SIZE)
    lower = jnp.zeros((_SIZE, _SIZE)).at[rows, columns].set(triangle)
    return jnp.where(np.eye(_SIZE, dtype=bool), lower, lower + lower.T)


def of_factor(triangle: jax.Array, base: float, weights: jax.Array) -> jax.Array:
    lower, jitter = jittered_cholesky(symmetric(triangle), base)
    return jnp.sum(weights * lower) + 2.0 * jitter


def of_columns(vector: jax.Array, base: float, weights: jax.Array) -> jax.Array:
    triangle, ug = jnp.split(vector, [_SIZE * (_SIZE + 1) // 2])
    ug = ug.reshape(_SIZE, -1)
    basis, jitter = whitened_columns(symmetric(triangle), ug, base)
    return jnp.sum(weights * basis) + 2.0 * jitter


# A large jitter, so that it counts; and one that has to be raised a hundredfold. That
# leaves an eigenvalue of 0.02, which the steps must not reach.
jitters = pytest.mark.parametrize(
    ("smallest", "base"), [(0.5, 1e-2), (-0.01, 1e-4)], ids=["base", "raised"]
)


def triangle_of(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.tril_indices(_SIZE)]


@jitters
def test_derivatives_of_the_jittered_factor(rng, smallest, base):
    at = jnp.asarray(triangle_of(random_covariance(smallest)))
    args = base, jnp.asarray(rng.normal(size=(_SIZE, _SIZE)))
    expected, atol = slopes(of_factor, at, *args, step=1e-4)
    for derivative in (jax.jacrev, jax.jacfwd):
        actual = jax.jit(derivative(of_factor), static_argnums=1)(at, *args)
        assert_slopes(actual, expected, atol)


@jitters
def test_derivatives_of_the_whitened_columns(rng, smallest, base):
    ug = rng.normal(size=(_SIZE, 3))
    covariance = triangle_of(random_covariance(smallest))
    at = jnp.asarray(np.concatenate([covariance, ug.ravel()]))
    args = base, jnp.asarray(rng.normal(size=ug.shape))
    expected, atol = slopes(of_columns, at, *args, step=1e-4)
    actual = jax.jit(jax.grad(of_columns), static_argnums=1)(at, *args)
    assert_slopes(actual, expected, atol)


_factor = jax.jit(jittered_cholesky, static_argnums=1)


@pytest.mark.parametrize(
    ("matrix", "base", "steps"),
    [
        (random_covariance(0.5), 1e-8, 0),
        (random_covariance(-1e-5), 1e-8, 3),
        (random_covariance(-0.02), 1e-8, 6),
        (3.0 * np.ones((_SIZE, _SIZE)), 1e-20, None),
    ],
    ids=["good", "nearly-indefinite", "at-the-limit", "singular"],
)
def test_jitter_grows_tenfold_until_it_suffices(matrix, base, steps):
    lower, jitter = _factor(jnp.asarray(matrix), base)
    raised = np.log10(float(jitter) / (3.0 * base))
    assert raised == pytest.approx(round(raised), abs=1e-9)
    assert round(raised) == steps if steps is not None else raised > 0.5
    reproduced = np.asarray(lower) @ np.asarray(lower).T
    jittered = matrix + float(jitter) * np.eye(_SIZE)
    np.testing.assert_allclose(reproduced, jittered, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("smallest", [-0.04, -1.0])
def test_factor_of_an_indefinite_matrix_is_nan(smallest):
    # The mean diagonal is 3, so the largest jitter is 0.03.
    lower, _ = _factor(jnp.asarray(random_covariance(smallest)), 1e-8)
    assert np.isnan(np.asarray(lower)[np.tril_indices(_SIZE)]).all()


def test_a_jitter_of_none_is_raised_too():
    lower, jitter = _factor(jnp.ones((4, 4)), 0.0)
    assert np.isfinite(lower).all() and 0.0 < float(jitter) < 1e-8
    lower, jitter = _factor(jnp.eye(4), 0.0)
    np.testing.assert_array_equal(lower, np.eye(4))
    assert float(jitter) == 0.0
