"""The bound and its gradients.

    ELBO = sum_d (N_d / B_d) sum_n E_q(f)[log p(y_dn | f)] - sum_g KL[q(u_g) || p(u_g)]

`gradients` makes all of them in one pass, without differentiating through q(u): with
g_m and g_v the derivatives of the likelihood terms in the mean and variance of f,

    dF/dm = sum_n B_n g_m,n + m,    2 dF/dV + V^-1 = I + 2 sum_n B_n g_v,n B_n^T

for F = -ELBO in the whitened variable, B the whitened projections, and theta's
gradient is the same (g_m, g_v) pulled back through the projections.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp._types import Moments, Scalar
from motleygp.data import Dataset
from motleygp.likelihoods import AbstractLikelihood
from motleygp.linalg import over_groups
from motleygp.model import Model, trainable
from motleygp.posterior import Columns, Posterior, kl_to_prior, project
from motleygp.priors import AbstractPrior


class Terms(NamedTuple):
    """The bound's parts: expected log likelihood per output, divergence per group."""

    expected_log_lik: Float[Array, " D"]
    kl: Float[Array, " G"]

    @property
    def elbo(self) -> Scalar:
        return jnp.sum(self.expected_log_lik) - jnp.sum(self.kl)


class NaturalTerms(NamedTuple):
    """What a natural-gradient step on q(u) needs, F being minus the bound.

    `gradient` is dF/dm. `target` is V^-1 + 2 dF/dV = I + 2 sum_n B_n g_v,n B_n^T: the
    precision at which dF/dV would vanish, so a step of length b moves the precision
    to (1 - b) V^-1 + b target.
    """

    gradient: Float[Array, "*G M"]
    target: Float[Array, "*G M M"]


class Gradients(NamedTuple):
    """Gradients of minus the bound, at one theta and one q(u)."""

    theta: Model
    q: NaturalTerms


def function_moments(model: Model, q: Posterior, x: Float[Array, "N P"]) -> Moments:
    """Mean and variance of every parameter function at x, offsets included."""
    columns = project(model.prior, q, x)
    return _mix(model.prior, model.offset, columns.mean, columns.var)


def elbo(model: Model, q: Posterior, data: Dataset) -> Terms:
    """The bound at theta and q(u), in its parts."""
    moments = function_moments(model, q, _all_rows(data))
    return Terms(expected_log_lik(model.likelihoods, moments, data), kl_to_prior(q))


def gradients(model: Model, q: Posterior, data: Dataset) -> tuple[Terms, Gradients]:
    """The bound's parts and the gradients of minus the bound."""
    x = _all_rows(data)

    def columns_of(prior: AbstractPrior) -> tuple[tuple[Array, Array], Columns]:
        columns = project(prior, q, x)
        return (columns.mean, columns.var), columns

    def loss(likelihoods, moments: Moments) -> tuple[Scalar, Array]:
        terms = expected_log_lik(likelihoods, moments, data)
        return -jnp.sum(terms), terms

    prior, fixed_prior = eqx.partition(model.prior, eqx.is_inexact_array)
    (mean, var), pull_project, columns = jax.vjp(
        lambda p: columns_of(eqx.combine(p, fixed_prior)), prior, has_aux=True
    )
    moments, pull_mix = jax.vjp(
        lambda p, *rest: _mix(eqx.combine(p, fixed_prior), *rest),
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
        fixed_offset=model.fixed_offset,
    )
    natural = _natural_terms(q, columns.basis, g_mean, g_var)
    return (
        Terms(terms, kl_to_prior(q)),
        Gradients(eqx.filter(theta, trainable(model)), natural),
    )


def _natural_terms(
    q: Posterior,
    basis: Float[Array, "G M C"],
    g_mean: Float[Array, "G C"],
    g_var: Float[Array, "G C"],
) -> NaturalTerms:
    def one_group(mean: Array, basis: Array, g_mean: Array, g_var: Array):
        eye = jnp.eye(mean.shape[0], dtype=mean.dtype)
        target = eye + 2.0 * (basis * g_var[None, :]) @ basis.T
        return NaturalTerms(basis @ g_mean + mean, target)

    return over_groups(one_group, q.mean, basis, g_mean, g_var)


def _mix(prior: AbstractPrior, offset: Array, mean: Array, var: Array) -> Moments:
    f_mean, f_var = prior.mix(mean, var)
    return f_mean + offset[:, None], f_var


def _all_rows(data: Dataset) -> Float[Array, "N P"]:
    """The rows of all blocks, one after the other: one projection serves them all."""
    return jnp.concatenate([block.x for block in data])


def expected_log_lik(
    likelihoods: tuple[AbstractLikelihood, ...], moments: Moments, data: Dataset
) -> Float[Array, " D"]:
    """Each output's scaled sum of E[log p(y | f)].

    Outputs of one type in one block go through one call, so that forty such outputs
    make no larger a program than one.
    """
    ends = np.cumsum([0] + [lik.num_functions for lik in likelihoods])
    values: dict[int, Array] = {}
    start = 0
    for block in data:
        rows = slice(start, start + block.x.shape[0])
        start = rows.stop
        for alike in _alike(likelihoods, block.outputs):
            places = [block.outputs.index(d) for d in alike]
            functions = np.stack([np.arange(ends[d], ends[d + 1]) for d in alike])
            stacked = jax.tree.map(
                lambda *leaves: jnp.stack(leaves), *[likelihoods[d] for d in alike]
            )
            mean, var = (m[:, rows][functions] for m in moments)
            terms = jax.vmap(lambda lik, y, m, v: lik.expected_log_prob(y, m, v))(
                stacked, block.y[np.asarray(places)], mean, var
            )
            sums = block.scale * jnp.sum(terms, axis=1)
            values |= dict(zip(alike, sums, strict=True))
    return jnp.stack([values[d] for d in range(len(likelihoods))])


def _alike(
    likelihoods: tuple[AbstractLikelihood, ...], outputs: tuple[int, ...]
) -> list[list[int]]:
    """The outputs gathered by type of likelihood and its settings."""
    kinds: dict[object, list[int]] = {}
    for d in outputs:
        kinds.setdefault(jax.tree.structure(likelihoods[d]), []).append(d)
    return list(kinds.values())
