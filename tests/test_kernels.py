"""Kernels against the formula written with loops."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from motleygp.kernels import EQ, eq_mixture, eq_values, squared_distance


def test_squared_distance(rng):
    x, z = (1e3 + jnp.asarray(rng.normal(size=(n, 3))) for n in (7, 4))
    expected = ((x[:, None] - z[None]) ** 2).sum(-1)
    np.testing.assert_allclose(squared_distance(x, z), expected, rtol=1e-10)


def test_unit_variance_form(rng):
    x, z = (jnp.asarray(rng.normal(size=(n, 2))) for n in (6, 3))
    lengthscale = [0.5, 2.0]
    scaled = ((x[:, None] - z[None]) / np.asarray(lengthscale)) ** 2
    kernel = EQ(lengthscale)
    np.testing.assert_allclose(kernel(x, z), np.exp(-0.5 * scaled.sum(-1)), rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(x), np.ones(6))


def test_normalised_form_is_the_gaussian_density(rng):
    x, z = (jnp.asarray(rng.normal(size=(n, 2))) for n in (6, 3))
    lengthscale = [0.5, 2.0]
    density = multivariate_normal(np.zeros(2), np.diag(np.square(lengthscale)))
    kernel = EQ(lengthscale, normalised=True)
    expected = density.pdf(x[:, None] - z[None])
    np.testing.assert_allclose(kernel(x, z), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(x), density.pdf(np.zeros(2)))


@pytest.mark.parametrize("num_inputs", [1, 3])
def test_covariances_are_positive_semi_definite(rng, num_inputs):
    x = jnp.asarray(rng.random((50, num_inputs)))
    matrix = np.asarray(EQ(np.full(num_inputs, 0.3))(x, x))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-14)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12


@pytest.mark.parametrize("own_rows", [False, True])
def test_many_length_scales_at_once(rng, own_rows):
    z, square = rng.normal(size=(4, 2)), rng.uniform(0.5, 2.0, size=(3, 2))
    x = rng.normal(size=(3, 5, 2) if own_rows else (5, 2))
    scale = np.array([0.7, 0.0, -1.3])
    weights = jnp.asarray(rng.normal(size=(4, 3, 5)))

    def plain(*at: jax.Array) -> jax.Array:
        z, x, square, scale = at
        tau = z[:, None, None, :] - x
        values = jnp.exp(-0.5 * jnp.sum(tau**2 / square[:, None, :], axis=-1))
        return scale[:, None] * values

    def mixture(*at: jax.Array) -> jax.Array:
        return jnp.broadcast_to(eq_mixture(*at)[:, None], weights.shape)

    def summed(*at: jax.Array) -> jax.Array:
        total = jnp.sum(plain(*at), axis=1, keepdims=True)
        return jnp.broadcast_to(total, weights.shape)

    def slopes(f: Callable[..., jax.Array]) -> tuple[jax.Array, ...]:
        def total(*at: jax.Array) -> jax.Array:
            return jnp.sum(weights * f(*at))

        return jax.jit(jax.grad(total, argnums=(0, 1, 2, 3)))(*at)

    # Far from the origin, where a careless sum of squares loses its digits.
    at = tuple(map(jnp.asarray, (z + 1e3, x + 1e3, square, scale)))
    pairs = [(eq_values, plain)] + ([] if own_rows else [(mixture, summed)])
    for fn, expected in pairs:
        np.testing.assert_allclose(fn(*at), expected(*at), rtol=1e-10)
        for one, other in zip(slopes(fn), slopes(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_take_repeats_processes():
    stacked = EQ([[1.0], [2.0]]).take([0, 0, 1])
    np.testing.assert_allclose(stacked.lengthscale, [[1.0], [1.0], [2.0]])
