"""The real training step, for the thread tests: prints the bound it reaches.

    python tests/real_step.py STEPS lmc|joint|function|latent

Two blocks of data and several groups put several factorisations in flight.
"""

import dataclasses
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from motleygp import datasets, optim, priors
from motleygp.inference.data import Dataset, make_dataset
from motleygp.training import TrainState, init, initial_model, run, step

BATCH_SIZE = 32
SCHEME = optim.fng()


# By name, the prior; "joint" has a q(u) that is joint over the processes.
FORMS = {
    "lmc": priors.LMC,
    "joint": priors.LMC,
    "function": priors.Convolution,
    "latent": priors.LatentConvolution,
}


def build(form: str) -> tuple[TrainState, Dataset]:
    """A small mixed problem: the state before its first step, and its data."""
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
    model = dataclasses.replace(model, joint_q=form == "joint")
    return init(jr.key(0), model, SCHEME, num_steps=10_000), data


def compiled_text(form: str) -> str:
    """The step as compiled for the device at hand."""
    arrays, static = eqx.partition(build(form), eqx.is_array)

    def one(arrays: tuple) -> tuple:
        state, data = eqx.combine(arrays, static)
        return eqx.filter(
            step(SCHEME, state, data, batch_size=BATCH_SIZE), eqx.is_array
        )

    return jax.jit(one).lower(arrays).compile().as_text()


if __name__ == "__main__":
    state, data = build(sys.argv[2])
    state = state._replace(horizon=jnp.asarray(int(sys.argv[1])))
    result = run(SCHEME, state, data, batch_size=BATCH_SIZE, chunk=50)
    assert result.steps is not None
    print(repr(float(result.steps.nelbo[-1])))
