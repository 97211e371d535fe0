"""The bound.

    ELBO = sum_d (N_d / B_d) sum_n E_q(f)[log p(y_dn | f)] - sum_k KL[q(u_k) || p(u_k)]

with the sum over the parts k of q(u): its groups, or all of them together.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from motleygp._types import Moments, Scalar, SpanMoments
from motleygp.inference.data import Block, Dataset
from motleygp.inference.expected import expected_log_lik, log_predictives
from motleygp.inference.model import Model
from motleygp.inference.posterior import Posterior, kl_to_prior
from motleygp.inference.projection import project
from motleygp.numerics.chunks import some_places
from motleygp.numerics.compiled import compiled
from motleygp.priors import AbstractPrior, Blocks, Sites, join, pick

# Columns of a group per evaluation, when the bound is on all of the data.
_COLUMNS = 8192
# Up to so many rows, the terms take less time than the optimisation of their program.
_FEW_ROWS = 10_000


class Terms(NamedTuple):
    """The bound's terms: expected log likelihood per output, divergence per part of q;
    and the largest jitter of a group, relative to the diagonal of its K_uu."""

    expected_log_lik: Float[Array, " D"]
    kl: Float[Array, " K"]
    jitter: Scalar

    @property
    def elbo(self) -> Scalar:
        return jnp.sum(self.expected_log_lik) - jnp.sum(self.kl)


def function_moments(
    model: Model, q: Posterior, x: Float[Array, "N P"], blocks: Blocks | None = None
) -> Moments:
    """Mean of every parameter function at x, offsets included; and the variances, with
    the covariances within each of the `blocks` after them unless the functions are
    independent: see `numerics.packed`. A block holds the functions of an output, by
    default."""
    every = model.joint_blocks() if blocks is None else blocks
    (moments,) = _moments(model, q, join([(x, every)]))
    return moments


def elbo(model: Model, q: Posterior, data: Dataset) -> Terms:
    """The bound at theta and q(u), in its parts."""
    sites = sites_of(model, data)
    columns = project(model.prior, q, sites)
    moments = mix(model.prior, model.offset, sites, columns.mean, columns.var)
    terms = expected_log_lik(model.likelihoods, moments, data)
    return Terms(terms, kl_to_prior(q), jnp.max(columns.jitter))


def _moments(model: Model, q: Posterior, sites: Sites) -> tuple[SpanMoments, ...]:
    columns = project(model.prior, q, sites)
    return mix(model.prior, model.offset, sites, columns.mean, columns.var)


def full_elbo(
    model: Model, q: Posterior, data: Dataset, *, most: int | None = None
) -> float:
    """The bound on all of the data, some rows at a time to limit the memory.

    `most` rows of each block, drawn at random, estimate it if there are more.
    """
    program = _data_terms_and_kl.for_rows(_num_rows(data), _FEW_ROWS)
    parts = [program(model, q, part) for part in _parts(model.prior, q, data, most)]
    return sum(float(terms) for terms, _ in parts) - float(parts[0][1])


def held_out_nlpd(model: Model, q: Posterior, data: Dataset) -> Float[np.ndarray, " D"]:
    """Minus the mean log predictive density of each output."""
    sums, program = 0.0, _moments_at.for_rows(_num_rows(data), _FEW_ROWS)
    for part in _parts(model.prior, q, data):
        moments = jax.tree.map(np.asarray, program(model, q, part))
        sums = sums - log_predictives(model.likelihoods, moments, part)
    return sums / _total_weights(data)


def _num_rows(data: Dataset) -> int:
    return sum(block.total for block in data)


def _total_weights(data: Dataset) -> Float[np.ndarray, " D"]:
    """The number of observed values of each output, or the sum of their weights."""
    totals = {
        d: float(block.total)
        if block.weight is None
        else max(np.sum(np.asarray(block.weight)[place]), np.finfo(float).tiny)
        for block in data
        for place, d in enumerate(block.outputs)
    }
    return np.array([totals[d] for d in range(len(totals))])


def _parts(
    prior: AbstractPrior, q: Posterior, data: Dataset, most: int | None = None
) -> Iterator[Dataset]:
    """Rows of every block at a time, at most `most` in all, which stand for all rows.

    All parts have one shape, so that one program serves them: rows beyond the end of a
    block have a weight of 0.
    """
    # Under a joint q, each column meets all groups.
    each = prior.columns_per_row * (len(prior.inducing) if q.is_joint(prior) else 1)
    wanted = [some_places(block.total, most or block.total) for block in data]
    longest = max(len(rows) for rows in wanted)
    num_parts = -(-longest * len(data) * each // _COLUMNS)
    size = -(-longest // num_parts)
    if num_parts == 1 and all(block.total == size for block in data):
        yield data
        return
    for start in range(0, longest, size):
        pairs = zip(data, wanted, strict=True)
        yield tuple(_part(block, rows, start, size) for block, rows in pairs)


def _part(block: Block, rows: Int[np.ndarray, " N"], start: int, size: int) -> Block:
    """`size` of these rows of a block, from the one at `start` on."""
    places = start + np.arange(size)
    part = block.part(rows[np.minimum(places, len(rows) - 1)])
    weight = np.where(places < len(rows), block.total / len(rows), 0.0)
    own = np.ones(part.y.shape) if part.weight is None else part.weight
    return replace(part, weight=jnp.asarray(own * weight))


@compiled
def _data_terms_and_kl(
    model: Model, q: Posterior, data: Dataset
) -> tuple[Scalar, Scalar]:
    """The sums over the outputs and over the parts of q."""
    moments = _moments(model, q, sites_of(model, data))
    terms = expected_log_lik(model.likelihoods, moments, data)
    return jnp.sum(terms), jnp.sum(kl_to_prior(q))


@compiled
def _moments_at(model: Model, q: Posterior, data: Dataset) -> tuple[SpanMoments, ...]:
    return _moments(model, q, sites_of(model, data))


def mix(
    prior: AbstractPrior, offset: Array, sites: Sites, mean: Array, var: Array
) -> tuple[SpanMoments, ...]:
    """The moments of each span's functions, offsets included, from the columns'."""
    return tuple(
        (f_mean + pick(offset, span.functions)[:, None], f_var)
        for span, (f_mean, f_var) in zip(
            sites.spans, prior.mix(sites, mean, var), strict=True
        )
    )


def sites_of(model: Model, data: Dataset) -> Sites:
    """The rows of each block, with the functions of its outputs."""
    return join([(block.x, model.joint_blocks(block.outputs)) for block in data])
