"""The likelihood terms of all outputs, those of one kind at a time."""

import functools as ft
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from motleygp_reproduce.authors.likelihoods import KINDS, Kind
from motleygp_reproduce.authors.preparation import Batch, Outputs


class Group(NamedTuple):
    """The outputs of one kind: K of them, each of L functions."""

    kind: Kind
    places: Int[np.ndarray, " K"]
    functions: Int[np.ndarray, "L K"]
    sigma: Float[np.ndarray, "K 1"]


@ft.cache
def groups(outputs: Outputs) -> tuple[Group, ...]:
    """The outputs by kind, and the places of their functions among all J."""
    starts = np.cumsum((0, *outputs.counts))
    found = []
    for name in dict.fromkeys(outputs.kinds):
        places = np.flatnonzero([kind == name for kind in outputs.kinds])
        offsets = np.arange(outputs.counts[places[0]])
        sigma = np.array(outputs.sigmas)[places, None]
        functions = starts[places] + offsets[:, None]
        found.append(Group(KINDS[name], places, functions, sigma))
    return tuple(found)


def _terms(
    outputs: Outputs, mean: Float[Array, "J N"], var: Float[Array, "J N"]
) -> Iterator[tuple[Group, Array, Array, Array]]:
    """Each group with the means and variances of its functions, and its noises."""
    for group in groups(outputs):
        sigma = jnp.broadcast_to(group.sigma, mean[group.functions[0]].shape)
        yield group, mean[group.functions], var[group.functions], sigma


def expected(
    outputs: Outputs,
    batch: Batch,
    mean: Float[Array, "J B"],
    var: Float[Array, "J B"],
) -> Float[Array, ""]:
    """sum_d N_d / B_d sum_n E[log p(y_dn | f)]."""
    total = jnp.zeros(())
    for group, m, v, sigma in _terms(outputs, mean, var):
        values = group.kind.value(batch.y[group.places], m, v, sigma)
        weight = batch.weight[group.places]
        total += jnp.sum(jnp.where(weight > 0.0, weight * values, 0.0))
    return total


def slopes(
    outputs: Outputs,
    batch: Batch,
    mean: Float[Array, "J B"],
    var: Float[Array, "J B"],
) -> tuple[Float[Array, "J B"], Float[Array, "J B"]]:
    """What the code takes for the derivatives of `expected` in the means and in the
    variances."""
    in_mean, in_var = jnp.zeros_like(mean), jnp.zeros_like(var)
    for group, m, v, sigma in _terms(outputs, mean, var):
        found = group.kind.slopes(batch.y[group.places], m, v, sigma)
        weight = batch.weight[group.places]
        first, second = (jnp.where(weight > 0.0, weight * s, 0.0) for s in found)
        in_mean = in_mean.at[group.functions].set(first)
        in_var = in_var.at[group.functions].set(second)
    return in_mean, in_var
