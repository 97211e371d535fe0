"""Conditioning on outputs that were observed at the rows to predict.

At one row the functions are f ~ N(m_0, S_0), and some outputs are observed. The
posterior of f is approximated by the N(m, S) that maximises

    sum_d E[log p(y_d | f_d)] - KL[N(m, S) || N(m_0, S_0)],

whose optimum has S^-1 = S_0^-1 + Lambda and S^-1 m = S_0^-1 m_0 + eta, with Lambda zero
between functions of different outputs. A natural gradient step of length b moves
(Lambda, eta) towards (-2 G, g - 2 G m), with g and G the derivatives of the expected
log likelihood in the means and covariances of f. For Gaussian outputs of known noise,
the first step is exact; its length is 1.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.compiled import compiled
from motleygp.numerics.packed import TINY_VARIANCE, packed, unpacked

_MAX_STEPS = 200
# The steps end when no row's bound gains more than this, in nats.
_ENOUGH = 1e-8
_SHORTEST = 2.0**-50
# A row is at its optimum if a step of length 1 would move no mean by more than `_FAR`
# standard deviations, and if its last step gained no more than `_MUCH`, in nats. Gains
# alone say too little: rounding hides them where the bound is large.
_FAR, _MUCH = 0.01, 1e-5


class _Sites(NamedTuple):
    """Lambda and eta of every row."""

    precision: Float[np.ndarray, "N J J"]
    shift: Float[np.ndarray, "N J"]


class _Gaussian(NamedTuple):
    """N(m, S) at every row: means, covariances, and KL[N(m, S) || N(m_0, S_0)]."""

    mean: Float[np.ndarray, "N J"]
    cov: Float[np.ndarray, "N J J"]
    kl: Float[np.ndarray, " N"]


class Conditioned(NamedTuple):
    """Means and covariances of all functions. A row is `stuck` if it is as it was,
    because its values are too far from what the model expects; it is `unfinished` if
    the steps moved it and ended before its optimum."""

    mean: Float[np.ndarray, "J N"]
    cov: Float[np.ndarray, "N J J"]
    stuck: Bool[np.ndarray, " N"]
    unfinished: Bool[np.ndarray, " N"]


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
    start, root = mean.T, _root(cov)
    sites = _Sites(np.zeros_like(cov), np.zeros_like(start))
    length = np.ones(len(start))
    now = _posterior(start, root, sites)
    fit, target = _terms(outputs, now)
    bound = fit - now.kl
    better, gain = np.ones(len(start), bool), np.zeros(len(start))
    for _ in range(_MAX_STEPS):
        tried = jax.tree.map(
            lambda s, t, b=length: s + (t - s) * b.reshape(-1, *(1,) * (s.ndim - 1)),
            sites,
            target,
        )
        new = _posterior(start, root, tried)
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
    stuck = ~better & (length <= _SHORTEST) & ~sites.precision.any(axis=(1, 2))
    left = _posterior(start, root, target).mean - now.mean
    near = left**2 <= _FAR**2 * np.diagonal(now.cov, axis1=1, axis2=2) + TINY_VARIANCE
    finished = near.all(axis=1) & ~(better & (gain > _MUCH))
    return Conditioned(now.mean.T, now.cov, stuck, ~finished & ~stuck)


def warn_if_stuck(stuck: np.ndarray) -> None:
    """Warn of rows whose given values have no effect."""
    if stuck.any():
        warnings.warn(
            f"{int(stuck.sum())} of {len(stuck)} rows are predicted without the values "
            "given for them, which are too far from what the model expects.",
            stacklevel=2,
        )


def warn_if_unfinished(unfinished: np.ndarray) -> None:
    """Warn of rows whose given values have not had their whole effect."""
    if unfinished.any():
        warnings.warn(
            f"conditioning did not converge in {int(unfinished.sum())} of "
            f"{len(unfinished)} rows, whose predictions use the values given for them "
            "in part.",
            stacklevel=2,
        )


def _where(rows: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(rows.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def _root(cov: np.ndarray) -> np.ndarray:
    """The symmetric square root of each matrix, which may be singular."""
    values, vectors = np.linalg.eigh(cov)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return scaled @ np.swapaxes(vectors, 1, 2)


def _posterior(start: np.ndarray, root: np.ndarray, sites: _Sites) -> _Gaussian:
    """N(m, S) of each row, and its KL; NaN where S is not positive definite.

    With R the square root of S_0 and B = I + R Lambda R, S = R B^-1 R, which also holds
    for a singular S_0; with r = eta - Lambda m_0, m = m_0 + S r and

        2 KL = log |B| - tr(Lambda S) + (m - m_0)^T (r - Lambda (m - m_0)).
    """
    inner = np.eye(root.shape[-1]) + root @ sites.precision @ root
    finite = np.isfinite(np.sum(inner, axis=(1, 2)))
    values, vectors = np.linalg.eigh(np.where(finite[:, None, None], inner, 0.0))
    values = np.where(finite[:, None] & (values > 0), values, np.nan)
    half = root @ vectors / np.sqrt(values)[:, None, :]
    cov = half @ np.swapaxes(half, 1, 2)
    r = sites.shift - np.einsum("nij,nj->ni", sites.precision, start)
    moved = np.einsum("nij,nj->ni", cov, r)
    pulled = r - np.einsum("nij,nj->ni", sites.precision, moved)
    twice = (
        np.sum(np.log(values), axis=1)
        - np.sum(sites.precision * cov, axis=(1, 2))
        + np.sum(moved * pulled, axis=1)
    )
    return _Gaussian(start + moved, cov, 0.5 * twice)


def _terms(outputs: Sequence[Observed], now: _Gaussian) -> tuple[np.ndarray, _Sites]:
    """The expected log likelihood of each row, and the sites of a step of length 1."""
    total = np.zeros(len(now.mean))
    precision, shift = np.zeros_like(now.cov), np.zeros_like(now.mean)
    for likelihood, functions, y, log_exposure in outputs:
        own = list(functions)
        block = np.ix_(range(len(now.mean)), own, own)
        seen = ~np.isnan(y)
        mean, cov = now.mean[:, own].T.copy(), now.cov[block]
        mean[0] += log_exposure
        # A stand-in for missing values, so that one program serves all rows.
        y = np.where(seen, y, y[seen][0] if seen.any() else 0.0)
        var = packed(np.moveaxis(cov, 0, -1))
        given = likelihood, *map(jnp.asarray, (y, mean, var))
        found = _expected_log_prob.for_rows(len(y))(*given)
        value, g_mean, g_var = map(np.asarray, found)
        # The derivative in a covariance counts for both of its places in the matrix.
        g_cov = unpacked(
            np.concatenate([g_var[: len(own)], 0.5 * g_var[len(own) :]]), len(own)
        )
        own_precision = np.where(seen, -2.0 * g_cov, 0.0)
        total += np.where(seen, value, 0.0)
        precision[block] = np.moveaxis(own_precision, -1, 0)
        pull = np.einsum("nij,nj->ni", precision[block], now.mean[:, own])
        shift[:, own] = np.where(seen, g_mean, 0.0).T + pull
    return total, _Sites(precision, shift)


@compiled
def _expected_log_prob(
    likelihood: AbstractLikelihood, y: Array, mean: Array, var: Array
) -> tuple[Array, Array, Array]:
    """E[log p(y | f)] and its derivatives in the means and second moments of f."""

    def summed(mean: Array, var: Array) -> tuple[Array, Array]:
        terms = likelihood.expected_log_prob(y, mean, var)
        return jnp.sum(terms), terms

    slopes, terms = jax.grad(summed, argnums=(0, 1), has_aux=True)(mean, var)
    return terms, *slopes
