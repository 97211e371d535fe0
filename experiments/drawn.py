"""Gaussian outputs drawn from a joint prior, and the exact posteriors of the draws."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsp
import numpy as np
import scipy.optimize
import scipy.stats
from jax.flatten_util import ravel_pytree

import motleygp as mg

ROWS_PER_UNIT = 400
OBSERVED_PER_UNIT = 150
NOISE = 0.2
# Those of the two latent processes.
LENGTHSCALES = [[0.08], [0.2]]


class Draw(NamedTuple):
    """Rows, the joint covariance of all functions there, noisy values of each, and the
    standard deviations of the noise."""

    x: np.ndarray
    covariance: np.ndarray
    y: np.ndarray
    noise: np.ndarray


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
    noise = np.full(len(y), NOISE)
    return Draw(x, full_covariance(prior, x), y, noise)


def full_covariance(prior: mg.priors.AbstractPrior, x: np.ndarray) -> np.ndarray:
    """cov[f_j(x_n), f_j'(x_n')], (J, N, J, N)."""
    return np.asarray(prior.covariance(jnp.asarray(x), jnp.asarray(x)))


def exact_nlpd(
    drawn: Draw, observed: np.ndarray, tested: np.ndarray, *, joint: bool
) -> float:
    """Mean NLPD of the tested values under the exact posterior with the covariance of
    the draw, given all values (`joint`) or only those of the same function."""
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
        K = drawn.covariance[j[:, None], n[:, None], j, n]
        K = K + np.diag(drawn.noise[j] ** 2)
        k = drawn.covariance[d, t[:, None], j, n]
        solved = np.linalg.solve(K, k.T)
        mean = solved.T @ drawn.y[j, n]
        var = drawn.covariance[d, t, d, t] - np.sum(k.T * solved, axis=0)
        std = np.sqrt(var + drawn.noise[d] ** 2)
        density = scipy.stats.norm.logpdf(drawn.y[d, t], mean, std)
        scores.append(-float(np.mean(density)))
    return float(np.mean(scores))


class Parameters(NamedTuple):
    """A prior, and the log noise and the offset of each function."""

    prior: Any
    log_noise: jax.Array
    offset: jax.Array


def log_evidence(
    parameters: Parameters, x: jax.Array, y: jax.Array, j: np.ndarray, n: np.ndarray
) -> jax.Array:
    """The exact log density of the values y of functions j at the rows n of x."""
    full = parameters.prior.covariance(x, x)
    noise = jnp.diag(jnp.exp(2.0 * parameters.log_noise)[j])
    factor = jnp.linalg.cholesky(full[j[:, None], n[:, None], j, n] + noise)
    white = jsp.solve_triangular(factor, y - parameters.offset[j], lower=True)
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return -log_det - 0.5 * white @ white - 0.5 * len(y) * jnp.log(2.0 * jnp.pi)


def at_most_likely_values(
    drawn: Draw, observed: np.ndarray, prior: mg.priors.AbstractPrior
) -> Draw:
    """The same values, less their offsets, with the covariance and the noise at a
    maximum of the exact evidence, searched from the generating values."""
    arrays, rest = eqx.partition(prior, eqx.is_inexact_array)
    offset = jnp.zeros(len(drawn.y))
    start, tree_of = ravel_pytree((arrays, jnp.log(drawn.noise), offset))
    rows = np.flatnonzero(observed.any(axis=0))
    j, n = np.nonzero(observed[:, rows])
    x, y = jnp.asarray(drawn.x[rows]), jnp.asarray(drawn.y[j, rows[n]])

    def parameters(theta: jax.Array) -> Parameters:
        arrays, log_noise, offset = tree_of(theta)
        return Parameters(eqx.combine(arrays, rest), log_noise, offset)

    @jax.jit
    @jax.value_and_grad
    def loss(theta: jax.Array) -> jax.Array:
        return -log_evidence(parameters(theta), x, y, j, n)

    found = scipy.optimize.minimize(
        lambda theta: [np.asarray(a) for a in loss(theta)],
        np.asarray(start),
        jac=True,
        method="L-BFGS-B",
    )
    best = parameters(jnp.asarray(found.x))
    return Draw(
        drawn.x,
        full_covariance(best.prior, drawn.x),
        drawn.y - np.asarray(best.offset)[:, None],
        np.exp(np.asarray(best.log_noise)),
    )


def observed_rows(
    rng: np.random.Generator, num_outputs: int, *, length: int
) -> np.ndarray:
    """The rows at which each output is observed, at random, as a mask."""
    order = rng.random((num_outputs, length * ROWS_PER_UNIT))
    return np.argsort(order, axis=1) < length * OBSERVED_PER_UNIT
