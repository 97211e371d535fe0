"""The written-out derivative of a group's marginals, against automatic differentiation
of the formula as it stands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from motleygp.inference.projection import Pairs, _has_many, _marginals

SIZE, BASE = 6, 1e-3
NO_PAIRS, PAIRS = Pairs(1, ()), Pairs(3, ((0, 1), (1, 2)))


def plain(pairs: Pairs, uu, ug, gg, mean, cov) -> tuple:
    """m^T B, and of each column and each pair k - b_a^T b_b + b_a^T V b_b."""
    jittered = uu + BASE * jnp.mean(jnp.diagonal(uu)) * jnp.eye(SIZE)
    basis = jnp.linalg.solve(jnp.linalg.cholesky(jittered), ug)
    by_function = basis.reshape(SIZE, pairs.per_row, -1)
    ends = [(j, j) for j in range(pairs.per_row)] + list(pairs.functions)
    explained = [
        jnp.einsum(
            "mn,mk,kn->n", by_function[:, a], cov - jnp.eye(SIZE), by_function[:, b]
        )
        for a, b in ends
    ]
    return mean @ basis, gg + jnp.concatenate(explained)


def symmetric(matrix: jax.Array) -> jax.Array:
    return 0.5 * (matrix + matrix.T)


@pytest.mark.parametrize("pairs", [NO_PAIRS, PAIRS], ids=["alone", "pairs"])
@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_marginals_and_their_derivatives(rng, pairs, many):
    num_rows = 6 if many and pairs.functions else 18 if many else 3
    num_columns = num_rows * pairs.per_row
    assert _has_many(jnp.zeros((SIZE, num_columns))) == many
    root = rng.normal(size=(SIZE, SIZE))
    uu = jnp.asarray(root @ root.T + SIZE * np.eye(SIZE))
    ug = jnp.asarray(rng.normal(size=(SIZE, num_columns)))
    # No variance is near 0, where it would be held.
    gg = jnp.asarray(9.0 + rng.random(num_columns + len(pairs.functions) * num_rows))
    mean = jnp.asarray(rng.normal(size=SIZE))
    half = jnp.asarray(np.tril(rng.normal(size=(SIZE, SIZE))))
    g_mean = jnp.asarray(rng.normal(size=num_columns))
    g_var = jnp.asarray(rng.normal(size=len(gg)))

    @jax.jit
    def written(uu, ug, gg, mean, half, change):
        given = symmetric(uu), ug, gg, mean, half, symmetric(change)
        return _marginals(pairs, BASE, *given)[:2]

    @jax.jit
    def expected(uu, ug, gg, mean, half, change):
        cov = half.T @ half + symmetric(change)
        return plain(pairs, symmetric(uu), ug, gg, mean, cov)

    args = (uu, ug, gg, mean, half, jnp.zeros((SIZE, SIZE)))
    results = [jax.vjp(fn, *args) for fn in (written, expected)]
    for found, wanted in zip(*(value for value, _ in results), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
    pulled = [jax.jit(pull)((g_mean, g_var)) for _, pull in results]
    for found, wanted in zip(*pulled, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
