"""The bound and its gradients.

    ELBO = sum_d (N_d / B_d) sum_n E_q(f)[log p(y_dn | f)] - sum_g KL[q(u_g) || p(u_g)]

`gradients` makes all of them in one pass, without differentiating through q(u): with
g_m and g_v the derivatives of the likelihood terms in the mean and variance of f,

    dF/dm = sum_n B_n g_m,n + m,    2 dF/dV + V^-1 = I + 2 sum_n B_n g_v,n B_n^T

for F = -ELBO in the whitened variable, B the whitened projections, and theta's
gradient is the same (g_m, g_v) pulled back through the projections.
"""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp._types import Moments, Scalar
from motleygp.data import Block, Dataset
from motleygp.likelihoods import AbstractLikelihood
from motleygp.linalg import inverse_lower, over_groups, solve_lower
from motleygp.model import Model, trainable
from motleygp.posterior import (
    Columns,
    Posterior,
    from_precision,
    kl_to_prior,
    prior_factors,
    project,
)
from motleygp.priors import AbstractPrior

# Rows per evaluation of a bound on all of the data.
_ROWS = 8192


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


def full_elbo(model: Model, q: Posterior, data: Dataset) -> float:
    """The bound on all of the data, some rows at a time to bound the memory."""
    total = -float(jnp.sum(_kl_to_prior(q)))
    for part in _parts(data):
        total += float(jnp.sum(_data_terms(model, q, part)))
    return total


def held_out_nlpd(model: Model, q: Posterior, data: Dataset) -> Float[Array, " D"]:
    """Minus the mean log predictive density of each output."""
    sums = jnp.zeros(len(model.likelihoods))
    for part in _parts(data):
        sums = sums - _log_predictives(model, q, part)
    counts = {d: block.total for block in data for d in block.outputs}
    return sums / jnp.asarray([counts[d] for d in range(len(model.likelihoods))])


def _parts(data: Dataset) -> Iterator[Dataset]:
    """The blocks, cut into pieces that stand for themselves alone."""
    for block in data:
        for start in range(0, block.total, _ROWS):
            rows = slice(start, start + _ROWS)
            x = block.x[rows]
            yield (Block(x, block.y[:, rows], block.outputs, len(x)),)


@eqx.filter_jit
def _data_terms(model: Model, q: Posterior, data: Dataset) -> Float[Array, " D"]:
    moments = function_moments(model, q, _all_rows(data))
    return expected_log_lik(model.likelihoods, moments, data)


@eqx.filter_jit
def _log_predictives(model: Model, q: Posterior, data: Dataset) -> Float[Array, " D"]:
    """Sums of log predictive densities of the outputs of one block, zero elsewhere."""
    (block,) = data
    mean, var = function_moments(model, q, block.x)
    sums = jnp.zeros(len(model.likelihoods))
    for d, y in zip(block.outputs, block.y, strict=True):
        own = np.asarray(model.blocks[d])
        log_prob = model.likelihoods[d].log_predictive(y, mean[own], var[own])
        sums = sums.at[d].set(jnp.sum(log_prob))
    return sums


_kl_to_prior = eqx.filter_jit(kl_to_prior)


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


def unwhitened_gradients(
    model: Model, q: Posterior, data: Dataset
) -> tuple[Terms, Gradients]:
    """The same for a q(u) of the inducing values themselves, held fixed, as the paper
    holds it: a change of theta then changes the whitened q as well.

    With v = L^-1 u, theta's gradient has the further part that comes through
    (L^-1 m, L^-1 V L^-T), and q's terms are those of v mapped back:
    dF/dm = L^-T dF/dm_v, target = L^-T target_v L^-1.
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
    """Each output's scaled sum of E[log p(y | f)], zero for those not in `data`.

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
    none = jnp.zeros(())
    return jnp.stack([values.get(d, none) for d in range(len(likelihoods))])


def _alike(
    likelihoods: tuple[AbstractLikelihood, ...], outputs: tuple[int, ...]
) -> list[list[int]]:
    """The outputs gathered by type of likelihood and its settings."""
    kinds: dict[object, list[int]] = {}
    for d in outputs:
        kinds.setdefault(jax.tree.structure(likelihoods[d]), []).append(d)
    return list(kinds.values())
