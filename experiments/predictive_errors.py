"""Errors of the predictive distributions of every likelihood, as a Markdown table.

    python experiments/predictive_errors.py [NAME ...] [--time]

Each line has the largest errors over a grid of q(f) with that largest standard
deviation of a function: of means, standard deviations, correlations -0.9, 0 and 0.9,
and of y at the levels 0.001, 0.5 and 0.999 of p(y). The errors of the mean and of the
variance are relative; those of the cdf and of the log density are absolute. The
references are in `brute_force`. `--time` prints the times of 1000 rows
instead.
"""

import argparse
import itertools as it
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from brute_force import predictions as exact

import motleygp as mg
from motleygp.likelihoods import BY_NAME, AbstractLikelihood
from motleygp.prediction import Predictive

LEVELS = (0.001, 0.5, 0.999)
CORRELATIONS = (-0.9, 0.0, 0.9)
STDS = {
    1: [(0.1,), (1.0,), (3.0,), (10.0,)],
    2: [
        *((0.1, 0.1), (1.0, 1.0), (0.3, 3.0), (3.0, 0.3), (3.0, 3.0)),
        *((1.0, 10.0), (10.0, 1.0), (10.0, 10.0)),
    ],
}
MEANS = {
    "gaussian": [(0.0,), (5.0,)],
    "bernoulli": [(-20.0,), (-3.0,), (0.0,), (0.5,), (8.0,)],
    "poisson": [(-4.0,), (0.0,), (3.0,), (10.0,)],
    "exponential": [(-5.0,), (0.0,), (5.0,)],
    "hetgaussian": [(0.0, -4.0), (1.0, 0.0), (0.0, 5.0)],
    "beta": [(-2.0, -1.0), (1.0, 0.4), (6.0, 5.0)],
    "gamma": [(-2.0, 1.0), (1.0, -1.0), (6.0, 6.5), (12.0, 9.0)],
}


class Errors(NamedTuple):
    """The largest errors on one line of the table."""

    name: str
    std: float
    mean: float
    variance: float
    cdf: float
    log_prob: float

    def allowed(self) -> dict[str, float]:
        """The bars that the library must keep."""
        if self.std <= 3.0:
            return {"mean": 1e-6, "variance": 1e-6, "cdf": 1e-4, "log_prob": 1e-6}
        return dict.fromkeys(("mean", "variance", "cdf", "log_prob"), 1e-3)


def likelihood(name: str) -> AbstractLikelihood:
    return mg.likelihoods.Gaussian(0.5) if name == "gaussian" else BY_NAME[name]()


def grid(name: str) -> Iterator[exact.Gaussian]:
    """Every q(f) of the grid."""
    size = likelihood(name).num_functions
    wide = [(30.0,)] if name == "bernoulli" else []
    correlations = CORRELATIONS if size == 2 else (0.0,)
    for std, mean, rho in it.product([*STDS[size], *wide], MEANS[name], correlations):
        yield exact.Gaussian(mean, std, rho)


def predictive(name: str, rows: list[exact.Gaussian]) -> Predictive:
    """The library's distribution, one row per q(f)."""
    means, stds = (np.array([getattr(q, a) for q in rows]).T for a in ("mean", "std"))
    var = stds**2
    if len(var) == 2:
        rho = np.array([q.correlation for q in rows])
        var = np.concatenate([var, [rho * stds[0] * stds[1]]])
    return Predictive(likelihood(name), means, var)


def values(name: str, rows: list[exact.Gaussian]) -> np.ndarray:
    """y of each q(f), (len(rows), levels): the centre and both tails of draws."""
    draws = predictive(name, rows).sample(4000, random_state=0)
    found = np.quantile(draws, LEVELS, axis=0, method="nearest").T
    positive = name in ("beta", "gamma", "exponential")
    return np.maximum(found, 1e-300) if positive else found


def relative(found: float, exact: float) -> float:
    """The relative error; 0 if both overflow, or if both are 0."""
    return 0.0 if found == exact else abs(found - exact) / max(abs(exact), 1e-300)


def errors(name: str) -> list[Errors]:
    """The lines of one likelihood."""
    rows = list(grid(name))
    found, y = predictive(name, rows), values(name, rows)
    cdf = np.stack([found.cdf(column) for column in y.T], axis=1)
    log_prob = np.stack([found.log_prob(column) for column in y.T], axis=1)
    by_std: dict[float, list[list[float]]] = {}
    means, variances = found.mean, found.variance
    for i, q in enumerate(rows):
        mean, spread = exact.mean(name, q), exact.variance(name, q)
        exact_cdf = [exact.cdf(name, v, q) for v in y[i]]
        exact_log_prob = [exact.log_prob(name, v, q) for v in y[i]]
        by_std.setdefault(max(q.std), []).append(
            [
                relative(means[i], mean),
                relative(variances[i], spread),
                float(np.max(np.abs(cdf[i] - exact_cdf))),
                float(np.max(np.abs(log_prob[i] - exact_log_prob))),
            ]
        )
    return [
        Errors(name, std, *np.max(lines, axis=0).tolist())
        for std, lines in sorted(by_std.items())
    ]


def seconds(fn: Callable[[], object], times: int) -> float:
    """The shortest of several calls; the first, which may compile, does not count."""
    fn()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        fn()
        found.append(time.perf_counter() - start)
    return min(found)


def times(name: str) -> list[float]:
    """Milliseconds for 1000 rows of no special kind: mean and standard deviation, three
    quantiles, log density."""
    rng, size = np.random.default_rng(0), likelihood(name).num_functions
    mean, var = rng.normal(size=(size, 1000)), rng.uniform(0.05, 1, size=(size, 1000))
    if size == 2:
        rho = rng.uniform(-0.8, 0.8, 1000)
        var = np.concatenate([var, [rho * np.sqrt(var[0] * var[1])]])
    whole = Predictive(likelihood(name), mean, var)
    y = whole.sample(random_state=0)[0]

    def moments() -> object:
        fresh = whole[:]
        return fresh.mean, fresh.std

    jobs = (moments, 20), (lambda: whole.quantile([0.05, 0.5, 0.95]), 2)
    return [1e3 * seconds(*job) for job in (*jobs, (lambda: whole.log_prob(y), 3))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BY_NAME))
    parser.add_argument("--time", action="store_true", help="times instead of errors")
    args = parser.parse_args()
    if args.time:
        print("| likelihood | mean and std, ms | quantiles, ms | log density, ms |")
        print("|---|---|---|---|")
        for name in args.names:
            shown = (f"{value:.3g}" for value in times(name))
            print(f"| {name} | {' | '.join(shown)} |", flush=True)
        return
    print("| likelihood | sd of f | mean | variance | cdf | log density |")
    print("|---|---|---|---|---|---|")
    for name in args.names:
        for line in errors(name):
            shown = (f"{value:.0e}" for value in line[2:])
            print(f"| {name} | {line.std:g} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
