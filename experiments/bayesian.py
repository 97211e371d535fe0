"""Does averaging over the posterior of the parameters help? Drawn data with few rows.

    python experiments/bayesian.py                    # predicted: 1 h on one core
    python experiments/bayesian.py --rows 20 50 --draws 0 1 2 --output bayesian.csv
    python experiments/bayesian.py --set max_iter=300 # an argument of MotleyGP

Each draw is a sample from a known model: one real output alone, or a real, a binary and
a count that mix two latent processes; with one input, or four of falling relevance. A
model is fitted to the first rows, and 500 others are predicted with `bayesian=False`
and `bayesian=True`. The table has the mean NLPD, the mean difference (below 0,
averaging helps) and its standard error over the draws, and the same for the shares of
values inside the central 50 % and 90 % intervals, by randomised probability integral
transforms. With --output, a run that was stopped goes on where it ended.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NPROC", "1")

import numpy as np
from real import setting
from resumed import finished, write

import motleygp as mg
from motleygp.estimator import predictor

KINDS = {
    "real": {"real": "gaussian"},
    "mixed": {"real": "gaussian", "binary": "bernoulli", "count": "poisson"},
}
INPUTS = {1: np.array([0.2]), 4: np.array([0.4, 0.8, 1.6, 3.2])}
ROWS = (20, 50, 100, 400)
NUM_TEST = 500
NOISE = 0.3
# Functions of the two processes, the second twice as smooth as the first.
WEIGHTS = np.array([[1.0, 0.5], [1.5, -0.7], [0.2, 0.6]])
LEVELS = (0.5, 0.9)
SECONDS_PER_FIT = 20.0


class Cell(NamedTuple):
    """One fit: the kind of data, their numbers of inputs and rows, and their seed."""

    kind: str
    inputs: int
    rows: int
    draw: int
    settings: str


class Score(NamedTuple):
    """Test scores of one output at the learned parameters and averaged over draws."""

    kind: str
    inputs: int
    rows: int
    draw: int
    settings: str
    output: str
    nlpd: float
    averaged: float
    inside_50: float
    inside_90: float
    averaged_50: float
    averaged_90: float

    @property
    def cell(self) -> Cell:
        return Cell(*self[:5])


def simulate(cell: Cell) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Inputs, and one value of each output at every row."""
    rng = np.random.default_rng([cell.draw, cell.inputs, cell.rows])
    x = rng.uniform(size=(cell.rows + NUM_TEST, cell.inputs))
    processes = []
    for factor in (1.0, 2.0):
        scaled = x / (factor * INPUTS[cell.inputs])
        square = np.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1)
        lower = np.linalg.cholesky(np.exp(-0.5 * square) + 1e-8 * np.eye(len(x)))
        processes.append(lower @ rng.normal(size=len(x)))
    if cell.kind == "real":
        return x, {"real": processes[0] + NOISE * rng.normal(size=len(x))}
    real, binary, count = WEIGHTS @ np.stack(processes)
    values = {
        "real": real + NOISE * rng.normal(size=len(x)),
        "binary": 1.0 * (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-binary))),
        "count": 1.0 * rng.poisson(np.exp(1.0 + count)),
    }
    return x, values


def compare(cell: Cell, settings: dict[str, Any]) -> list[Score]:
    """Fit one draw, and score both predictions of its test rows."""
    x, values = simulate(cell)
    train = {name: y[: cell.rows] for name, y in values.items()}
    given = dict(num_inducing=20, random_state=cell.draw, progress=False)
    model = mg.MotleyGP(KINDS[cell.kind], **given | settings)
    with warnings.catch_warnings():
        # Twenty rows may tell nothing about an output.
        warnings.simplefilter("ignore")
        model.fit(x[: cell.rows], train)
    plain, averaged = (
        model.predict_dist(x[cell.rows :], bayesian=bayesian)
        for bayesian in (False, True)
    )
    scores = []
    for name, y in values.items():
        pair, test = (plain[name], averaged[name]), y[cell.rows :]
        nlpds = [mg.metrics.nlpd(p, test) for p in pair]
        inside = [inside_of(mg.metrics.pit(p, test), c) for p in pair for c in LEVELS]
        scores.append(Score(*cell, name, *nlpds, *inside))
    return scores


def inside_of(transforms: np.ndarray, level: float) -> float:
    """The share of values inside the central interval of this level."""
    return float(np.mean(np.abs(transforms - 0.5) <= 0.5 * level))


def table(scores: list[Score]) -> str:
    """The means over the draws, by kind, inputs, output and rows."""
    lines = [
        "| data | inputs | output | rows | draws | NLPD | averaged | difference "
        "| inside 50 % | averaged | inside 90 % | averaged | difference |",
        "| --- " * 13 + "|",
    ]
    groups: dict[tuple[str, int, str, int], list[Score]] = {}
    for s in sorted(scores, key=lambda s: (s.rows, len(s.kind), s.inputs)):
        groups.setdefault((s.kind, s.inputs, s.output, s.rows), []).append(s)
    for (kind, inputs, output, rows), own in groups.items():
        means = np.mean([s[6:] for s in own], axis=0)
        nlpd, averaged, in_50, in_90, averaged_50, averaged_90 = means
        gain = paired([s.averaged - s.nlpd for s in own])
        wider = paired([s.averaged_90 - s.inside_90 for s in own])
        lines.append(
            f"| {kind} | {inputs} | {output} | {rows} | {len(own)} | {nlpd:.3f} | "
            f"{averaged:.3f} | {gain} | {in_50:.2f} | {averaged_50:.2f} | "
            f"{in_90:.2f} | {averaged_90:.2f} | {wider} |"
        )
    return "\n".join(lines)


def paired(differences: list[float]) -> str:
    """The mean over the draws, and its standard error."""
    number = len(differences)
    error = np.std(differences, ddof=1) / np.sqrt(number) if number > 1 else np.nan
    return f"{np.mean(differences):+.3f} ± {error:.3f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--inputs", nargs="+", type=int, choices=INPUTS, default=INPUTS)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--draws", nargs="+", type=int, default=range(10))
    parser.add_argument("--set", action="append", default=[], type=setting)
    parser.add_argument("--output", type=Path, help="a CSV file of the single scores")
    args = parser.parse_args()
    if args.output is not None and not args.output.absolute().parent.is_dir():
        parser.error(f"--output must lie in a folder that exists; got {args.output}")
    try:
        mg.MotleyGP().set_params(**dict(args.set))
    except ValueError as error:
        parser.error(f"--set: {error}")
    return args


def main() -> None:
    args = arguments()
    # Beyond the limit for users, to show that nothing is gained there.
    predictor.MAX_ROWS_OF_DRAWS = max(args.rows)
    settings = dict(args.set)
    text = " ".join(f"{key}={settings[key]}" for key in sorted(settings))
    wanted = [
        Cell(kind, inputs, rows, draw, text)
        for draw in args.draws
        for rows in args.rows
        for kind in args.kinds
        for inputs in args.inputs
    ]
    scores = finished(args.output, Score)
    done = {score.cell for score in scores}
    left = [cell for cell in wanted if cell not in done]
    print(f"predicted: {len(left) * SECONDS_PER_FIT / 60:.0f} minutes", flush=True)
    for cell in left:
        found = compare(cell, settings)
        scores += found
        if args.output is not None:
            write(args.output, found)
    print(table([score for score in scores if score.cell in set(wanted)]))


if __name__ == "__main__":
    main()
