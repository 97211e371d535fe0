"""The published code of the paper's authors, by its re-implementation.

    python experiments/authors.py --data-dir DIR      # LONDON and NAVAL, 5 seeds
    python experiments/authors.py --rows code --seeds 101   # the code's own runs
    python experiments/authors.py sarcos-4449 --prior convolution --schemes fng hybrid
    python experiments/authors.py t2 --num-inputs 1 2 10 --schemes fng hybrid adam sgd

`--rows code` takes the rows of LONDON or NAVAL as the code does: each output has a
split and an order of its own, both from NumPy's seed 101, and the noise of theta
follows the code's stream of random numbers. Without it, the rows are those of the
library's split, and only the start has the code's numbers. The predicted time is for
one core; on an accelerator, all seeds run together. A run that was stopped goes on from
--output.
"""

import argparse
import itertools as it
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("NPROC", "1")

import jax
import numpy as np
import scipy.io
from resumed import finished, write

import motleygp as mg
from motleygp_reproduce import authors

# Seconds of an iteration with the linear model and with the convolution prior.
SECONDS = {"london": (0.002, 0.002), "naval": (0.006, 0.007)}
OTHER_SECONDS = (0.01, 0.05)
CODE_SEED, TRAIN_SHARE = 101, 0.75
CODE_SETS = ("london", "naval")


class Cell(NamedTuple):
    """The runs of one problem by one scheme; `num_inputs` is for the toys."""

    name: str
    num_inputs: int
    prior: str
    scheme: str
    rows: str

    @property
    def seconds(self) -> float:
        """The predicted seconds of one iteration."""
        known = (cost for name, cost in SECONDS.items() if self.name.startswith(name))
        linear, convolved = next(known, OTHER_SECONDS)
        return linear if self.prior == "lmc" else convolved


class Score(NamedTuple):
    """Test NLPD of one output after some iterations; `nelbo` is the mean reported minus
    bound of the run's last 50 iterations."""

    name: str
    num_inputs: int
    prior: str
    scheme: str
    rows: str
    seed: int
    iteration: int
    output: str
    nlpd: float
    nelbo: float
    seconds: float
    diverged: int


def problem_of(cell: Cell, folder: Path | None) -> mg.datasets.Problem:
    """The rows of a cell."""
    problem = mg.datasets.load(cell.name, num_inputs=cell.num_inputs, data_dir=folder)
    if cell.rows == "library":
        return problem
    x, y = in_file_order(cell.name, folder)
    return in_code_order(problem, x, y)


def in_file_order(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and prepared outputs, in the order of the file."""
    folder = folder or Path(os.environ["MOTLEYGP_DATA"])
    if name == "london":
        held = scipy.io.loadmat(folder / "london" / "london.mat")
        price = np.log(held["Yprice"].ravel().astype(float))
        real = (price - price.mean()) / price.std()
        return held["X"], np.stack([real, held["Ycontract"].ravel()], axis=1)
    values = np.loadtxt(folder / "naval" / "naval.txt")
    y = values[:, 16:] - values[:, 16:].min(axis=0)
    y = np.clip(y / y.max(axis=0), 1e-5, [0.999, 1.0])
    return np.delete(values[:, :16], 8, axis=1), y


def in_code_order(
    problem: mg.datasets.Problem, x: np.ndarray, y: np.ndarray
) -> mg.datasets.Problem:
    """Each output with the split and the order of its own that the code gives it."""
    rng = np.random.RandomState(CODE_SEED)
    cut = int(TRAIN_SHARE * len(x))
    parts: tuple[list, list] = ([], [])
    for d in range(y.shape[1]):
        order = rng.permutation(len(x))
        for part, rows in zip(parts, (order[:cut], order[cut:]), strict=True):
            own = np.full((len(rows), y.shape[1]), np.nan)
            own[:, d] = y[rows, d]
            part.append((x[rows], own))
    (x_train, y_train), (x_test, y_test) = (
        [np.concatenate(column) for column in zip(*part, strict=True)] for part in parts
    )
    return problem._replace(
        x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test
    )


def run(cell: Cell, seeds: Sequence[int], args: argparse.Namespace) -> list[Score]:
    """Train from every seed and score."""
    settings = authors.settings_of(
        cell.name, prior=cell.prior, num_inputs=cell.num_inputs
    )
    runs = authors.fit_seeds(
        problem_of(cell, args.data_dir),
        settings,
        scheme=cell.scheme,
        seeds=seeds,
        iterations=args.iterations,
        score_at=args.score_at or (args.iterations,),
        literal=cell.rows == "code",
    )
    return [
        Score(
            *cell,
            seed,
            iteration,
            output,
            nlpd,
            float(found.nelbo[-50:].mean()),
            round(found.seconds, 2),
            int(found.diverged),
        )
        for seed, found in zip(seeds, runs, strict=True)
        for iteration, scores in found.scores.items()
        for output, nlpd in scores.items()
    ]


def table(scores: Iterable[Score]) -> str:
    """Mean NLPD over outputs after every number of iterations, over the seeds."""
    by_seed: dict[tuple, dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for s in scores:
        by_seed[(*s[: len(Cell._fields)], s.iteration)][s.seed].append(s.nlpd)
    lines = [
        "| set | P | prior | scheme | rows | iterations | seeds | mean | std | median "
        "|",
        "|" + " --- |" * 10,
    ]
    for key, seeds in by_seed.items():
        means = np.array([np.mean(values) for values in seeds.values()])
        found = (means.mean(), means.std(), np.median(means))
        shown = [*key, len(means), *(f"{value:.3f}" for value in found)]
        lines.append("| " + " | ".join(map(str, shown)) + " |")
    return "\n".join(lines)


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """All problems and schemes; toys with every number of inputs."""
    for name in args.names:
        if args.rows == "code" and name not in CODE_SETS:
            raise SystemExit(f"--rows code is for {', '.join(CODE_SETS)}; got {name}.")
    found = it.product(args.names, args.num_inputs, args.prior, args.schemes)
    toys = ("t1", "t2", "t3")
    cells = [
        Cell(name, p if name in toys else 1, prior, scheme, args.rows)
        for name, p, prior, scheme in found
    ]
    return list(dict.fromkeys(cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["london", "naval"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--num-inputs", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--prior", nargs="+", choices=authors.PRIORS, default=[authors.PRIORS[0]]
    )
    parser.add_argument(
        "--schemes", nargs="+", choices=authors.SCHEMES, default=[authors.SCHEMES[0]]
    )
    parser.add_argument("--rows", choices=("library", "code"), default="library")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--score-at", type=int, nargs="+")
    parser.add_argument("--output", type=Path, help="a CSV file to go on with")
    args = parser.parse_args()
    scores = finished(args.output, Score)
    done = {(Cell(*s[: len(Cell._fields)]), s.seed) for s in scores}
    todo = [(cell, s) for cell in cells_of(args) for s in args.seeds]
    todo = [pair for pair in todo if pair not in done]
    hours = args.iterations * sum(cell.seconds for cell, _ in todo) / 3600
    print(f"{len(todo)} runs to do, {len(done)} done: {hours:.2f} hours predicted")
    alone = jax.default_backend() == "cpu"
    for cell, group in it.groupby(todo, key=lambda pair: pair[0]):
        seeds = [seed for _, seed in group]
        for some in [[seed] for seed in seeds] if alone else [seeds]:
            found = run(cell, some, args)
            if args.output is not None:
                write(args.output, found)
            scores += found
            print(cell, some, f"{found[0].seconds} s", flush=True)
    print(table(scores))


if __name__ == "__main__":
    main()
