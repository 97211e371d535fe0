"""The marginals that q(u) implies: moments of each group's columns at given sites.

With B_g = L_g^-1 K_ug, the whitened projections of group g, its columns have the means
B_g^T m_g and the covariances k_g - B_g^T B_g + B_g^T V_gg B_g. Under a joint q(u) the
columns of groups g and h have the covariances B_g^T V_gh B_h.
"""

import functools as ft
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from motleygp.inference.posterior import Posterior
from motleygp.numerics.linalg import (
    inverse_factor,
    lower_half,
    over_groups,
    through_factor,
    transposed_product,
    whitened_columns,
)
from motleygp.priors import AbstractPrior, Sites, everywhere

# There are many columns if there are so many for each inducing point.
_MANY_COLUMNS = 2


class Columns(eqx.Module):
    """Moments of each group's columns under q, with the basis and jitter behind them.

    `basis` is B_g. The jitter is relative to the mean of the diagonal of K_uu.
    """

    mean: Float[Array, "*G C"]
    var: Float[Array, "*G E"] | Float[Array, "G G E"]
    """The variances, and the covariances of the prior's `column_pairs`; under a joint q
    between all groups, otherwise within each."""
    basis: Float[Array, "*G M C"]
    jitter: Float[Array, "*G"]


class Pairs(NamedTuple):
    """The pairs of a prior's columns whose covariances count, by the functions that
    they belong to; see `AbstractPrior.column_pairs`."""

    per_row: int
    functions: tuple[tuple[int, int], ...]

    def products(self, columns: Float[Array, "M C"]) -> Float[Array, " E"]:
        """The squared length of each column, and the inner product of each pair."""
        own = jnp.sum(columns**2, axis=0)
        if not self.functions:
            return own
        left, right = self.sides(columns)
        return jnp.concatenate([own, jnp.sum(left * right, axis=0)])

    def pull_products(
        self, columns: Float[Array, "M C"], g: Float[Array, " E"]
    ) -> Float[Array, "M C"]:
        """The derivative in the columns of the sum of g times the `products`."""
        if not self.functions:
            return 2.0 * g * columns
        return jax.vjp(self.products, columns)[1](g)[0]

    def sides(
        self, columns: Float[Array, "*B C"]
    ) -> tuple[Float[Array, "*B E"], Float[Array, "*B E"]]:
        """The first and the second column of each pair."""
        *before, _ = columns.shape
        by_function = columns.reshape(*before, self.per_row, -1)
        first, second = np.array(self.functions).T
        return (
            by_function[..., first, :].reshape(*before, -1),
            by_function[..., second, :].reshape(*before, -1),
        )

    def ends(
        self, columns: Float[Array, "*B C"]
    ) -> tuple[Float[Array, "*B E"], Float[Array, "*B E"]]:
        """Each column with itself, then the `sides`."""
        if not self.functions:
            return columns, columns
        left, right = self.sides(columns)
        return (
            jnp.concatenate([columns, left], axis=-1),
            jnp.concatenate([columns, right], axis=-1),
        )


def pairs_of(prior: AbstractPrior, sites: Sites) -> Pairs:
    """The pairs of this prior's columns at the sites."""
    return Pairs(prior.columns_per_row, tuple(prior.column_pairs(sites)))


def project(
    prior: AbstractPrior,
    q: Posterior,
    sites: Sites,
    change: Float[Array, "K S S"] | None = None,
) -> Columns:
    """Moments of each group's columns at the sites.

    `change` is zero. It is added to the covariances V of a q that is independent
    between the groups, so the derivative in it is that in V.
    """
    if q.is_joint(prior):
        return project_together(prior, q.mean[0], q.cov()[0], sites)
    pairs = pairs_of(prior, sites)

    def one_group(group: PyTree, mean: Array, half: Array, change: Array) -> Columns:
        k = prior.covariances(group, sites)
        found: Any = _marginals(
            pairs, prior.jitter, k.uu, k.ug, k.gg, mean, half, change
        )
        col_mean, var, basis, jitter = found
        return Columns(col_mean, var, basis, jitter / jnp.mean(jnp.diagonal(k.uu)))

    change = jnp.zeros_like(q.half) if change is None else change
    return over_groups(one_group, prior.groups(), q.mean, q.half, change)


@ft.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _marginals(
    pairs: Pairs,
    base: float,
    uu: Float[Array, "M M"],
    ug: Float[Array, "M C"],
    gg: Float[Array, " E"],
    mean: Float[Array, " M"],
    half: Float[Array, "M M"],
    change: Float[Array, "M M"],
) -> tuple[Array, Array, Array, Array]:
    """The means and variances of one group's columns, its basis B, and the jitter; the
    last two have no derivative. `change` is added to V, and is zero.

    The derivative is written out, because its products serve several purposes. With
    A = 2 sum_e g_e dB_e, the derivative of the variances in B if they were |B|^2,

        2 dF/dV = A B^T,    B' = (V - I) A + m g_m^T,    K_uf' = L^-T B',
        K_uu' = -L^-T Phi(B' B^T) L^-1,    B' B^T = (V - I) A B^T + m (B g_m)^T,

    so four products of M x M with M x C suffice where there are many columns.
    """
    return _marginals_forward(pairs, base, uu, ug, gg, mean, half, change)[0]


def _marginals_forward(
    pairs: Pairs, base: float, *given: Array
) -> tuple[tuple[Array, Array, Array, Array], tuple]:
    uu, ug, gg, mean, half, _ = given
    inverse, jitter = inverse_factor(uu, base)
    basis = inverse @ ug
    rest, size = gg - pairs.products(basis), basis.shape[1]
    # A variance is a difference here, which rounding must not make negative.
    rest = jnp.concatenate([jnp.maximum(rest[:size], 0.0), rest[size:]])
    # The diagonal of B^T V B as |H B|^2, which is never negative.
    moved = half @ basis
    found = mean @ basis, rest + pairs.products(moved), basis, jitter
    relative = jitter / jnp.mean(jnp.diagonal(uu))
    kept = () if _has_many(basis) else (moved,)
    return found, (inverse, basis, relative, mean, half, kept)


def _marginals_backward(
    pairs: Pairs, base: float, saved: tuple, cotangents: tuple
) -> tuple[Array, ...]:
    del base
    inverse, basis, relative, mean, half, kept = saved
    g_mean, g_var, *_ = cotangents
    size, num_columns = basis.shape
    weighted = pairs.pull_products(basis, g_var)
    target, in_mean = weighted @ basis.T, basis @ g_mean
    if _has_many(basis):
        excess = half.T @ half - jnp.eye(size, dtype=half.dtype)
        phi = lower_half(excess @ target + jnp.outer(mean, in_mean))
        both = transposed_product(inverse, jnp.concatenate([excess, phi], axis=1))
        in_ug = both[:, :size] @ weighted + jnp.outer(mean @ inverse, g_mean)
        upper = both[:, size:]
    else:
        (moved,) = kept
        explained = transposed_product(half, pairs.pull_products(moved, g_var))
        in_basis = explained - weighted + jnp.outer(mean, g_mean)
        phi = lower_half(in_basis @ basis.T)
        both = transposed_product(inverse, jnp.concatenate([in_basis, phi], axis=1))
        in_ug, upper = both[:, :num_columns], both[:, num_columns:]
    in_uu = through_factor(upper, inverse, relative)
    return in_uu, in_ug, g_var, in_mean, half @ target, 0.5 * target


def _has_many(basis: Array) -> bool:
    """Whether products of M x M matrices cost less than some with the columns."""
    size, num_columns = basis.shape
    return num_columns >= _MANY_COLUMNS * size


_marginals.defvjp(_marginals_forward, _marginals_backward)


def project_together(
    prior: AbstractPrior,
    mean: Float[Array, " S"],
    cov: Float[Array, "S S"],
    sites: Sites,
) -> Columns:
    """Moments of the columns of all groups under a joint q = N(mean, cov)."""
    pairs = pairs_of(prior, sites)
    num_groups = len(prior.inducing)

    def one_group(group: PyTree, mean: Array) -> Columns:
        return _project_prior(prior, group, mean, sites, pairs)

    alone = over_groups(one_group, prior.groups(), mean.reshape(num_groups, -1))
    # The rest that the inducing values leave open is independent between groups.
    rest = jnp.eye(num_groups)[:, :, None] * alone.var[:, None]
    var = rest + _explained(pairs, alone.basis, cov)
    return Columns(alone.mean, var, alone.basis, alone.jitter)


def _project_prior(
    prior: AbstractPrior, group: PyTree, mean: Array, sites: Sites, pairs: Pairs
) -> Columns:
    """One group's columns given its inducing values: B^T m and k - B^T B."""
    k = prior.covariances(group, sites)
    basis, jitter = whitened_columns(k.uu, k.ug, prior.jitter)
    # A variance is a difference here, which rounding must not make negative.
    rest = k.gg - pairs.products(basis)
    size = basis.shape[1]
    rest = jnp.concatenate([jnp.maximum(rest[:size], 0.0), rest[size:]])
    return Columns(mean @ basis, rest, basis, jitter / jnp.mean(jnp.diagonal(k.uu)))


@ft.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _explained(
    pairs: Pairs, basis: Float[Array, "G M C"], cov: Float[Array, "S S"]
) -> Float[Array, "G G E"]:
    """b_ga^T V_gh b_hb for all groups g, h: of each column a = b, and of each pair.

    Its derivative is written out: V is symmetric, so the products V B serve both sides,
    and the derivative in V is the term of the natural gradient.
    """
    return _explained_forward(pairs, basis, cov)[0]


def _explained_forward(pairs: Pairs, basis: Array, cov: Array) -> tuple:
    num_groups, num_inducing, num_columns = basis.shape
    by_group = jnp.moveaxis(cov.reshape(-1, num_groups, num_inducing), 1, 0)
    moved = over_groups(lambda block, columns: block @ columns, by_group, basis)
    # V_gh B_h at [g, h].
    moved = moved.reshape(num_groups, num_groups, num_inducing, num_columns)
    moved = jnp.swapaxes(moved, 0, 1)
    left, _ = pairs.ends(basis)
    _, right = pairs.ends(moved)
    return jnp.sum(left[:, None] * right, axis=2), (basis, moved)


def _explained_backward(pairs: Pairs, saved: tuple, g: Float[Array, "G G E"]) -> tuple:
    """Of the sum of g_ghe b_ga^T V_gh b_hb over g, h and the pairs e = (a, b): b_ga
    gets g_ghe V_gh b_hb summed over h, b_hb gets g_ghe V_hg b_ga summed over g, and
    V_gh gets g_ghe b_ga b_hb^T."""
    basis, moved = saved
    left, right = pairs.ends(basis)
    to_right, to_left = pairs.ends(moved)
    in_left = jnp.sum(g[:, :, None] * to_left, axis=1)
    in_right = jnp.sum(jnp.swapaxes(g, 0, 1)[:, :, None] * to_right, axis=1)
    _, pull = jax.vjp(pairs.ends, basis)
    (in_basis,) = pull((in_left, in_right))

    def one_group(columns: Array, g: Array) -> Array:
        others = (g[:, None] * right).reshape(-1, right.shape[-1])
        return columns @ others.T

    in_cov = jnp.concatenate(over_groups(one_group, left, g))
    return in_basis, 0.5 * (in_cov + in_cov.T)


_explained.defvjp(_explained_forward, _explained_backward)


def basis_and_covariance(
    prior: AbstractPrior, group: PyTree, x: Float[Array, "N P"]
) -> tuple[Float[Array, "M C"], Float[Array, "C C"]]:
    """B of one group's columns at every x, and all prior covariances K of these."""
    k = prior.covariances(group, everywhere(x, prior.num_functions))
    basis, _ = whitened_columns(k.uu, k.ug, prior.jitter)
    # Each row is the centre of its own distances, which are then exact: a far row
    # spoils no other.
    rows = jax.lax.map(lambda row: prior.column_covariance(group, row, x), x[:, None])
    return basis, jnp.swapaxes(rows, 0, 1).reshape(basis.shape[1], -1)
