"""The bound and its gradients.

    ELBO = sum_d (N_d / B_d) sum_n E_q(f)[log p(y_dn | f)] - sum_g KL[q(u_g) || p(u_g)]

`gradients` computes all gradients in one pass, without differentiating through q(u):
with g_m and g_v the derivatives of the likelihood terms in the mean and variance of f,

    dF/dm = sum_n B_n g_m,n + m,    2 dF/dV + V^-1 = I + 2 sum_n B_n g_v,n B_n^T

for F = -ELBO in the whitened variable, with B the whitened projections. The gradient of
theta is the same (g_m, g_v) pulled back through the projections. The functions of one
output share u, so they are correlated under q(f); g_v includes the derivatives in their
covariances.
"""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp._types import Moments, Scalar, SpanMoments
from motleygp.inference.data import Dataset
from motleygp.inference.expected import expected_log_lik, log_predictives
from motleygp.inference.model import Model, trainable
from motleygp.inference.posterior import (
    Columns,
    NaturalTerms,
    Pairs,
    Posterior,
    divergence,
    from_precision,
    kl_to_prior,
    pairs_of,
    prior_factors,
    project,
)
from motleygp.numerics.linalg import inverse_lower, over_groups, solve_lower
from motleygp.priors import AbstractPrior, Sites, join, pick

# Columns of a group per evaluation, when the bound is on all of the data.
_COLUMNS = 8192


class Terms(NamedTuple):
    """The bound's parts: expected log likelihood per output, divergence per group; and
    the largest jitter of a group, relative to the diagonal of its K_uu."""

    expected_log_lik: Float[Array, " D"]
    kl: Float[Array, " G"]
    jitter: Scalar

    @property
    def elbo(self) -> Scalar:
        return jnp.sum(self.expected_log_lik) - jnp.sum(self.kl)


class Gradients(NamedTuple):
    """Gradients of minus the bound, at one theta and one q(u)."""

    theta: Model
    q: NaturalTerms


def function_moments(model: Model, q: Posterior, x: Float[Array, "N P"]) -> Moments:
    """Mean of every parameter function at x, offsets included; and the variances, with
    the covariances between the functions of each output after them unless these are
    independent: see `numerics.packed`."""
    (moments,) = _moments(model, q, join([(x, model.joint_blocks())]))
    return moments


def elbo(model: Model, q: Posterior, data: Dataset) -> Terms:
    """The bound at theta and q(u), in its parts."""
    sites = _sites(model, data)
    columns = project(model.prior, q, sites)
    moments = _mix(model.prior, model.offset, sites, columns.mean, columns.var)
    terms = expected_log_lik(model.likelihoods, moments, data)
    return Terms(terms, kl_to_prior(q), jnp.max(columns.jitter))


def _moments(model: Model, q: Posterior, sites: Sites) -> tuple[SpanMoments, ...]:
    columns = project(model.prior, q, sites)
    return _mix(model.prior, model.offset, sites, columns.mean, columns.var)


def full_elbo(model: Model, q: Posterior, data: Dataset) -> float:
    """The bound on all of the data, some rows at a time to limit the memory."""
    total = -float(jnp.sum(_kl_to_prior(q)))
    for part in _parts(model.prior, data):
        total += float(jnp.sum(_data_terms(model, q, part)))
    return total


def held_out_nlpd(model: Model, q: Posterior, data: Dataset) -> Float[Array, " D"]:
    """Minus the mean log predictive density of each output."""
    sums = jnp.zeros(len(model.likelihoods))
    for part in _parts(model.prior, data):
        sums = sums - _log_predictives(model, q, part)
    return sums / _total_weights(data)


def _total_weights(data: Dataset) -> Float[Array, " D"]:
    """The number of observed values of each output, or the sum of their weights."""
    totals = {
        d: jnp.asarray(float(block.total))
        if block.weight is None
        else jnp.maximum(jnp.sum(block.weight[place]), np.finfo(float).tiny)
        for block in data
        for place, d in enumerate(block.outputs)
    }
    return jnp.stack([totals[d] for d in range(len(totals))])


def _parts(prior: AbstractPrior, data: Dataset) -> Iterator[Dataset]:
    """Some rows of every block at a time, which stand only for themselves."""
    size = max(1, _COLUMNS // (len(data) * prior.columns_per_row))
    for start in range(0, max(block.total for block in data), size):
        rows = slice(start, start + size)
        yield tuple(block.part(rows) for block in data if block.total > start)


@eqx.filter_jit
def _data_terms(model: Model, q: Posterior, data: Dataset) -> Float[Array, " D"]:
    moments = _moments(model, q, _sites(model, data))
    return expected_log_lik(model.likelihoods, moments, data)


@eqx.filter_jit
def _log_predictives(model: Model, q: Posterior, data: Dataset) -> Float[Array, " D"]:
    moments = _moments(model, q, _sites(model, data))
    return log_predictives(model.likelihoods, moments, data)


_kl_to_prior = eqx.filter_jit(kl_to_prior)


def gradients(
    model: Model, q: Posterior, data: Dataset, base: Posterior | None = None
) -> tuple[Terms, Gradients]:
    """The bound's parts and the gradients of minus the bound.

    `base`, if given, takes the place of p(u): it is the q(u) of earlier rows that are
    not in `data`.
    """
    sites = _sites(model, data)

    def columns_of(prior: AbstractPrior) -> tuple[tuple[Array, Array], Columns]:
        columns = project(prior, q, sites)
        return (columns.mean, columns.var), columns

    def loss(likelihoods, moments: tuple[SpanMoments, ...]) -> tuple[Scalar, Array]:
        terms = expected_log_lik(likelihoods, moments, data)
        return -jnp.sum(terms), terms

    prior, fixed_prior = eqx.partition(model.prior, eqx.is_inexact_array)
    (mean, var), pull_project, columns = jax.vjp(
        lambda p: columns_of(eqx.combine(p, fixed_prior)), prior, has_aux=True
    )
    moments, pull_mix = jax.vjp(
        lambda p, offset, *columns: _mix(
            eqx.combine(p, fixed_prior), offset, sites, *columns
        ),
        prior,
        model.offset,
        mean,
        var,
    )
    likelihoods, fixed_lik = eqx.partition(model.likelihoods, eqx.is_inexact_array)
    (in_lik, g), terms = jax.grad(
        lambda lik, mom: loss(eqx.combine(lik, fixed_lik), mom),
        argnums=(0, 1),
        has_aux=True,
    )(likelihoods, moments)
    in_mix, in_offset, g_mean, g_var = pull_mix(g)
    (in_project,) = pull_project((g_mean, g_var))
    in_prior = jax.tree.map(jnp.add, in_mix, in_project)
    theta = Model(
        prior=eqx.combine(in_prior, fixed_prior),
        offset=in_offset,
        likelihoods=eqx.combine(in_lik, fixed_lik),
        fixed=model.fixed,
        factorised=model.factorised,
    )
    pairs = pairs_of(model.prior, sites)
    natural = _natural_terms(q, columns.basis, g_mean, g_var, pairs, base)
    kl = kl_to_prior(q) if base is None else divergence(q, base)
    return (
        Terms(terms, kl, jnp.max(columns.jitter)),
        Gradients(eqx.filter(theta, trainable(model)), natural),
    )


def unwhitened_gradients(
    model: Model, q: Posterior, data: Dataset
) -> tuple[Terms, Gradients]:
    """`gradients` for a q(u) of the inducing values themselves, as in the paper.

    q(u) is held fixed, so a change of theta changes the whitened q too. With
    v = L^-1 u, the gradient of theta has a further part through (L^-1 m, L^-1 V L^-T),
    and the terms of q are those of v mapped back: dF/dm = L^-T dF/dm_v,
    target = L^-T target_v L^-1.
    """
    prior, fixed = eqx.partition(model.prior, eqx.is_inexact_array)
    moments, pull, factor = jax.vjp(
        lambda p: _whitened_moments(eqx.combine(p, fixed), q), prior, has_aux=True
    )
    precision = over_groups(lambda lo, p: lo.T @ p @ lo, factor, q.precision)
    whitened = from_precision(moments[0], precision)
    terms, grads = gradients(model, whitened, data)
    in_cov = 0.5 * (grads.q.target - whitened.precision)
    (through_q,) = pull((grads.q.gradient, in_cov))
    theta = eqx.tree_at(
        lambda m: m.prior,
        grads.theta,
        jax.tree.map(jnp.add, grads.theta.prior, through_q),
    )

    def one_group(lower: Array, gradient: Array, target: Array) -> NaturalTerms:
        inverse = inverse_lower(lower)
        return NaturalTerms(gradient @ inverse, inverse.T @ target @ inverse)

    natural = over_groups(one_group, factor, grads.q.gradient, grads.q.target)
    return terms, Gradients(theta, natural)


def _whitened_moments(
    prior: AbstractPrior, q: Posterior
) -> tuple[tuple[Array, Array], Array]:
    """L^-1 m and L^-1 V L^-T of each group, and L."""
    factor, _ = prior_factors(prior)

    def one_group(lower: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        half = solve_lower(lower, cov)
        return solve_lower(lower, mean[:, None])[:, 0], solve_lower(lower, half.T)

    return over_groups(one_group, factor, q.mean, q.cov()), factor


def _natural_terms(
    q: Posterior,
    basis: Float[Array, "G M C"],
    g_mean: Float[Array, "G C"],
    g_var: Float[Array, "G E"],
    pairs: Pairs,
    base: Posterior | None,
) -> NaturalTerms:
    """The terms of the data plus those of the base N(m_0, P_0^-1), P_0 (m - m_0) and
    P_0, which are m and I for p(u)."""

    def one_group(basis: Array, g_mean: Array, g_var: Array) -> NaturalTerms:
        size = basis.shape[1]
        target = 2.0 * (basis * g_var[None, :size]) @ basis.T
        if pairs.functions:
            left, right = pairs.sides(basis)
            between = (left * g_var[None, size:]) @ right.T
            target = target + between + between.T
        return NaturalTerms(basis @ g_mean, target)

    data = over_groups(one_group, basis, g_mean, g_var)
    if base is None:
        pull, precision = q.mean, jnp.eye(q.mean.shape[1], dtype=q.mean.dtype)
    else:
        precision = base.precision
        pull = jnp.einsum("gmk,gk->gm", precision, q.mean - base.mean)
    return NaturalTerms(data.gradient + pull, precision + data.target)


def _mix(
    prior: AbstractPrior, offset: Array, sites: Sites, mean: Array, var: Array
) -> tuple[SpanMoments, ...]:
    return tuple(
        (f_mean + pick(offset, span.functions)[:, None], f_var)
        for span, (f_mean, f_var) in zip(
            sites.spans, prior.mix(sites, mean, var), strict=True
        )
    )


def _sites(model: Model, data: Dataset) -> Sites:
    """The rows of each block, with the functions of its outputs."""
    return join([(block.x, model.joint_blocks(block.outputs)) for block in data])
