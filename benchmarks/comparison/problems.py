"""The problems that every library gets: data, and parameters to begin with."""

from typing import Any

import numpy as np

import step
from libraries.served import Arrays, Settings
from motleygp import core, datasets

# GPflow's and GPyTorch's default, for all.
JITTER = 1e-6
NUM_LATENTS, NUM_OUTPUTS = 3, 5


def settings_of(kind: str, batch: int, **others: Any) -> Settings:
    """The settings of a problem.

    The rates are small, so that no library fails while it is timed. A compiled program
    of MotleyGP or GPJax runs `chunk` iterations.
    """
    usual = {
        "kind": kind,
        "batch": batch,
        "jitter": JITTER,
        "nodes": 20,
        "covariances": True,
        "natural_rate": 0.01,
        "adam_rate": 0.005,
        "chunk": 50,
    }
    return usual | others


def with_q(arrays: Arrays, rng: np.random.Generator | None = None) -> Arrays:
    """The problem with a whitened q(u): its prior, or one drawn at random."""
    num_latents, num_inducing, _ = arrays["Z"].shape
    mean = np.zeros((num_latents, num_inducing))
    factor = np.tile(np.eye(num_inducing), (num_latents, 1, 1))
    if rng is not None:
        mean = rng.normal(size=mean.shape)
        noise = np.tril(rng.normal(size=factor.shape))
        factor = 0.6 * factor + 0.2 * noise / np.sqrt(num_inducing)
    return arrays | {"q_mean": mean, "q_factor": factor}


def five_types(num_inducing: int = step.NUM_INDUCING) -> Arrays:
    """The five-output benchmark of `step.py`."""
    arrays = step.problem(num_inducing=num_inducing)
    return with_q(arrays | {"offset": np.zeros(step.NUM_FUNCTIONS)})


def gaussians(num_inducing: int, num_inputs: int, num_rows: int = 3000) -> Arrays:
    """Five Gaussian outputs that share three smooth processes."""
    rng = np.random.default_rng([num_inducing, num_inputs])
    x = rng.random((num_rows, num_inputs))
    weights = rng.normal(size=(NUM_OUTPUTS, NUM_LATENTS))
    waves = np.sin(4.0 * x @ rng.normal(size=(num_inputs, NUM_LATENTS)))
    y = waves @ weights.T + 0.3 * rng.normal(size=(num_rows, NUM_OUTPUTS))
    scale = 0.5 * np.sqrt(num_inputs)
    return with_q(
        {
            "X": x,
            "Y": y,
            "Z": rng.random((NUM_LATENTS, num_inducing, num_inputs)),
            "lengthscale": scale * rng.uniform(0.5, 1.5, (NUM_LATENTS, num_inputs)),
            "weights": weights,
            "offset": np.zeros(NUM_OUTPUTS),
            "noise": np.full(NUM_OUTPUTS, 0.5),
        }
    )


def toy(num_inputs: int, num_inducing: int = 80) -> Arrays:
    """T2 with the start of MotleyGP's estimator, its fixed offsets included."""
    problem = datasets.load("t2", num_inputs=num_inputs)
    x, y = problem.x_train, problem.y_train
    data = core.make_dataset([x] * y.shape[1], list(y.T), problem.likelihoods)
    model = core.initial_model(
        np.random.default_rng(0),
        data,
        problem.likelihoods,
        num_latents=NUM_LATENTS,
        rank=(1,) * NUM_LATENTS,
        num_inducing=num_inducing,
    )
    found = {name: np.asarray(a) for name, a in model.prior.parameters().items()}
    return with_q(
        {
            "X": x,
            "Y": y,
            "Z": found["inducing"],
            "lengthscale": found["lengthscale"],
            "weights": found["weights"],
            "offset": np.asarray(model.offset),
        }
    )
