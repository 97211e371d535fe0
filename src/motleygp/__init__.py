"""Heterogeneous multi-output Gaussian processes.

One joint model of several outputs of different types, with missing values, trained by
natural gradients. Importing this package switches JAX to 64-bit floats: covariance
matrices need them.
"""

import importlib
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

from motleygp import (
    core as core,
    datasets as datasets,
    kernels as kernels,
    likelihoods as likelihoods,
    optim as optim,
    priors as priors,
)
from motleygp._version import __version__ as __version__
from motleygp.estimator import MotleyGP as MotleyGP, load as load
from motleygp.files.modelfile import ModelFileError as ModelFileError
from motleygp.prediction import Predictive as Predictive, metrics as metrics


def __getattr__(name: str) -> Any:
    """Import `motleygp.plotting` on first use: matplotlib takes a while to load."""
    if name == "plotting":
        return importlib.import_module("motleygp.plotting")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
