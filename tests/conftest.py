"""Settings of the whole test suite."""

import itertools as it

import jax
import numpy as np
import pytest

import motleygp  # noqa: F401  (switches JAX to float64 before any test makes an array)


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(0)


@pytest.fixture
def getkey():
    """A fresh key at every call, the same ones in every run."""
    counter = it.count()
    return lambda: jax.random.fold_in(jax.random.key(0), next(counter))


@pytest.fixture(scope="module")
def quick_compilation():
    """For modules whose time goes to compiling programs that run a few times."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
