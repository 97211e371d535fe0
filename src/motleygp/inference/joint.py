"""Joint moments and draws of the parameter functions, across inputs and functions."""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.inference.model import Model
from motleygp.inference.posterior import Posterior, project_jointly
from motleygp.numerics.linalg import (
    jittered_cholesky,
    over_groups,
    product,
    whitened_columns,
)
from motleygp.priors import AbstractPrior, everywhere


def draw_functions(
    model: Model, q: Posterior, key: RandomKey, x: Float[Array, "N P"], num: int
) -> tuple[Float[Array, "num J N"], Scalar]:
    """Draws from q(f) of all functions at all rows of x, offsets included; and the
    jitter in them, as the largest share of a group's mean variance.

    It factorises the covariance matrix of all columns of each group: for a few thousand
    rows at most.
    """
    prior = model.prior
    num_columns = prior.columns_per_row * x.shape[0]
    noise = jr.normal(key, (len(q.mean), num, num_columns), x.dtype)

    def one_group(group: PyTree, mean: Array, half: Array, noise: Array) -> tuple:
        columns, cov = project_jointly(prior, group, mean, half, x)
        factor, jitter = jittered_cholesky(cov, prior.jitter)
        share = jitter / jnp.mean(jnp.diagonal(cov))
        return columns + noise @ factor.T, share

    columns, share = over_groups(one_group, prior.groups(), q.mean, q.half, noise)
    draws = jax.vmap(lambda c: _mixed(prior, x, c), in_axes=1)(columns)
    return draws + model.offset[:, None], jnp.max(share)


def row_moments(
    model: Model, q: Posterior, x: Float[Array, "N P"]
) -> tuple[Float[Array, "J N"], Float[Array, "N J J"]]:
    """Means of all functions, offsets included, and their covariances row by row."""
    prior, one = model.prior, x[:1]
    sites = everywhere(x, prior.num_functions)
    # f is linear in the columns, so mixing unit columns gives what each one adds.
    size = len(q.mean) * prior.columns_per_row
    units = jnp.eye(size, dtype=x.dtype).reshape(size, len(q.mean), -1)
    added = jax.vmap(lambda c: _mixed(prior, one, c)[:, 0])(units)
    added = added.reshape(len(q.mean), prior.columns_per_row, -1)

    def one_group(group: PyTree, mean: Array, half: Array, added: Array) -> tuple:
        k = prior.covariances(group, sites)
        basis, _ = whitened_columns(k.uu, k.ug, prior.jitter)
        explained = product(half, basis)
        # Row by row: a kernel need not be stationary.
        own = jax.vmap(lambda row: prior.column_covariance(group, row, row))(x[:, None])
        cov = own - _in_rows(basis, len(x))
        cov = cov + _in_rows(explained, len(x))
        f_mean = jnp.einsum("cj,cn->jn", added, (mean @ basis).reshape(-1, len(x)))
        return f_mean, jnp.einsum("cj,ncd,di->nji", added, cov, added)

    mean, cov = over_groups(one_group, prior.groups(), q.mean, q.half, added)
    return jnp.sum(mean, axis=0) + model.offset[:, None], jnp.sum(cov, axis=0)


def _in_rows(a: Float[Array, "M C"], num_rows: int) -> Float[Array, "N c c"]:
    """A^T A among the columns of each row; rows run fastest."""
    columns = a.reshape(a.shape[0], -1, num_rows)
    return jnp.einsum("mcn,mdn->ncd", columns, columns)


def _mixed(
    prior: AbstractPrior, x: Float[Array, "N P"], columns: Float[Array, "G C"]
) -> Float[Array, "J N"]:
    """The functions for these values of the columns."""
    sites = everywhere(x, prior.num_functions)
    ((f, _),) = prior.mix(sites, columns, jnp.zeros_like(columns))
    return f
