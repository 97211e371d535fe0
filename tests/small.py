"""A small fit that compiles quickly, for the tests of training itself."""

import functools as ft

import jax.random as jr
import numpy as np

from motleygp import optim
from motleygp.inference.data import Dataset, make_dataset
from motleygp.likelihoods import Bernoulli, Gaussian
from motleygp.training import TrainState, data_driven_start, init, restarts

BATCH_SIZE = 30
SCHEME = optim.fng()
SETTINGS = dict(num_latents=1, rank=(1,), num_inducing=6)
# The arguments of an estimator that hardly trains.
ESTIMATOR = dict(
    num_latents=1,
    num_inducing=4,
    max_iter=2,
    batch_size=8,
    random_state=0,
    progress=False,
)


def task() -> restarts.Task:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(70, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=70)
    likelihoods = (Gaussian(), Bernoulli())
    data = make_dataset([x, x], [y, (y > 0).astype(float)], likelihoods)
    return restarts.Task(
        data=data,
        held_out=None,
        likelihoods=likelihoods,
        start=ft.partial(data_driven_start, **SETTINGS),
        scheme=SCHEME,
        batch_size=BATCH_SIZE,
        num_steps=40,
    )


def build() -> tuple[TrainState, Dataset]:
    """The state before the first step, and the data, for `SCHEME` and `BATCH_SIZE`."""
    given = task()
    rng = np.random.default_rng(0)
    model, _ = given.start(rng, given.data, given.likelihoods)
    return init(jr.key(0), model, SCHEME, num_steps=10_000), given.data
