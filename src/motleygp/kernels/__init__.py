"""Kernels k(x, x') of the latent processes."""

from collections.abc import Mapping

from motleygp.kernels._base import AbstractKernel as AbstractKernel
from motleygp.kernels._eq import (
    EQ as EQ,
    LOG_2PI as LOG_2PI,
    eq_mixture as eq_mixture,
    eq_values as eq_values,
    squared_distance as squared_distance,
)
from motleygp.kernels._stationary import AbstractStationary as AbstractStationary
from motleygp.named import known

BY_NAME: Mapping[str, type[AbstractKernel]] = known("kernel")
