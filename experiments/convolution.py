"""Convolution processes: the tables of docs/convolution.md.

    python experiments/convolution.py simulated     # against exact posteriors
    python experiments/convolution.py gap           # a region of one output missing
    python experiments/convolution.py starts mocap7 --data-dir DIR   # 20 starts

`starts` runs all starts at once on a GPU, and one after another on a CPU.
"""

import argparse
import functools as ft
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats

import motleygp as mg
from motleygp import optim
from motleygp.inference import Dataset, held_out_nlpd, make_dataset, standardising
from motleygp.training import Outcome, Task, data_driven_start, restarts

FORMS = {
    "function": mg.priors.Convolution,
    "latent": mg.priors.LatentConvolution,
}
ROWS_PER_UNIT = 400
OBSERVED_PER_UNIT = 150
NOISE = 0.2
NUM_STARTS = 20


# Data drawn from the joint model, and its exact posterior.


class Draw(NamedTuple):
    """Rows, the joint covariance of all functions there, and noisy values of each."""

    x: np.ndarray
    covariance: np.ndarray
    y: np.ndarray


def draw(seed: int, weights: np.ndarray, smoothing: np.ndarray, *, length: int) -> Draw:
    """f_1..f_D at random inputs in [0, length] from the joint prior, y = f + noise."""
    rng = np.random.default_rng(seed)
    x = length * np.sort(rng.random((length * ROWS_PER_UNIT, 1)), axis=0)
    kernel = mg.kernels.EQ([[0.08], [0.2]])
    inducing = np.zeros((len(weights), 1, 1))
    prior = mg.priors.Convolution(kernel, weights, smoothing[:, None], inducing)
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


def fitted_nlpd(
    drawn: Draw, observed: np.ndarray, tested: np.ndarray, **settings
) -> tuple[float, float]:
    """The same NLPD for a fitted model, and the seconds that `fit` took."""
    names = [f"y{d}" for d in range(len(drawn.y))]
    y = np.where(observed, drawn.y, np.nan)
    model = mg.MotleyGP(
        ["gaussian"] * len(names), random_state=0, progress=False, **settings
    )
    begun = time.perf_counter()
    model.fit(drawn.x, dict(zip(names, y, strict=True)))
    seconds = time.perf_counter() - begun
    predicted = model.predict_dist(drawn.x)
    scores = [
        -np.mean(predicted[name].log_prob(drawn.y[d])[tested[d]])
        for d, name in enumerate(names)
        if tested[d].any()
    ]
    return float(np.mean(scores)), seconds


def observed_rows(
    rng: np.random.Generator, num_outputs: int, *, length: int
) -> np.ndarray:
    """The rows at which each output is observed, at random, as a mask."""
    order = rng.random((num_outputs, length * ROWS_PER_UNIT))
    return np.argsort(order, axis=1) < length * OBSERVED_PER_UNIT


def simulated(_: argparse.Namespace) -> None:
    """Compare both forms with the exact posteriors that they approximate."""
    print(
        "| D | draw | factorised, exact | function | excess | joint, exact | latent "
        "| excess | seconds, function and latent |\n" + "| --- " * 9 + "|"
    )
    for num_outputs in (2, 5):
        for seed in range(3):
            rng = np.random.default_rng([seed, num_outputs])
            weights = rng.normal(size=(num_outputs, 2))
            smoothing = rng.uniform(0.02, 0.08, size=num_outputs)
            drawn = draw(seed, weights, smoothing, length=1)
            observed = observed_rows(rng, num_outputs, length=1)
            tested = ~observed
            exact, found, seconds = [], [], []
            for form, joint in (("function", False), ("latent", True)):
                exact.append(exact_nlpd(drawn, observed, tested, joint=joint))
                score, took = fitted_nlpd(
                    drawn, observed, tested, prior="convolution", inducing=form
                )
                found.append(score)
                seconds.append(took)
            cells = [
                f"{e:.3f} | {s:.3f} | {s - e:.3f}"
                for e, s in zip(exact, found, strict=True)
            ]
            took = ", ".join(f"{s:.0f}" for s in seconds)
            print(
                f"| {num_outputs} | {seed} | {cells[0]} | {cells[1]} | {took} |",
                flush=True,
            )


def gap(args: argparse.Namespace) -> None:
    """NLPD of the first output in a region where only the others are observed."""
    weights = np.array([[1.0, 0.3], [0.9, -0.4], [-0.5, 0.8]])
    smoothing = np.array([0.03, 0.06, 0.05])
    print(
        "| D | draw | joint, exact | latent | LMC | factorised, exact | function |\n"
        + "| --- " * 7
        + "|"
    )
    for count in args.outputs:
        wins = [_gap_row(d, weights[:count], smoothing[:count]) for d in args.draws]
        print(f"\nD = {count}: latent beats function in {sum(wins)} of {len(wins)}.\n")


def _gap_row(seed: int, weights: np.ndarray, smoothing: np.ndarray) -> bool:
    """Print one row, and return whether the latent form beats the function form."""
    drawn = draw(seed, weights, smoothing, length=3)
    rng = np.random.default_rng(seed)
    observed = observed_rows(rng, len(weights), length=3)
    missing = (drawn.x[:, 0] > 1.0) & (drawn.x[:, 0] < 2.0)
    observed[0] &= ~missing
    tested = np.zeros_like(observed)
    tested[0] = missing
    together, alone = (
        exact_nlpd(drawn, observed, tested, joint=joint) for joint in (True, False)
    )
    latent, function, lmc = (
        fitted_nlpd(drawn, observed, tested, **settings)[0]
        for settings in (
            dict(prior="convolution", inducing="latent"),
            dict(prior="convolution", inducing="function"),
            dict(prior="lmc"),
        )
    )
    cells = [f"{v:.3f}" for v in (together, latent, lmc, alone, function)]
    print(f"| {len(weights)} | {seed} | {' | '.join(cells)} |", flush=True)
    return latent < function


# Starts on real data.


def scaled_datasets(problem: mg.datasets.Problem) -> tuple[Dataset, Dataset]:
    """Training and test rows with standardised inputs, as in `MotleyGP`."""
    scaling = standardising([problem.x_train], [], [])
    pairs = ((problem.x_train, problem.y_train), (problem.x_test, problem.y_test))
    train, test = (
        make_dataset(
            [scaling.inputs(x)] * len(problem.names),
            list(y.T),
            problem.likelihoods,
        )
        for x, y in pairs
    )
    return train, test


def starts(args: argparse.Namespace) -> None:
    """Default settings from 20 seeds: the spread of scores, and bad runs."""
    print(
        "| set | inducing | constant fit | best | median | worst of 20 "
        "| failed or above constant | seconds |\n" + "| --- " * 8 + "|"
    )
    for name in args.names:
        problem = mg.datasets.load(name, data_dir=args.data_dir)
        constant = float(np.mean(list(problem.constant_nlpd().values())))
        data, test = scaled_datasets(problem)
        for label in args.inducing:
            task = default_task(problem, data, FORMS[label], args.max_iter)
            begun = time.perf_counter()
            outcomes = all_outcomes(task)
            seconds = time.perf_counter() - begun
            scores = np.array([score_of(outcome, test) for outcome in outcomes])
            bad = np.sum(~(scores < constant))
            print(
                f"| {name} | {label} | {constant:.3f} | {scores.min():.3f} "
                f"| {np.median(scores):.3f} | {scores.max():.3f} | {bad} "
                f"| {seconds:.0f} |",
                flush=True,
            )


def default_task(
    problem: mg.datasets.Problem,
    data: Dataset,
    form: type[mg.priors.AbstractPrior],
    num_steps: int,
) -> Task:
    """A fit with the default settings of the estimator."""
    num_functions = sum(lik.num_functions for lik in problem.likelihoods)
    count = form.usual_num_latents(len(problem.likelihoods), num_functions)
    return Task(
        data=data,
        held_out=None,
        likelihoods=problem.likelihoods,
        start=ft.partial(
            data_driven_start,
            num_latents=count,
            rank=(1,) * count,
            num_inducing=80,
            form=form,
        ),
        scheme=optim.fng(),
        batch_size=256,
        num_steps=num_steps,
    )


def all_outcomes(task: Task) -> list[Outcome]:
    """Run all starts: one after another on a CPU, together elsewhere."""
    if jax.default_backend() == "cpu":
        return [restarts.run(task, seed) for seed in range(NUM_STARTS)]
    return restarts.run_together(task, list(range(NUM_STARTS)))


def score_of(outcome: Outcome, test: Dataset) -> float:
    """The mean test NLPD over the outputs; infinite for a failed run."""
    if outcome.solution is None:
        return np.inf
    model, q, _ = outcome.solution
    return float(np.mean(held_out_nlpd(model, q, test)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command in (simulated, gap, starts):
        sub = commands.add_parser(command.__name__, help=command.__doc__)
        sub.set_defaults(run=command)
        if command is gap:
            sub.add_argument("--draws", nargs="+", type=int, default=list(range(5)))
            sub.add_argument("--outputs", nargs="+", type=int, default=[3, 2])
        if command is starts:
            sub.add_argument("names", nargs="+", help="data sets")
            sub.add_argument("--inducing", nargs="+", default=list(FORMS))
            sub.add_argument("--data-dir", type=Path)
            sub.add_argument("--max-iter", type=int, default=2000)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
