"""Scores of the runs."""

from collections.abc import Iterable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp

import motleygp as mg
from motleygp.numerics.packed import colour, rows_of_blocks
from toy_study.methods import Method, parse, problem_of

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())


@eqx.filter_jit
def _log_predictive(lik, y, mean, var):
    return lik.log_predictive(y, mean, var)


def log_predictive(
    lik: mg.likelihoods.AbstractLikelihood,
    y: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
) -> np.ndarray:
    """log E[p(y | f)]; for Beta and Gamma on a plain grid of 40 x 40 nodes.

    The library's rule for these two chooses its nodes for every value, which takes too
    long for thousands of runs; `check_grid` gives the difference.
    """
    if lik.name not in ("beta", "gamma"):
        given = (jnp.asarray(v, dtype=float) for v in (y, mean, var))
        return np.asarray(_log_predictive(lik, *given))
    z = np.stack(np.meshgrid(_NODES, _NODES, indexing="ij")).reshape(2, -1)
    first, second = mean[..., None] + colour(var, z)
    a, b, y = np.exp(first), np.exp(second), y[:, None]
    if lik.name == "beta":
        norm = gammaln(a + b) - gammaln(a) - gammaln(b)
        log_prob = norm + (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y)
    else:
        log_prob = a * second - gammaln(a) + (a - 1.0) * np.log(y) - b * y
    weights = np.add.outer(_LOG_WEIGHTS, _LOG_WEIGHTS).ravel()
    return logsumexp(log_prob + weights, axis=1)


def check_grid(held) -> str:
    """The largest difference of a mean NLPD between the grid and the library."""
    worst = 0.0
    for job in ("fng:t1:1", "fng:t2:2", "hybrid:t3:10", "paper-fng:t2:10"):
        if job not in held:
            continue
        for lik, y, mean, var in lanes(job, held[job], 0):
            given = (jnp.asarray(v, dtype=float) for v in (y, mean, var))
            exact = float(jnp.mean(_log_predictive(lik, *given)))
            worst = max(worst, abs(exact - log_predictive(lik, y, mean, var).mean()))
    return f"Grid against the library's rule: NLPD of an output within {worst:.1e}."


def scores(files: Iterable[Path]) -> dict[str, dict[str, np.ndarray]]:
    """The stored arrays by job, and the mean NLPD of each start as "nlpd"."""
    held: dict[str, dict[str, np.ndarray]] = {}
    for path in files:
        with np.load(path) as stored:
            for name in stored.files:
                job, what = name.rsplit("/", 1)
                held.setdefault(job, {})[what] = stored[name]
    for job, values in held.items():
        values["nlpd"] = _nlpd(job, values)
    return held


def lanes(job: str, values: dict[str, np.ndarray], r: int):
    """Likelihood, test values, mean and variance of every output in start r."""
    method, toy, num_inputs = parse(job)
    problem = problem_of(method, toy, num_inputs)
    ends = np.cumsum([0] + [lik.num_functions for lik in problem.likelihoods])
    rows = rows_of_blocks(np.diff(ends).tolist(), values["var"].shape[1])
    noises = [values[k][r] for k in sorted(values) if k.startswith("lik")]
    tree = jax.tree.structure(problem.likelihoods)
    for d, lik in enumerate(jax.tree.unflatten(tree, map(jnp.asarray, noises))):
        mean = values["mean"][r, ends[d] : ends[d + 1]].astype(float)
        var = values["var"][r, rows[d]].astype(float)
        yield lik, problem.y_test[:, d], mean, var


def _nlpd(job: str, values: dict[str, np.ndarray]) -> np.ndarray:
    means = [
        [log_predictive(*lane).mean() for lane in lanes(job, values, r)]
        for r in range(len(values["mean"]))
    ]
    return -np.mean(means, axis=1)


def constant_nlpd(method: Method, toy: str, num_inputs: int) -> float:
    problem = problem_of(method, toy, num_inputs)
    return float(np.mean(list(problem.constant_nlpd().values())))


def diverged(values: dict[str, np.ndarray], *, frozen: bool = False) -> np.ndarray:
    """Whether a score or bound is not finite, or a bound worse than in any good run.

    A `frozen` run keeps the bound of its start, which may be as bad.
    """
    broken = ~np.isfinite(values["nlpd"]) | ~np.isfinite(values["nelbo"])
    return broken if frozen else broken | ~(values["nelbo"] < 1e6)


def median(values: np.ndarray) -> float:
    """The median, with values that are not finite as the worst."""
    return float(np.median(np.where(np.isfinite(values), values, np.inf)))
