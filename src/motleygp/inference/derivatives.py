"""The gradients of the bound, all in one pass, without differentiating through q(u).

With F = -ELBO in the whitened variable, B the whitened projections, and g_m and g_v the
derivatives of the likelihood terms in the mean and variance of f,

    dF/dm = sum_n B_n g_m,n + m,    2 dF/dV + V^-1 = I + 2 sum_n B_n g_v,n B_n^T.

The gradient of theta is the same (g_m, g_v) pulled back through the projections. The
functions of one output share u, so they are correlated under q(f); g_v includes the
derivatives in their covariances. Under a joint q(u), V has blocks V_gh, and

    2 dF/dV_gh = 2 sum_n B_gn [sum_jj' g_v,njj' w_jg w_j'h] B_hn^T + the KL's part.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from motleygp._types import Scalar, SpanMoments
from motleygp.inference.data import Dataset
from motleygp.inference.expected import expected_log_lik
from motleygp.inference.model import Model, trainable
from motleygp.inference.objective import Terms, mix, sites_of
from motleygp.inference.posterior import (
    NaturalTerms,
    Posterior,
    divergence,
    factors_of_parts,
    from_precision,
    kl_to_prior,
)
from motleygp.inference.projection import Columns, project, project_together
from motleygp.numerics.linalg import inverse_lower, over_groups, solve_lower
from motleygp.priors import AbstractPrior, Sites


class Gradients(NamedTuple):
    """Gradients of minus the bound, at one theta and one q(u)."""

    theta: Model
    q: NaturalTerms


def gradients(
    model: Model, q: Posterior, data: Dataset, base: Posterior | None = None
) -> tuple[Terms, Gradients]:
    """The bound's terms and the gradients of minus the bound.

    `base`, if given, takes the place of p(u): it is the q(u) of earlier rows that are
    not in `data`.
    """
    sites = sites_of(model, data)
    prior, fixed_prior = eqx.partition(model.prior, eqx.is_inexact_array)
    columns, pull_project = _projected(prior, fixed_prior, q, sites)
    moments, pull_mix = jax.vjp(
        lambda p, offset, *columns: mix(
            eqx.combine(p, fixed_prior), offset, sites, *columns
        ),
        prior,
        model.offset,
        columns.mean,
        columns.var,
    )
    likelihoods, fixed_lik = eqx.partition(model.likelihoods, eqx.is_inexact_array)

    def loss(likelihoods, moments: tuple[SpanMoments, ...]) -> tuple[Scalar, Array]:
        whole = eqx.combine(likelihoods, fixed_lik)
        terms = expected_log_lik(whole, moments, data)
        return -jnp.sum(terms), terms

    (in_lik, g), terms = jax.grad(loss, argnums=(0, 1), has_aux=True)(
        likelihoods, moments
    )
    in_mix, in_offset, g_mean, g_var = pull_mix(g)
    in_project, natural = pull_project(g_mean, g_var)
    theta = replace(
        model,
        prior=eqx.combine(jax.tree.map(jnp.add, in_mix, in_project), fixed_prior),
        offset=in_offset,
        likelihoods=eqx.combine(in_lik, fixed_lik),
    )
    kl = kl_to_prior(q) if base is None else divergence(q, base)
    return (
        Terms(terms, kl, jnp.max(columns.jitter)),
        Gradients(eqx.filter(theta, trainable(model)), _with_base(natural, q, base)),
    )


def _projected(
    prior: AbstractPrior, fixed: AbstractPrior, q: Posterior, sites: Sites
) -> tuple[Columns, Callable[[Array, Array], tuple[AbstractPrior, NaturalTerms]]]:
    """The columns at the sites, and the function that pulls derivatives in their means
    and variances back to theta and q."""
    joint = q.is_joint(prior)

    def columns_of(prior: AbstractPrior, mean: Array, cov: Array) -> tuple:
        prior = eqx.combine(prior, fixed)
        if joint:
            columns = project_together(prior, mean[0], cov[0], sites)
        else:
            columns = project(prior, replace(q, mean=mean), sites, change=cov)
        return (columns.mean, columns.var), columns

    # The change of an independent q's covariances, which is zero, or a joint q's own.
    cov = q.cov() if joint else jnp.zeros_like(q.half)
    _, pull, columns = jax.vjp(columns_of, prior, q.mean, cov, has_aux=True)

    def pull_back(g_mean: Array, g_var: Array) -> tuple[AbstractPrior, NaturalTerms]:
        in_prior, in_mean, in_cov = pull((g_mean, g_var))
        return in_prior, NaturalTerms(in_mean, 2.0 * in_cov)

    return columns, pull_back


def _with_base(
    data: NaturalTerms, q: Posterior, base: Posterior | None
) -> NaturalTerms:
    """The terms of the data plus those of the base N(m_0, P_0^-1), P_0 (m - m_0) and
    P_0, which are m and I for p(u)."""
    if base is None:
        pull, precision = q.mean, jnp.eye(q.mean.shape[1], dtype=q.mean.dtype)
    else:
        precision = base.precision
        pull = jnp.einsum("kst,kt->ks", precision, q.mean - base.mean)
    return NaturalTerms(data.gradient + pull, precision + data.target)


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

    def one_part(lower: Array, gradient: Array, target: Array) -> NaturalTerms:
        inverse = inverse_lower(lower)
        return NaturalTerms(gradient @ inverse, inverse.T @ target @ inverse)

    natural = over_groups(one_part, factor, grads.q.gradient, grads.q.target)
    return terms, Gradients(theta, natural)


def _whitened_moments(
    prior: AbstractPrior, q: Posterior
) -> tuple[tuple[Array, Array], Array]:
    """L^-1 m and L^-1 V L^-T of each part, and L."""
    factor = factors_of_parts(prior, len(q.mean))

    def one_part(lower: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        half = solve_lower(lower, cov)
        return solve_lower(lower, mean[:, None])[:, 0], solve_lower(lower, half.T)

    return over_groups(one_part, factor, q.mean, q.cov()), factor
