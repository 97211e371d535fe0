"""The interface of a kernel."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from motleygp.named import Named

KernelT = TypeVar("KernelT", bound="AbstractKernel")


class AbstractKernel(Named):
    """k(x, x') of one latent process, or of a stack of them.

    A kernel is plain data. Its arrays may have a leading axis with one entry per latent
    process; `take` selects from it, and `__call__` and `diagonal` take one process.

    A new kernel has a `name` and defines `__call__`, `diagonal`, `lengthscale` and
    `with_lengthscale`. Its constructor takes the length-scales; otherwise it overrides
    `start`. Every parameter is listed in `parts`, and parameters beyond the
    length-scales in `parameters` and `with_parameters` too.
    """

    kind: ClassVar[str] = "kernel"
    distances: ClassVar[tuple[str, ...]] = ("lengthscale",)
    """Its parameters that are distances between inputs, and so positive; their last
    axis runs over the inputs."""

    @abc.abstractmethod
    def __call__(
        self, x: Float[Array, "N P"], z: Float[Array, "M P"]
    ) -> Float[Array, "N M"]:
        """The matrix of k(x_n, z_m)."""

    @abc.abstractmethod
    def diagonal(self, x: Float[Array, "N P"]) -> Float[Array, " N"]:
        """k(x_n, x_n)."""

    @property
    @abc.abstractmethod
    def lengthscale(self) -> Float[Array, "*Q P"]:
        """The distance along each input over which the process decorrelates."""

    @abc.abstractmethod
    def with_lengthscale(self, lengthscale: ArrayLike) -> "AbstractKernel":
        """The same kernel with new length-scales."""

    @classmethod
    def start(cls, lengthscale: Float[np.ndarray, "Q P"]) -> "AbstractKernel":
        """The kernel at the start of training, with these length-scales."""
        make: Any = cls
        return make(lengthscale)

    def parameters(self) -> dict[str, Array]:
        """The kernel's parameters by name, constrained."""
        return {"lengthscale": self.lengthscale}

    def with_parameters(self, values: Mapping[str, ArrayLike]) -> "AbstractKernel":
        """The same kernel with all of its `parameters` replaced."""
        return self.with_lengthscale(values["lengthscale"])

    def take(self: KernelT, index: Sequence[int]) -> KernelT:
        """The stack of the processes in `index`, which may repeat."""
        rows = np.asarray(index)
        return jax.tree.map(lambda leaf: leaf[rows], self)
