"""The real training step, for the thread tests: prints the bound it reaches.

    python tests/real_step.py STEPS lmc|function|latent

Two blocks of data and several groups put several factorisations in flight.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from motleygp import datasets, optim, priors
from motleygp.inference.data import Dataset, make_dataset
from motleygp.training import loop, step as training
from motleygp.training.initialise import initial_model

BATCH_SIZE = 32
SCHEME = optim.fng()


FORMS = {
    "lmc": priors.LMC,
    "function": priors.Convolution,
    "latent": priors.LatentConvolution,
}


def build(form: str) -> tuple[training.TrainState, Dataset, training.Step]:
    """A small mixed problem, its state and its step."""
    problem = datasets.load("t2")
    # Of the likelihoods, those that compile quickly: they factorise nothing.
    kept = [0, 2, 4]
    likelihoods = tuple(problem.likelihoods[d] for d in kept)
    xs = [problem.x_train[:300]] * 2 + [problem.x_train[100:400]]
    ys = [*problem.y_train[:300, kept[:2]].T, problem.y_train[100:400, kept[2]]]
    data = make_dataset(xs, ys, likelihoods)
    model = initial_model(
        np.random.default_rng(0),
        data,
        likelihoods,
        form=FORMS[form],
        num_latents=3,
        rank=(2, 1, 1),
        num_inducing=48,
    )
    state = training.init(jr.key(0), model, data, SCHEME, num_steps=10_000)
    return state, data, training.make_step(SCHEME, batch_size=BATCH_SIZE)


def compiled_text(form: str) -> str:
    """The step as compiled for the device at hand."""
    state, data, step = build(form)
    arrays, static = eqx.partition((state, data), eqx.is_array)
    run = jax.jit(lambda a: eqx.filter(step(*eqx.combine(a, static)), eqx.is_array))
    return run.lower(arrays).compile().as_text()


if __name__ == "__main__":
    state, data, step = build(sys.argv[2])
    state = state._replace(horizon=jnp.asarray(int(sys.argv[1])))
    result = loop.fit(state, data, step, chunk=50)
    assert result.trace is not None
    print(repr(float(result.trace.nelbo[-1])))
