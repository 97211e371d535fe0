"""Joint moments and draws of the parameter functions, across inputs and functions."""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.inference.model import Model
from motleygp.inference.objective import function_moments
from motleygp.inference.posterior import Posterior
from motleygp.inference.projection import basis_and_covariance
from motleygp.numerics.linalg import jittered_cholesky, over_groups, product
from motleygp.numerics.packed import unpacked
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
    draw = _draw_together if q.is_joint(prior) else _draw_apart
    columns, share = draw(prior, q, key, x, num)
    draws = jax.vmap(lambda c: _mixed(prior, x, c), in_axes=1)(columns)
    return draws + model.offset[:, None], jnp.max(share)


def _draw_apart(
    prior: AbstractPrior, q: Posterior, key: RandomKey, x: Array, num: int
) -> tuple[Float[Array, "G num C"], Float[Array, " G"]]:
    """Draws of each group's columns from N(B^T m, K - B^T B + B^T V B)."""

    def one_group(group: PyTree, mean: Array, half: Array, noise: Array) -> tuple:
        basis, cov = basis_and_covariance(prior, group, x)
        explained = product(half, basis)
        cov = cov - basis.T @ basis + explained.T @ explained
        factor, jitter = jittered_cholesky(cov, prior.jitter)
        share = jitter / jnp.mean(jnp.diagonal(cov))
        return mean @ basis + noise @ factor.T, share

    noise = _noise(prior, key, x, num)
    return over_groups(one_group, prior.groups(), q.mean, q.half, noise)


def _draw_together(
    prior: AbstractPrior, q: Posterior, key: RandomKey, x: Array, num: int
) -> tuple[Float[Array, "G num C"], Float[Array, " G"]]:
    """Draws of all columns under a joint q: B_g^T v_g with v from q, plus the rest from
    N(0, K - B^T B), which is independent between groups."""
    own, common = jr.split(key)
    num_groups = len(prior.inducing)
    v = q.mean + jr.normal(common, (num, q.mean.shape[1]), x.dtype) @ q.half[0]
    v = jnp.swapaxes(v.reshape(num, num_groups, -1), 0, 1)

    def one_group(group: PyTree, v: Array, noise: Array) -> tuple:
        basis, cov = basis_and_covariance(prior, group, x)
        size = jnp.mean(jnp.diagonal(cov))
        # The rest may be zero but for rounding, so the jitter is relative to K.
        rest = cov - basis.T @ basis
        rest = rest + prior.jitter * size * jnp.eye(len(rest), dtype=rest.dtype)
        factor, jitter = jittered_cholesky(rest, 0.0)
        return v @ basis + noise @ factor.T, prior.jitter + jitter / size

    noise = _noise(prior, own, x, num)
    return over_groups(one_group, prior.groups(), v, noise)


def _noise(
    prior: AbstractPrior, key: RandomKey, x: Array, num: int
) -> Float[Array, "G num C"]:
    """White noise for the columns of each group."""
    num_columns = prior.columns_per_row * x.shape[0]
    return jr.normal(key, (len(prior.inducing), num, num_columns), x.dtype)


def row_moments(
    model: Model, q: Posterior, x: Float[Array, "N P"]
) -> tuple[Float[Array, "J N"], Float[Array, "N J J"]]:
    """Means of all functions, offsets included, and their covariances row by row."""
    size = model.prior.num_functions
    mean, var = function_moments(model, q, x, blocks=(tuple(range(size)),))
    return mean, jnp.moveaxis(unpacked(var, size), -1, 0)


def _mixed(
    prior: AbstractPrior, x: Float[Array, "N P"], columns: Float[Array, "G C"]
) -> Float[Array, "J N"]:
    """The functions for these values of the columns."""
    sites = everywhere(x, prior.num_functions)
    ((f, _),) = prior.mix(sites, columns, jnp.zeros_like(columns))
    return f
