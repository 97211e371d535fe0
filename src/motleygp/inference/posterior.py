"""q(u): its storage, its divergence from the prior, and the marginals it implies.

Inside the library u is whitened: u_g = L_g v_g with L_g the factor of K_uu, so that
the prior of v_g is N(0, I), the divergence does not depend on theta, and a change of
theta carries q along. `unwhiten` gives the moments of u itself.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from motleygp._types import Scalar
from motleygp.named import Named
from motleygp.numerics.linalg import (
    cholesky,
    inverse_lower,
    jittered_cholesky,
    over_groups,
    product,
    solve_lower,
    whitened_columns,
)
from motleygp.priors import AbstractPrior, Sites, everywhere


class Posterior(Named):
    """q(v_g) = N(mean_g, V_g), by the precision V_g^-1 and H_g with V_g = H_g^T H_g.

    H is triangular: the inverse of the precision's Cholesky factor, or the transposed
    factor of V. A step adds to the precision and factorises it once; everything else
    uses V only through products with H. Make one with `from_precision` or
    `from_factor`; inside `over_groups` it holds one group.
    """

    kind: ClassVar[str] = "posterior"
    name: ClassVar[str] = "posterior"

    mean: Float[Array, "*G M"]
    precision: Float[Array, "*G M M"]
    half: Float[Array, "*G M M"]

    def cov(self) -> Float[Array, "G M M"]:
        """The covariances V."""
        return jnp.swapaxes(self.half, -1, -2) @ self.half


class NaturalTerms(NamedTuple):
    """The terms of a natural-gradient step on q(u), where F is minus the bound.

    `gradient` is dF/dm. `target` is V^-1 + 2 dF/dV = I + 2 sum_n B_n g_v,n B_n^T: the
    precision at which dF/dV would vanish, so a step of length b moves the precision
    to (1 - b) V^-1 + b target.
    """

    gradient: Float[Array, "*G M"]
    target: Float[Array, "*G M M"]


def from_precision(
    mean: Float[Array, "G M"], precision: Float[Array, "G M M"]
) -> Posterior:
    """q with these means and precisions; NaN where one is not positive definite."""

    def one_group(precision: Float[Array, "M M"]) -> Float[Array, "M M"]:
        return inverse_lower(cholesky(precision))

    return Posterior(mean, precision, over_groups(one_group, precision))


def from_factor(mean: Float[Array, "G M"], factor: Float[Array, "G M M"]) -> Posterior:
    """q with these means and covariances C C^T, C lower triangular."""

    def one_group(factor: Float[Array, "M M"]) -> Float[Array, "M M"]:
        inverse = inverse_lower(factor)
        return inverse.T @ inverse

    precision = over_groups(one_group, factor)
    return Posterior(mean, precision, jnp.swapaxes(factor, -1, -2))


class Columns(eqx.Module):
    """Moments of each group's columns under q, with the basis and jitter behind them.

    `basis` is B_g = L_g^-1 K_ug: the columns' means are B_g^T mean_g. The jitter is
    relative to the mean of the diagonal of K_uu.
    """

    mean: Float[Array, "*G C"]
    var: Float[Array, "*G E"]
    """The variances, and the covariances of the prior's `column_pairs`."""
    basis: Float[Array, "*G M C"]
    jitter: Float[Array, "*G"]


def from_prior(prior: AbstractPrior) -> Posterior:
    """q(u) = p(u): mean 0 and covariance I in the whitened variable."""
    num_groups, num_inducing, _ = jnp.shape(prior.inducing)
    eye = jnp.eye(num_inducing, dtype=prior.inducing.dtype)
    eyes = jnp.broadcast_to(eye, (num_groups, num_inducing, num_inducing))
    return Posterior(jnp.zeros((num_groups, num_inducing), eye.dtype), eyes, eyes)


def kl_to_prior(q: Posterior) -> Float[Array, " G"]:
    """KL[q(u_g) || p(u_g)] = 1/2 (tr V + m^T m - M - log |V|), whitened."""
    trace = jnp.sum(q.half**2, axis=(1, 2))
    log_det = jnp.sum(jnp.log(jnp.diagonal(q.half, axis1=1, axis2=2) ** 2), axis=1)
    square = jnp.sum(q.mean**2, axis=1)
    return 0.5 * (trace + square - q.mean.shape[1] - log_det)


def divergence(q: Posterior, base: Posterior) -> Float[Array, " G"]:
    """KL[q_g || base_g] of each group."""
    return over_groups(group_divergence, q, base)


def group_divergence(new: Posterior, old: Posterior) -> Scalar:
    """KL[new || old] = 1/2 (tr(V_old^-1 V_new) - M + log |V_old| - log |V_new|
    + |m_new - m_old|^2 in V_old^-1), of one group."""
    shift = new.mean - old.mean
    trace = jnp.sum((new.half @ old.precision) * new.half)
    # A factor that was optimised itself may have negative entries on its diagonal.
    old_diagonal, new_diagonal = (jnp.abs(jnp.diagonal(q.half)) for q in (old, new))
    log_ratio = jnp.sum(jnp.log(old_diagonal) - jnp.log(new_diagonal))
    square = shift @ (old.precision @ shift)
    return 0.5 * (trace - new.mean.shape[0] + square) + log_ratio


def project(prior: AbstractPrior, q: Posterior, sites: Sites) -> Columns:
    """Moments of each group's columns at the sites: B^T m and k - B^T B + B^T V B."""
    pairs = pairs_of(prior, sites)

    def one_group(
        group: PyTree, mean: Float[Array, " M"], half: Float[Array, "M M"]
    ) -> Columns:
        k = prior.covariances(group, sites)
        basis, jitter = whitened_columns(k.uu, k.ug, prior.jitter)
        # The prior's residual variance is a difference, which rounding must not make
        # negative; the diagonal of B^T V B is |H B|^2.
        remaining = k.gg - pairs.products(basis)
        size = basis.shape[1]
        remaining = jnp.concatenate(
            [jnp.maximum(remaining[:size], 0.0), remaining[size:]]
        )
        explained = pairs.products(product(half, basis))
        relative = jitter / jnp.mean(jnp.diagonal(k.uu))
        return Columns(mean @ basis, remaining + explained, basis, relative)

    return over_groups(one_group, prior.groups(), q.mean, q.half)


class Pairs(NamedTuple):
    """The pairs of a prior's columns whose covariances count, by the functions that
    they belong to; see `AbstractPrior.column_pairs`."""

    per_row: int
    functions: Sequence[tuple[int, int]]

    def products(self, columns: Float[Array, "M C"]) -> Float[Array, " E"]:
        """The squared length of each column, and the inner product of each pair."""
        own = jnp.sum(columns**2, axis=0)
        if not self.functions:
            return own
        left, right = self.sides(columns)
        return jnp.concatenate([own, jnp.sum(left * right, axis=0)])

    def sides(
        self, columns: Float[Array, "M C"]
    ) -> tuple[Float[Array, "M K"], Float[Array, "M K"]]:
        """The first and the second column of each pair."""
        rows = columns.shape[0]
        by_function = columns.reshape(rows, self.per_row, -1)
        first, second = np.array(self.functions).T
        return (
            by_function[:, first].reshape(rows, -1),
            by_function[:, second].reshape(rows, -1),
        )


def pairs_of(prior: AbstractPrior, sites: Sites) -> Pairs:
    """The pairs of this prior's columns at the sites."""
    return Pairs(prior.columns_per_row, prior.column_pairs(sites))


def project_jointly(
    prior: AbstractPrior,
    group: PyTree,
    mean: Float[Array, " M"],
    half: Float[Array, "M M"],
    x: Float[Array, "N P"],
) -> tuple[Float[Array, " C"], Float[Array, "C C"]]:
    """The means of one group's columns at every x, and all of their covariances
    K - B^T B + B^T V B."""
    k = prior.covariances(group, everywhere(x, prior.num_functions))
    basis, _ = whitened_columns(k.uu, k.ug, prior.jitter)
    explained = product(half, basis)
    # Each row is the centre of its own distances, which are then exact: a far row
    # spoils no other.
    rows = jax.lax.map(lambda row: prior.column_covariance(group, row, x), x[:, None])
    cov = jnp.swapaxes(rows, 0, 1).reshape(basis.shape[1], -1)
    return mean @ basis, cov - basis.T @ basis + explained.T @ explained


def prior_factors(
    prior: AbstractPrior,
) -> tuple[Float[Array, "G M M"], Float[Array, " G"]]:
    """L_g and the jitter of each group."""
    nowhere = everywhere(jnp.zeros((1, prior.inducing.shape[-1])), prior.num_functions)

    def one_group(group: PyTree) -> tuple[Array, Array]:
        return jittered_cholesky(prior.covariances(group, nowhere).uu, prior.jitter)

    return over_groups(one_group, prior.groups())


def unwhiten(
    prior: AbstractPrior, q: Posterior
) -> tuple[Float[Array, "G M"], Float[Array, "G M M"]]:
    """Mean and covariance of u_g = L_g v_g."""
    factor, _ = prior_factors(prior)
    mean = jnp.einsum("gmk,gk->gm", factor, q.mean)
    return mean, factor @ q.cov() @ jnp.swapaxes(factor, -1, -2)


def whiten(
    prior: AbstractPrior, mean: Float[Array, "G M"], cov: Float[Array, "G M M"]
) -> Posterior:
    """The inverse of `unwhiten`."""
    factor, _ = prior_factors(prior)

    def one_group(lower: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        # With V_u = C C^T the precision of v is (L^-1 C C^T L^-T)^-1 = W^T W.
        inverse = solve_lower(cholesky(cov), lower)
        return solve_lower(lower, mean[:, None])[:, 0], inverse.T @ inverse

    return from_precision(*over_groups(one_group, factor, mean, cov))
