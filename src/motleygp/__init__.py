"""Heterogeneous multi-output Gaussian processes.

One joint model of several outputs of different types, with missing values, trained by
natural gradients. Importing this package switches JAX to 64-bit floats, because
covariance matrices need them, and lets JAX keep compiled programs in a folder of the
user's: see `use_program_cache`.
"""

import importlib
from typing import Any

import jax

from motleygp.numerics import program_cache

jax.config.update("jax_enable_x64", True)
program_cache.begin()

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
from motleygp.numerics.program_cache import use_program_cache as use_program_cache
from motleygp.prediction import Predictive as Predictive, metrics as metrics


def __getattr__(name: str) -> Any:
    """Import `motleygp.plotting` on first use: matplotlib takes a while to load."""
    if name == "plotting":
        return importlib.import_module("motleygp.plotting")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
