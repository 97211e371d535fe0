"""What inference asks of a prior."""

import abc
from collections.abc import Mapping

import equinox as eqx
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from motleygp._types import Moments


class Covariances(eqx.Module):
    """The three covariances of one group: its inducing values u and C columns g.

    A column is a value that the group contributes to parameter functions: for the
    linear model of coregionalisation, its latent process at one input.
    """

    uu: Float[Array, "M M"]
    ug: Float[Array, "M C"]
    gg: Float[Array, " C"]


class AbstractPrior(eqx.Module):
    """A joint Gaussian over the parameter functions f_1..f_J and G groups of
    inducing values, independent of one another.

    `groups` and `covariances` say how each group's columns covary with its inducing
    values; `mix` says how the columns of all groups make the functions. The posterior,
    the bound, its gradients and the predictions need nothing else.
    """

    inducing: eqx.AbstractVar[Float[Array, "G M P"]]
    jitter: eqx.AbstractVar[float]

    @abc.abstractmethod
    def groups(self) -> PyTree:
        """What `covariances` needs of each group, stacked over the groups."""

    @abc.abstractmethod
    def covariances(self, group: PyTree, x: Float[Array, "N P"]) -> Covariances:
        """The covariances of one group, an entry of `groups`, at the inputs x."""

    @abc.abstractmethod
    def parameters(self) -> dict[str, Array]:
        """The prior's numbers by name, constrained."""

    @abc.abstractmethod
    def with_parameters(self, values: Mapping[str, ArrayLike]) -> "AbstractPrior":
        """The same prior with all of its `parameters` replaced."""

    @abc.abstractmethod
    def mix(self, mean: Float[Array, "G C"], var: Float[Array, "G C"]) -> Moments:
        """Moments of the J functions from those of the groups' columns."""
