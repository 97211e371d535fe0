"""q(u): its storage, and its divergence from the prior.

Inside the library u is whitened: u_g = L_g v_g with L_g the factor of K_uu, so that
the prior of v_g is N(0, I), the divergence does not depend on theta, and a change of
theta carries q along. `unwhiten` gives the moments of u itself.

q has independent parts: one for each of the G groups, of M values each, or a single one
over all S = G M values. The second form, the joint one, is exact where groups explain
the same values and so depend on one another given the data.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from motleygp._types import Scalar
from motleygp.named import Named
from motleygp.numerics.linalg import (
    cholesky,
    inverse_lower,
    jittered_cholesky,
    over_groups,
    solve_lower,
)
from motleygp.priors import AbstractPrior, everywhere


class Posterior(Named):
    """q(v_k) = N(mean_k, V_k), by the precision V_k^-1 and H_k with V_k = H_k^T H_k, of
    each part k: the K = G groups of S = M values each, or K = 1 and all S = G M values,
    group by group.

    H is triangular: the inverse of the precision's Cholesky factor, or the transposed
    factor of V. A step adds to the precision and factorises it once. Make one with
    `from_precision` or `from_factor`; inside `over_groups` it holds one part.
    """

    kind: ClassVar[str] = "posterior"
    name: ClassVar[str] = "posterior"

    mean: Float[Array, "*K S"]
    precision: Float[Array, "*K S S"]
    half: Float[Array, "*K S S"]

    def cov(self) -> Float[Array, "K S S"]:
        """The covariances V."""
        return jnp.swapaxes(self.half, -1, -2) @ self.half

    def is_joint(self, prior: AbstractPrior) -> bool:
        """Whether one part holds several groups."""
        return self.mean.shape[0] != prior.inducing.shape[0]


class NaturalTerms(NamedTuple):
    """The terms of a natural-gradient step on q(u), where F is minus the bound.

    `gradient` is dF/dm. `target` is V^-1 + 2 dF/dV = I + 2 sum_n B_n g_v,n B_n^T: the
    precision at which dF/dV would vanish, so a step of length b moves the precision
    to (1 - b) V^-1 + b target.
    """

    gradient: Float[Array, "*K S"]
    target: Float[Array, "*K S S"]


def from_precision(
    mean: Float[Array, "K S"], precision: Float[Array, "K S S"]
) -> Posterior:
    """q with these means and precisions; NaN where one is not positive definite."""

    def one_part(precision: Float[Array, "S S"]) -> Float[Array, "S S"]:
        return inverse_lower(cholesky(precision))

    return Posterior(mean, precision, over_groups(one_part, precision))


def from_factor(mean: Float[Array, "K S"], factor: Float[Array, "K S S"]) -> Posterior:
    """q with these means and covariances C C^T, C lower triangular."""

    def one_part(factor: Float[Array, "S S"]) -> Float[Array, "S S"]:
        inverse = inverse_lower(factor)
        return inverse.T @ inverse

    precision = over_groups(one_part, factor)
    return Posterior(mean, precision, jnp.swapaxes(factor, -1, -2))


def from_prior(
    prior: AbstractPrior, *, joint: bool = False, precision: float | Scalar = 1.0
) -> Posterior:
    """q(u) = p(u): mean 0 and covariance I in the whitened variable; with a
    `precision`, the covariance is I / precision."""
    num_groups, num_inducing, _ = jnp.shape(prior.inducing)
    parts, size = (
        (1, num_groups * num_inducing) if joint else (num_groups, num_inducing)
    )
    eye = jnp.eye(size, dtype=prior.inducing.dtype)
    eyes = jnp.broadcast_to(eye, (parts, size, size))
    mean = jnp.zeros((parts, size), eye.dtype)
    return Posterior(mean, precision * eyes, eyes / jnp.sqrt(precision))


def joined(q: Posterior) -> Posterior:
    """The same q as a single part."""
    together = (block_diagonal(a) for a in (q.precision, q.half))
    return Posterior(q.mean.reshape(1, -1), *together)


def block_diagonal(blocks: Float[Array, "K S S"]) -> Float[Array, "1 T T"]:
    """One matrix with these blocks on its diagonal."""
    return jax.scipy.linalg.block_diag(*blocks)[None]


def kl_to_prior(q: Posterior) -> Float[Array, " K"]:
    """KL[q || p] = 1/2 (tr V + m^T m - S - log |V|) of each part, whitened."""
    trace = jnp.sum(q.half**2, axis=(1, 2))
    log_det = jnp.sum(jnp.log(jnp.diagonal(q.half, axis1=1, axis2=2) ** 2), axis=1)
    square = jnp.sum(q.mean**2, axis=1)
    return 0.5 * (trace + square - q.mean.shape[1] - log_det)


def divergence(q: Posterior, base: Posterior) -> Float[Array, " K"]:
    """KL[q || base] of each part."""
    return over_groups(part_divergence, q, base)


def part_divergence(new: Posterior, old: Posterior) -> Scalar:
    """KL[new || old] = 1/2 (tr(V_old^-1 V_new) - S + log |V_old| - log |V_new|
    + |m_new - m_old|^2 in V_old^-1), of one part."""
    shift = new.mean - old.mean
    trace = jnp.sum((new.half @ old.precision) * new.half)
    # A factor that was optimised itself may have negative entries on its diagonal.
    old_diagonal, new_diagonal = (jnp.abs(jnp.diagonal(q.half)) for q in (old, new))
    log_ratio = jnp.sum(jnp.log(old_diagonal) - jnp.log(new_diagonal))
    square = shift @ (old.precision @ shift)
    return 0.5 * (trace - new.mean.shape[0] + square) + log_ratio


def prior_factors(
    prior: AbstractPrior,
) -> tuple[Float[Array, "G M M"], Float[Array, " G"]]:
    """L_g and the jitter of each group."""
    nowhere = everywhere(jnp.zeros((1, prior.inducing.shape[-1])), prior.num_functions)

    def one_group(group: PyTree) -> tuple[Array, Array]:
        return jittered_cholesky(prior.covariances(group, nowhere).uu, prior.jitter)

    return over_groups(one_group, prior.groups())


def factors_of_parts(prior: AbstractPrior, num_parts: int) -> Float[Array, "K S S"]:
    """L of each part of a q with so many: u = L v."""
    factors, _ = prior_factors(prior)
    return factors if num_parts == len(factors) else block_diagonal(factors)


def unwhiten(
    prior: AbstractPrior, q: Posterior
) -> tuple[Float[Array, "K S"], Float[Array, "K S S"]]:
    """Mean and covariance of u = L v, part by part."""
    factor = factors_of_parts(prior, len(q.mean))
    mean = jnp.einsum("kst,kt->ks", factor, q.mean)
    return mean, factor @ q.cov() @ jnp.swapaxes(factor, -1, -2)


def whiten(
    prior: AbstractPrior, mean: Float[Array, "K S"], cov: Float[Array, "K S S"]
) -> Posterior:
    """The inverse of `unwhiten`."""

    def one_part(lower: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        # With V_u = C C^T the precision of v is (L^-1 C C^T L^-T)^-1 = W^T W.
        inverse = solve_lower(cholesky(cov), lower)
        return solve_lower(lower, mean[:, None])[:, 0], inverse.T @ inverse

    factor = factors_of_parts(prior, len(mean))
    return from_precision(*over_groups(one_part, factor, mean, cov))
