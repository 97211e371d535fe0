"""Kernels of the distance in units of the length-scales."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from motleygp.kernels._base import AbstractKernel


class AbstractStationary(AbstractKernel):
    """A kernel of unit variance with one length-scale per input.

    A new one has a `name` and defines `__call__` from `self.lengthscale`. Training
    moves the logarithms of the length-scales.
    """

    parts: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"lengthscale": "log_lengthscale"}
    )

    log_lengthscale: Float[Array, "*Q P"]

    def __init__(self, lengthscale: ArrayLike):
        self.log_lengthscale = _log(lengthscale)

    @property
    def lengthscale(self) -> Float[Array, "*Q P"]:
        return jnp.exp(self.log_lengthscale)

    def with_lengthscale(self, lengthscale: ArrayLike) -> "AbstractStationary":
        return eqx.tree_at(lambda k: k.log_lengthscale, self, _log(lengthscale))

    def diagonal(self, x: Float[Array, "N P"]) -> Float[Array, " N"]:
        return jnp.ones(x.shape[:1])


def _log(lengthscale: ArrayLike) -> Float[Array, "*Q P"]:
    # In NumPy where nothing is traced: an operation of JAX alone compiles a program.
    library = jnp if isinstance(lengthscale, jax.Array) else np
    rows = library.atleast_1d(library.asarray(lengthscale, dtype=float))
    return jnp.asarray(library.log(rows))
