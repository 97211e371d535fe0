"""Convolution processes: the tables of docs/convolution.md.

    python experiments/convolution.py simulated     # against exact posteriors
    python experiments/convolution.py starts mocap7 --data-dir DIR   # 20 starts

`starts` runs all starts at once on a GPU, and one after another on a CPU.
"""

import argparse
import functools as ft
import time
from pathlib import Path

import jax
import numpy as np
from drawn import Draw, convolution, draw, exact_nlpd, observed_rows

import motleygp as mg
from motleygp import optim
from motleygp.inference import Dataset, held_out_nlpd, make_dataset, standardising
from motleygp.training import Outcome, Task, data_driven_start, restarts

FORMS = {
    "function": mg.priors.Convolution,
    "latent": mg.priors.LatentConvolution,
}
NUM_STARTS = 20


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
            prior = convolution(weights, smoothing, np.zeros((2, 1, 1)))
            drawn = draw(seed, prior, length=1)
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
    for command in (simulated, starts):
        sub = commands.add_parser(command.__name__, help=command.__doc__)
        sub.set_defaults(run=command)
        if command is starts:
            sub.add_argument("names", nargs="+", help="data sets")
            sub.add_argument("--inducing", nargs="+", default=list(FORMS))
            sub.add_argument("--data-dir", type=Path)
            sub.add_argument("--max-iter", type=int, default=2000)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
