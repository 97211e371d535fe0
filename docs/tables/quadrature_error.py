"""Errors of the expected log-likelihoods that need quadrature, as a Markdown table.

    python docs/tables/quadrature_error.py

The table has the worst error of E[log p(y | f)], and of the gradients g_m and g_v of
minus it in the means and variances of f, each divided by max(1, |the exact number|),
over a grid of means of f and several y, at each likelihood's default number of nodes.

The reference shares no code with the library: it evaluates the textbook density and its
derivatives with SciPy's special functions, on a product rule of 200 nodes per function.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special as sp

from motleygp.likelihoods import AbstractLikelihood, Bernoulli, Beta, Gamma

LIKELIHOODS = (Bernoulli(), Beta(), Gamma())
# The library has a tolerance up to 2; 3 and 4 are for information.
STANDARD_DEVIATIONS = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
REFERENCE_NODES = 200
MEANS = np.linspace(-3.0, 3.0, 7)
VALUES = {
    "bernoulli": np.array([0.0, 1.0]),
    "beta": np.array([1e-9, 0.01, 0.3, 0.5, 0.9, 1.0 - 1e-9]),
    "gamma": np.array([1e-9, 0.01, 0.7, 3.0, 50.0]),
}


class Expected(NamedTuple):
    """E[log p] for N means and Y values, (N, Y), and its g_m and g_v, (L, N, Y)."""

    value: np.ndarray
    g_m: np.ndarray
    g_v: np.ndarray


def worst_errors(
    likelihood: AbstractLikelihood, sd: float, *, absolute: bool = False
) -> tuple[float, float, float]:
    """The largest errors of E[log p], g_m and g_v over all means and y."""
    found, exact = by_library(likelihood, sd), reference(likelihood, sd)
    value, g_m, g_v = largest_gaps(found, exact, absolute=absolute)
    return value, g_m, g_v


def largest_gaps(
    found: Expected, exact: Expected, *, absolute: bool = False
) -> list[float]:
    """max |found - exact| / max(1, |exact|), part by part."""
    gaps = []
    for a, b in zip(found, exact, strict=True):
        unit = 1.0 if absolute else np.maximum(1.0, np.abs(b))
        gaps.append(float(np.max(np.abs(a - b) / unit)))
    return gaps


def mean_grid(num_functions: int) -> np.ndarray:
    """Every combination of the functions' means: (L, N)."""
    axes = np.meshgrid(*[MEANS] * num_functions, indexing="ij")
    return np.stack([axis.ravel() for axis in axes])


# The library.


@eqx.filter_jit
def _value_and_gradients(
    likelihood: AbstractLikelihood, y: jax.Array, mean: jax.Array, var: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    def loss(mean: jax.Array, var: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = likelihood.expected_log_prob(y, mean, var)
        return -jnp.sum(value), value

    (g_m, g_v), value = jax.grad(loss, argnums=(0, 1), has_aux=True)(mean, var)
    return value, g_m, g_v


def by_library(likelihood: AbstractLikelihood, sd: float) -> Expected:
    """E[log p] and its gradients at the default settings."""
    means, values = mean_grid(likelihood.num_functions), VALUES[likelihood.name]
    mean = jnp.asarray(np.repeat(means[:, :, None], len(values), axis=2))
    y = jnp.asarray(np.tile(values, (means.shape[1], 1)))
    parts = _value_and_gradients(likelihood, y, mean, jnp.full_like(mean, sd**2))
    return Expected(*[np.asarray(part) for part in parts])


# The reference. A log density is linear in functions of y, so one rule serves all y;
# and with h = log p, d/dm E[h] = E[h'] and d/dv E[h] = E[h''] / 2. Each
# function below gives E[h] of shape (Y,), E[h'] and E[h''] of shape (L, Y).

_Moments = tuple[np.ndarray, np.ndarray, np.ndarray]


def reference(
    likelihood: AbstractLikelihood, sd: float, num_nodes: int = REFERENCE_NODES
) -> Expected:
    """E[log p] and its gradients by a fine rule on SciPy's functions."""
    z, w = sp.roots_hermitenorm(num_nodes)
    moments, values = _MOMENTS[likelihood.name], VALUES[likelihood.name]
    points = [
        moments(values, [m + sd * z for m in mean], w / w.sum())
        for mean in mean_grid(likelihood.num_functions).T
    ]
    value, slope, bend = (np.stack(p, axis=-2) for p in zip(*points, strict=True))
    return Expected(value, -slope, -0.5 * bend)


def _bernoulli(y: np.ndarray, f: list[np.ndarray], w: np.ndarray) -> _Moments:
    signed = (2.0 * y[:, None] - 1.0) * f[0]
    slope = (2.0 * y - 1.0) * (sp.expit(-signed) @ w)
    bend = -(sp.expit(signed) * sp.expit(-signed)) @ w
    return -np.logaddexp(0.0, -signed) @ w, slope[None], bend[None]


def _gamma(y: np.ndarray, f: list[np.ndarray], w: np.ndarray) -> _Moments:
    # h = a f_2 + (a - 1) log y - b y - log Gamma(a).
    a, b = np.exp(f)
    f_2 = f[1] @ w + np.log(y)
    value = (a @ w) * f_2 - np.log(y) - (b @ w) * y - sp.gammaln(a) @ w
    slope = (a @ w) * f_2 - (a * sp.digamma(a)) @ w
    bend = slope - (a**2 * sp.polygamma(1, a)) @ w
    rate = (b @ w) * y
    return value, np.stack([slope, a @ w - rate]), np.stack([bend, -rate])


def _beta(y: np.ndarray, f: list[np.ndarray], w: np.ndarray) -> _Moments:
    # h = (a - 1) log y + (b - 1) log(1 - y) + log Gamma(a + b) - log Gamma(a) - ...
    (a, b), logs = np.exp(f), (np.log(y), np.log1p(-y))
    total = a[:, None] + b
    log_norm = w @ sp.betaln(a[:, None], b) @ w
    value = (a @ w - 1.0) * logs[0] + (b @ w - 1.0) * logs[1] - log_norm
    psi, psi_1 = sp.digamma(total), sp.polygamma(1, total)
    slopes, bends = [], []
    for x, log_x, p, p_1 in zip(
        (a, b), logs, (psi, psi.T), (psi_1, psi_1.T), strict=True
    ):
        slope = (x @ w) * log_x + (x * (p @ w - sp.digamma(x))) @ w
        slopes.append(slope)
        bends.append(slope + (x**2 * (p_1 @ w - sp.polygamma(1, x))) @ w)
    return value, np.stack(slopes), np.stack(bends)


_MOMENTS: dict[str, Callable[..., _Moments]] = {
    "bernoulli": _bernoulli,
    "beta": _beta,
    "gamma": _gamma,
}


def table() -> str:
    """The errors as Markdown."""
    lines = [
        "| likelihood | sd of f | E[log p] | g_m | g_v |",
        "|---|---|---|---|---|",
    ]
    for likelihood in LIKELIHOODS:
        for sd in STANDARD_DEVIATIONS:
            errors = " | ".join(f"{e:.0e}" for e in worst_errors(likelihood, sd))
            lines.append(f"| {type(likelihood).__name__} | {sd:g} | {errors} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
