"""The paper's toys: synthetic data, the same in every run."""

import math

import numpy as np
from jaxtyping import Float

from motleygp.datasets._problem import Problem, Table, split_rows
from motleygp.likelihoods import (
    AbstractLikelihood,
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    HetGaussian,
)

NUM_ROWS = 2000
_LENGTHSCALES = (0.5, 0.05, 0.1)
# a_{d,j,q}: one row per parameter function, in the order of the outputs, one column per
# latent process; T1 uses the first 5 rows, T2 8, T3 all 15.
_WEIGHTS = np.array(
    [
        [-0.1, 1.4, 0.1],
        [-0.1, -0.5, -0.8],
        [1.1, 0.3, 1.3],
        [2.1, 0.7, 1.5],
        [-1.1, 1.5, 0.5],
        [-0.5, -0.3, -0.02],
        [-0.6, 0.4, 0.01],
        [0.1, -0.2, 0.5],
        [-1.1, 0.4, 0.5],
        [0.8, 0.3, 1.0],
        [1.5, -0.7, 0.8],
        [-0.2, -2.1, 3.0],
        [0.05, -0.03, 0.1],
        [0.06, 0.04, -0.5],
        [0.3, -0.5, 0.4],
    ]
)
_JITTER = 1e-6
# The paper clips its proportions.
_CLIPPED = {"beta": (1e-9, 0.99999)}


def _outputs(toy: str) -> tuple[AbstractLikelihood, ...]:
    first = (HetGaussian(), Beta(), Bernoulli())
    second = (*first, Gamma(), Exponential())
    last = (Gaussian(0.1, fixed=True), Beta(), Bernoulli(), Gamma(), Exponential())
    return {"t1": first, "t2": second, "t3": (*second, *last)}[toy]


NAMES = ("t1", "t2", "t3")


def draw(
    name: str, *, num_inputs: int = 1, seed: int = 0, num_rows: int = NUM_ROWS
) -> Problem:
    """A toy of the paper: 2000 rows (44 x 44 for two inputs), 3/4 of them for training.
    The time of a draw grows with the third power of `num_rows`.

    Latent processes u_q ~ GP(0, EQ) on [0, 1]^P with length-scales 0.5, 0.05 and 0.1,
    mixed by fixed weights into the parameter functions of 3 (t1), 5 (t2) or 10 (t3)
    outputs. Real outputs are standardised.
    """
    rng = np.random.default_rng([seed, num_inputs, NAMES.index(name)])
    likelihoods = _outputs(name)
    x = _toy_inputs(rng, num_inputs, num_rows)
    f = _draw_functions(rng, x, sum(lik.num_functions for lik in likelihoods))
    columns, start = [], 0
    for likelihood in likelihoods:
        y = likelihood.sample(rng, f[start : start + likelihood.num_functions])
        start += likelihood.num_functions
        if likelihood.real:
            y = (y - y.mean()) / y.std()
        if likelihood.name in _CLIPPED:
            y = np.clip(y, *_CLIPPED[likelihood.name])
        columns.append(y)
    labels = tuple(f"{lik.name}{d}" for d, lik in enumerate(likelihoods, start=1))
    return split_rows(rng, Table(x, np.stack(columns, axis=1), likelihoods, labels))


def _toy_inputs(
    rng: np.random.Generator, num_inputs: int, num_rows: int
) -> Float[np.ndarray, "N P"]:
    """An even grid, for two inputs as large a square one as `num_rows` allows; for more
    inputs, an even grid in each, in random order."""
    if num_inputs == 2:
        side = np.linspace(0.0, 1.0, math.isqrt(num_rows))
        return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    grid = np.linspace(0.0, 1.0, num_rows)
    columns = [grid] + [rng.permutation(grid) for _ in range(num_inputs - 1)]
    return np.stack(columns, axis=1)


def _draw_functions(
    rng: np.random.Generator, x: Float[np.ndarray, "N P"], num_functions: int
) -> Float[np.ndarray, "J N"]:
    square = np.sum(x**2, axis=1)
    distance = np.maximum(square[:, None] + square[None, :] - 2.0 * x @ x.T, 0.0)
    draws = []
    for lengthscale in _LENGTHSCALES:
        covariance = np.exp(-0.5 * distance / lengthscale**2)
        # On a fine grid the covariance is singular up to rounding.
        covariance[np.diag_indices(len(x))] += _JITTER
        draws.append(np.linalg.cholesky(covariance) @ rng.normal(size=len(x)))
    return _WEIGHTS[:num_functions] @ np.stack(draws)
