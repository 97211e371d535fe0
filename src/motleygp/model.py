"""The model: a prior, offsets, and one likelihood per output."""

import itertools as it

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from motleygp.likelihoods import AbstractLikelihood
from motleygp.priors import AbstractPrior


class Model(eqx.Module):
    """p(y, f, u | theta). Its inexact arrays are theta, but for those held fixed.

    Output d owns the functions `blocks[d]` among all J; `offset` is the constant mean
    of each function, learned unless `fixed_offset`.
    """

    prior: AbstractPrior
    offset: Float[Array, " J"]
    likelihoods: tuple[AbstractLikelihood, ...]
    fixed_offset: bool = eqx.field(static=True, default=False)

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """The parameter functions of each output, by their place among all J."""
        ends = it.accumulate((p.num_functions for p in self.likelihoods), initial=0)
        return tuple(tuple(range(a, b)) for a, b in it.pairwise(ends))


def trainable(model: Model) -> PyTree:
    """A filter for `eqx.partition`: True at the leaves of theta that may move."""
    everything = jax.tree.map(eqx.is_inexact_array, model)
    return eqx.tree_at(
        lambda m: (m.offset, m.likelihoods),
        everything,
        (
            not model.fixed_offset,
            tuple(likelihood.trainable() for likelihood in model.likelihoods),
        ),
    )
