"""Scores of the runs."""

from collections.abc import Iterable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from motleygp.numerics.packed import rows_of_blocks
from toy_study.methods import Method, parse, problem_of


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
        [own.log_predictive(*rest).mean() for own, *rest in lanes(job, values, r)]
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
