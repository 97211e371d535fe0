"""The model: a prior, offsets, and one likelihood per output."""

import itertools as it
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from motleygp.likelihoods import AbstractLikelihood
from motleygp.priors import AbstractPrior


class Model(eqx.Module):
    """p(y, f, u | theta). Its inexact arrays are theta, but for those held fixed.

    Output d owns the functions `blocks[d]` among all J; `offset` is the constant mean
    of each function; `fixed` has the names in `FIXABLE` that are not learned.
    """

    prior: AbstractPrior
    offset: Float[Array, " J"]
    likelihoods: tuple[AbstractLikelihood, ...]
    fixed: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """The parameter functions of each output, by their place among all J."""
        ends = it.accumulate((p.num_functions for p in self.likelihoods), initial=0)
        return tuple(tuple(range(a, b)) for a, b in it.pairwise(ends))


# The parts of theta that can be held fixed, by the names that users know them by.
_PARTS: dict[str, Callable[[Any], Any]] = {
    "inducing": lambda m: m.prior.inducing,
    "lengthscale": lambda m: m.prior.kernel,
    "weights": lambda m: m.prior.weights,
    "smoothing": lambda m: m.prior.log_smoothing,
    "offset": lambda m: m.offset,
    "noise": lambda m: m.likelihoods,
}
FIXABLE = tuple(_PARTS)


def trainable(model: Model) -> PyTree:
    """A filter for `eqx.partition`: True at the leaves of theta that may move."""
    moving = eqx.tree_at(
        lambda m: m.likelihoods,
        jax.tree.map(eqx.is_inexact_array, model),
        tuple(likelihood.trainable() for likelihood in model.likelihoods),
    )
    for name in model.fixed:
        still = jax.tree.map(lambda _: False, _PARTS[name](moving))
        moving = eqx.tree_at(_PARTS[name], moving, still)
    return moving


def all_fixed(model: Model) -> Model:
    """The same model with nothing left to learn but q(u)."""
    there = {*model.prior.parameters(), "offset", "noise"}
    names = tuple(name for name in FIXABLE if name in there)
    return Model(model.prior, model.offset, model.likelihoods, fixed=names)
