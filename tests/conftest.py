"""Settings of the whole test suite."""

import importlib
import itertools as it
import os
from pathlib import Path

import jax
import numpy as np
import pytest

# Importing the library switches JAX to float64 before any test makes an array.
from motleygp import named
from motleygp.estimator import estimator


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
    before = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1"
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def experiments():
    """A function that imports a script of the folder of experiments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "experiments")
        # Scripts set this variable where it is not set: only until the tests end.
        patch.setenv("NPROC", os.environ.get("NPROC", "1"))
        yield importlib.import_module


class EnoughError(Exception):
    """Ends a fit where its training would begin."""


@pytest.fixture
def the_task_of(monkeypatch):
    """A function that gives the task which an estimator would run."""

    def stop(task, *_, **__):
        raise EnoughError(task)

    monkeypatch.setattr(estimator, "run_all", stop)

    def found(model, X, Y, **arguments):
        with pytest.raises(EnoughError) as caught:
            model.fit(X, Y, **arguments)
        return caught.value.args[0]

    return found


@pytest.fixture
def training_data(the_task_of):
    """A function that gives the data on which an estimator would train."""
    return lambda *args, **arguments: the_task_of(*args, **arguments).data


@pytest.fixture(autouse=True, scope="module")
def own_names(request):
    """A module knows the library's classes by name and those it defines or imports.

    Others define classes too, which would claim outputs and take names here.
    """
    before = {kind: dict(classes) for kind, classes in named._KNOWN.items()}
    own = {id(value) for value in vars(request.module).values()}
    for classes in named._KNOWN.values():
        for name, cls in list(classes.items()):
            if not cls.__module__.startswith("motleygp") and id(cls) not in own:
                del classes[name]
    yield
    for kind, classes in named._KNOWN.items():
        classes.clear()
        classes.update(before.get(kind, {}))
