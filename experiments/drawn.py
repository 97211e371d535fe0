"""Gaussian outputs drawn from a joint prior, and the exact posteriors of the draws."""

from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats

import motleygp as mg

ROWS_PER_UNIT = 400
OBSERVED_PER_UNIT = 150
NOISE = 0.2
# Those of the two latent processes.
LENGTHSCALES = [[0.08], [0.2]]


class Draw(NamedTuple):
    """Rows, the joint covariance of all functions there, and noisy values of each."""

    x: np.ndarray
    covariance: np.ndarray
    y: np.ndarray


def convolution(
    weights: np.ndarray, smoothing: np.ndarray, inducing: np.ndarray
) -> mg.priors.LatentConvolution:
    """The convolution prior of the draws, with these inducing points."""
    kernel = mg.kernels.EQ(LENGTHSCALES)
    return mg.priors.LatentConvolution(kernel, weights, smoothing[:, None], inducing)


def lmc(weights: np.ndarray, inducing: np.ndarray) -> mg.priors.LMC:
    """The linear model of the draws, with these inducing points."""
    return mg.priors.LMC(mg.kernels.EQ(LENGTHSCALES), weights, inducing)


def draw(seed: int, prior: mg.priors.AbstractPrior, *, length: int) -> Draw:
    """f_1..f_D at random inputs in [0, length] from the joint prior, y = f + noise."""
    rng = np.random.default_rng(seed)
    x = length * np.sort(rng.random((length * ROWS_PER_UNIT, 1)), axis=0)
    f = mg.priors.sample(prior, jr.key(seed), jnp.asarray(x))[0]
    y = np.asarray(f) + NOISE * rng.normal(size=f.shape)
    return Draw(x, np.asarray(prior.covariance(jnp.asarray(x), jnp.asarray(x))), y)


def exact_nlpd(
    drawn: Draw, observed: np.ndarray, tested: np.ndarray, *, joint: bool
) -> float:
    """Mean NLPD of the tested values under the exact posterior at the generating
    parameters, given all values (`joint`) or only those of the same function."""
    num_functions = len(drawn.y)
    scores = []
    for d in range(num_functions):
        seen = observed.copy()
        if not joint:
            seen[np.arange(num_functions) != d] = False
        j, n = np.nonzero(seen)
        (t,) = np.nonzero(tested[d])
        if not len(t):
            continue
        K = drawn.covariance[j[:, None], n[:, None], j, n] + NOISE**2 * np.eye(len(j))
        k = drawn.covariance[d, t[:, None], j, n]
        solved = np.linalg.solve(K, k.T)
        mean = solved.T @ drawn.y[j, n]
        var = drawn.covariance[d, t, d, t] - np.sum(k.T * solved, axis=0) + NOISE**2
        density = scipy.stats.norm.logpdf(drawn.y[d, t], mean, np.sqrt(var))
        scores.append(-float(np.mean(density)))
    return float(np.mean(scores))


def observed_rows(
    rng: np.random.Generator, num_outputs: int, *, length: int
) -> np.ndarray:
    """The rows at which each output is observed, at random, as a mask."""
    order = rng.random((num_outputs, length * ROWS_PER_UNIT))
    return np.argsort(order, axis=1) < length * OBSERVED_PER_UNIT
