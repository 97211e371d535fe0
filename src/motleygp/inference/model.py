"""The model: a prior, offsets, and one likelihood per output."""

import dataclasses
import itertools as it
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from motleygp.likelihoods import AbstractLikelihood
from motleygp.named import Named
from motleygp.priors import AbstractPrior, Blocks, apart


class Model(Named):
    """p(y, f, u | theta), where theta is the model's floating-point arrays.

    Output d owns the functions `blocks[d]` among all J.

    **Arguments:**

    - `prior`: the joint Gaussian over the J parameter functions.
    - `offset`: the constant mean of each function.
    - `likelihoods`: one per output; their functions add up to J.
    - `fixed`: the names of parameters that are not learned, such as "lengthscale" or
      "offset": see `parameter_names`.
    - `factorised`: whether the objective and predictions ignore the covariances between
      the functions of an output, as in the paper. It is then no bound on the evidence.
    - `joint_q`: whether q(u) is joint over the groups of inducing values, or has an
      independent part for each.
    """

    kind: ClassVar[str] = "model"
    name: ClassVar[str] = "model"

    prior: AbstractPrior
    offset: Float[Array, " J"]
    likelihoods: tuple[AbstractLikelihood, ...]
    fixed: tuple[str, ...] = eqx.field(static=True, default=())
    factorised: bool = eqx.field(static=True, default=False)
    joint_q: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        total = sum(likelihood.num_functions for likelihood in self.likelihoods)
        found = (self.prior.num_functions, *jnp.shape(self.offset))
        if found != (total, total):
            raise ValueError(
                f"`prior` and `offset` must have {total} functions, as many as the "
                f"likelihoods; got {found[0]} and an offset of shape {found[1:]}."
            )
        self.prior.check_shapes()
        if self.joint_q and not self.prior.shares_inducing:
            raise ValueError(
                "`joint_q` must be False for a prior whose functions have inducing "
                f"values of their own; got True for {self.prior.name}."
            )

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """The parameter functions of each output, by their index among all J."""
        ends = it.accumulate((p.num_functions for p in self.likelihoods), initial=0)
        return tuple(tuple(range(a, b)) for a, b in it.pairwise(ends))

    def joint_blocks(self, outputs: Sequence[int] | None = None) -> Blocks:
        """The functions of some outputs, by default of all, in blocks within which
        covariances count."""
        every = range(len(self.likelihoods)) if outputs is None else outputs
        blocks = tuple(self.blocks[d] for d in every)
        return apart(it.chain.from_iterable(blocks)) if self.factorised else blocks


# The entry of `fixed` that stands for all parameters.
_EVERYTHING = "everything"


def _owners(model: Model) -> Sequence[Named]:
    """The parts of the model that have their own parameters."""
    return (model.prior, model.prior.kernel, *model.likelihoods)


def parameter_names(model: Model) -> tuple[str, ...]:
    """The names of all parameters in theta, any of which may be `fixed`."""
    own = it.chain.from_iterable(owner.parts for owner in _owners(model))
    return tuple(dict.fromkeys([*own, "offset"]))


def _holders(model: Any, name: str) -> list[Any]:
    """The arrays that hold the parameter of this name."""
    if name == "offset":
        return [model.offset]
    owners = _owners(model)
    return [getattr(own, own.parts[name]) for own in owners if name in own.parts]


def trainable(model: Model) -> PyTree:
    """A filter for `eqx.partition`: True at the leaves of theta that may move."""
    moving = eqx.tree_at(
        lambda m: m.likelihoods,
        jax.tree.map(eqx.is_inexact_array, model),
        tuple(likelihood.trainable() for likelihood in model.likelihoods),
    )
    if _EVERYTHING in model.fixed:
        return jax.tree.map(lambda _: False, moving)
    for name in model.fixed:
        still = [False] * len(_holders(moving, name))
        if still:
            moving = eqx.tree_at(lambda m, n=name: _holders(m, n), moving, still)
    return moving


def with_fixed(model: Model, names: Collection[str]) -> Model:
    """The same model, with the parameters of these names not learned."""
    known = parameter_names(model)
    kept = tuple(name for name in known if name in names)
    return dataclasses.replace(model, fixed=kept)


def all_fixed(model: Model) -> Model:
    """The same model with all parameters fixed, so that only q(u) is learned."""
    return dataclasses.replace(model, fixed=(_EVERYTHING,))
