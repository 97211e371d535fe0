"""Conditioning on outputs that were observed at the rows to predict.

At one row the functions are f ~ N(m_0, S_0), and some outputs are observed. The
posterior of f is approximated by the N(m, S) that maximises

    sum_d E[log p(y_d | f_d)] - KL[N(m, S) || N(m_0, S_0)],

whose optimum has S^-1 = S_0^-1 + diag(lambda) and S^-1 m = S_0^-1 m_0 + eta. A natural
gradient step of length b moves (lambda, eta) towards (-2 g_v, g_m - 2 g_v m), with g_m
and g_v the derivatives of the expected log likelihood in the means and variances of f.
For Gaussian outputs of known noise, the first step is exact; its length is 1.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from motleygp.likelihoods import AbstractLikelihood

_MAX_STEPS = 200
# The steps end when no row's bound gains more than this, in nats.
_ENOUGH = 1e-8
_SHORTEST = 2.0**-50


class _Sites(NamedTuple):
    """lambda and eta of every function at every row."""

    precision: Float[np.ndarray, "N J"]
    shift: Float[np.ndarray, "N J"]


class _Gaussian(NamedTuple):
    """N(m, S) at every row: means, variances, and KL[N(m, S) || N(m_0, S_0)]."""

    mean: Float[np.ndarray, "N J"]
    var: Float[np.ndarray, "N J"]
    kl: Float[np.ndarray, " N"]


class Conditioned(NamedTuple):
    """Means and variances of all functions, and whether each row is as it was, because
    its values are too far from what the model expects."""

    mean: Float[np.ndarray, "J N"]
    var: Float[np.ndarray, "J N"]
    stuck: Bool[np.ndarray, " N"]


class Observed(NamedTuple):
    """An output observed in some rows: its likelihood, its functions among all J, its
    values in the model's units (NaN where missing), and the log exposure of each
    row."""

    likelihood: AbstractLikelihood
    functions: tuple[int, ...]
    y: Float[np.ndarray, " N"]
    log_exposure: Float[np.ndarray, " N"]


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows is rejected
def condition(
    mean: Float[np.ndarray, "J N"],
    cov: Float[np.ndarray, "N J J"],
    outputs: Sequence[Observed],
) -> Conditioned:
    """All functions given the observed outputs."""
    start = mean.T
    sites = _Sites(np.zeros_like(start), np.zeros_like(start))
    length = np.ones(len(start))
    now = _posterior(start, cov, sites)
    fit, target = _terms(outputs, now)
    bound = fit - now.kl
    better = np.ones(len(start), bool)
    for _ in range(_MAX_STEPS):
        b = length[:, None]
        tried = jax.tree.map(lambda s, t, b=b: (1.0 - b) * s + b * t, sites, target)
        new = _posterior(start, cov, tried)
        new_fit, new_target = _terms(outputs, new)
        gain = new_fit - new.kl - bound
        better = gain >= -_ENOUGH  # False for NaN
        sites, now, target, bound = jax.tree.map(
            lambda a, b, rows=better: _where(rows, a, b),
            (tried, new, new_target, bound + gain),
            (sites, now, target, bound),
        )
        length = np.where(better, np.minimum(2.0 * length, 1.0), 0.5 * length)
        if not np.where(better, gain > _ENOUGH, length > _SHORTEST).any():
            break
    stuck = ~better & (length <= _SHORTEST) & ~sites.precision.any(axis=1)
    return Conditioned(now.mean.T, now.var.T, stuck)


def warn_if_stuck(stuck: np.ndarray) -> None:
    """Warn of rows whose given values have no effect."""
    if stuck.any():
        warnings.warn(
            f"{int(stuck.sum())} of {len(stuck)} rows are predicted without the values "
            "given for them, which are too far from what the model expects.",
            stacklevel=2,
        )


def _where(rows: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(rows.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def _posterior(start: np.ndarray, cov: np.ndarray, sites: _Sites) -> _Gaussian:
    """N(m, S) of each row, and its KL.

    With R = diag(lambda)^1/2 and B = I + R S_0 R, S = S_0 - S_0 R B^-1 R S_0, which
    also holds for a singular S_0; with r = eta - lambda m_0, m = m_0 + S r and

        2 KL = log |B| - tr(lambda S) + (m - m_0)^T (r - lambda (m - m_0)).
    """
    root = np.sqrt(sites.precision)
    scaled = cov * root[:, None, :]
    inner = np.eye(cov.shape[-1]) + root[:, :, None] * scaled
    s = cov - scaled @ np.linalg.solve(inner, np.swapaxes(scaled, 1, 2))
    r = sites.shift - sites.precision * start
    moved = np.einsum("nij,nj->ni", s, r)
    var = np.maximum(np.einsum("nii->ni", s), 0.0)
    _, log_det = np.linalg.slogdet(inner)
    twice = (
        log_det
        - np.sum(sites.precision * var, axis=1)
        + np.sum(moved * (r - sites.precision * moved), axis=1)
    )
    return _Gaussian(start + moved, var, 0.5 * twice)


def _terms(outputs: Sequence[Observed], now: _Gaussian) -> tuple[np.ndarray, _Sites]:
    """The expected log likelihood of each row, and the sites of a step of length 1."""
    total = np.zeros(len(now.mean))
    precision, shift = np.zeros_like(now.mean), np.zeros_like(now.mean)
    for likelihood, functions, y, log_exposure in outputs:
        own = list(functions)
        seen = ~np.isnan(y)
        mean, var = now.mean[:, own].T.copy(), now.var[:, own].T
        mean[0] += log_exposure
        # A stand-in for missing values, so that one program serves all rows.
        y = np.where(seen, y, y[seen][0] if seen.any() else 0.0)
        value, g_mean, g_var = (
            np.asarray(a)
            for a in _expected_log_prob(likelihood, *map(jnp.asarray, (y, mean, var)))
        )
        # Where log p is not concave, the precision of the site would be negative.
        own_precision = np.where(seen, np.maximum(-2.0 * g_var, 0.0), 0.0)
        total += np.where(seen, value, 0.0)
        precision[:, own] = own_precision.T
        own_shift = np.where(seen, g_mean, 0.0).T
        shift[:, own] = own_shift + own_precision.T * now.mean[:, own]
    return total, _Sites(precision, shift)


@eqx.filter_jit
def _expected_log_prob(
    likelihood: AbstractLikelihood, y: Array, mean: Array, var: Array
) -> tuple[Array, Array, Array]:
    """E[log p(y | f)] and its derivatives in the means and variances of f."""

    def summed(mean: Array, var: Array) -> tuple[Array, Array]:
        terms = likelihood.expected_log_prob(y, mean, var)
        return jnp.sum(terms), terms

    slopes, terms = jax.grad(summed, argnums=(0, 1), has_aux=True)(mean, var)
    return terms, *slopes
