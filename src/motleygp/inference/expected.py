"""Expected log likelihoods and log predictive densities of data, from the moments of
the parameter functions."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp._types import SpanMoments
from motleygp.inference.data import Block, Dataset
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.packed import rows_of_blocks


def expected_log_lik(
    likelihoods: tuple[AbstractLikelihood, ...],
    moments: tuple[SpanMoments, ...],
    data: Dataset,
) -> Float[Array, " D"]:
    """Each output's scaled sum of E[log p(y | f)], zero for outputs not in `data`.

    `moments` has the moments of each block's functions, in the order of its outputs.
    Outputs of one type in one block share one call, so that the program for forty of
    them is no larger than for one.
    """
    values: dict[int, Array] = {}
    for block, own in zip(data, moments, strict=True):
        sizes = [likelihoods[d].num_functions for d in block.outputs]
        rows = rows_of_blocks(sizes, len(own[1]))
        for alike in _alike(likelihoods, block.outputs):
            where = np.array([block.outputs.index(d) for d in alike])
            packed = np.stack([rows[place] for place in where])
            first = packed[:, : sizes[where[0]]]
            mean = _exposed(block, _taken(own[0], first), where)
            terms = _expected_log_prob(
                [likelihoods[d] for d in alike],
                _taken(block.y, where),
                mean,
                _taken(own[1], packed),
            )
            sums = block.scale * jnp.sum(_weighted(block, terms, where), axis=1)
            values |= dict(zip(alike, sums, strict=True))
    none = jnp.zeros(())
    return jnp.stack([values.get(d, none) for d in range(len(likelihoods))])


def _taken(array: Array, places: np.ndarray) -> Array:
    """`array[places]`, as a slice if the places are consecutive."""
    flat = places.ravel()
    if len(flat) == 1 or (np.diff(flat) == 1).all():
        return array[flat[0] : flat[-1] + 1].reshape(*places.shape, -1)
    return array[places]


def _expected_log_prob(
    alike: Sequence[AbstractLikelihood],
    y: Float[Array, "K N"],
    mean: Float[Array, "K L N"],
    var: Float[Array, "K V N"],
) -> Float[Array, "K N"]:
    """The terms of outputs of one type."""
    if len(alike) == 1:  # tracing takes half the time without vmap
        return alike[0].expected_log_prob(y[0], mean[0], var[0])[None]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alike)
    each = jax.vmap(lambda lik, y, m, v: lik.expected_log_prob(y, m, v))
    return each(stacked, y, mean, var)


def _alike(
    likelihoods: tuple[AbstractLikelihood, ...], outputs: tuple[int, ...]
) -> list[list[int]]:
    """The outputs grouped by the type and settings of their likelihoods."""
    kinds: dict[object, list[int]] = {}
    for d in outputs:
        kinds.setdefault(jax.tree.structure(likelihoods[d]), []).append(d)
    return list(kinds.values())


def log_predictives(
    likelihoods: tuple[AbstractLikelihood, ...],
    moments: tuple[tuple[np.ndarray, np.ndarray], ...],
    data: Dataset,
) -> Float[np.ndarray, " D"]:
    """Sums of log predictive densities, zero for outputs not in `data`, in NumPy."""
    sums = np.zeros(len(likelihoods))
    for block, (mean, var) in zip(data, moments, strict=True):
        sizes = [likelihoods[d].num_functions for d in block.outputs]
        rows = rows_of_blocks(sizes, len(var))
        for place, d in enumerate(block.outputs):
            own = mean[rows[place][: sizes[place]]]  # a copy
            if block.log_exposure is not None:
                own[0] += np.asarray(block.log_exposure[place])
            y = np.asarray(block.y[place])
            log_prob = likelihoods[d].log_predictive(y, own, var[rows[place]])
            sums[d] = np.sum(np.asarray(_weighted(block, log_prob, place)))
    return sums


def _exposed(block: Block, mean: Array, places: Any) -> Array:
    """The means of some outputs' functions, (..., L, N), log exposure included.

    It is added to the first function, the log rate; it is 0 for outputs that are not
    counts.
    """
    if block.log_exposure is None:
        return mean
    return mean.at[..., 0, :].add(block.log_exposure[places])


def _weighted(block: Block, terms: Any, places: Any) -> Any:
    """Terms of some outputs, (..., N), times their weights."""
    return terms if block.weight is None else terms * block.weight[places]
