"""Does sharing help? The joint model against `independent()`, default settings.

    python experiments/sharing.py --data-dir DIR    # predicted: half an hour, two cores
    python experiments/sharing.py jura t1 --splits 0      # two sets, one split
    python experiments/sharing.py --missing 0.3 --jobs 16 --output missing.csv
    python experiments/sharing.py --set num_latents=4     # an argument of MotleyGP
    python experiments/sharing.py jura --scheme lambda_1=1     # a setting of optim.fng
    python experiments/sharing.py --output FILE --by set       # a line per set

Each set is fitted on its fixed splits 0, 1 and 2 (a toy: on its draws from these seeds,
with one and with two inputs), by both models from the same seed and on the same values.
The difference is the joint model's NLPD on the test rows minus that of `independent()`:
below 0, sharing helps. Its standard error is that of the paired log densities over the
test rows. The table has the means over the splits, and marks outputs that the joint
model predicts worse by more than 0.02 plus two standard errors. With --output, a run
that was stopped goes on where it ended.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NPROC", "1")

import joblib
import numpy as np
from real import setting, splits
from resumed import finished, write

import motleygp as mg

FILES = ("london", "naval", "sarcos-4449", "mocap9", "jura", "seattle-weather")
TOYS = {f"{toy}-p{p}": (toy, p) for toy in ("t1", "t2", "t3") for p in (1, 2)}
HOURS_PER_FIT = 10 / 3600
TOLERANCE = 0.02


class Cell(NamedTuple):
    """One comparison: a set, a split, and how both models are fitted."""

    name: str
    split: int
    missing: float
    settings: str


class Score(NamedTuple):
    """Test NLPDs of one output under both models, and their paired difference."""

    name: str
    split: int
    missing: float
    settings: str
    output: str
    joint: float
    independent: float
    difference: float
    error: float

    @property
    def cell(self) -> Cell:
        return Cell(self.name, self.split, self.missing, self.settings)


class Mean(NamedTuple):
    """The mean of several scores."""

    joint: float
    independent: float
    difference: float
    error: float

    @property
    def worse(self) -> bool:
        """Whether the joint model is worse than noise explains; NaN counts as worse."""
        return not self.difference <= TOLERANCE + 2.0 * self.error


def load(name: str, split: int, data_dir: Path | None) -> mg.datasets.Problem:
    """One split of a set that is read from a file, or one draw of a toy."""
    if name in TOYS:
        toy, num_inputs = TOYS[name]
        return mg.datasets.load(toy, num_inputs=num_inputs, seed=split)
    return mg.datasets.load(name, split=split, data_dir=data_dir)


def num_fits(cells: list[Cell], data_dir: Path | None) -> int:
    """The fits of these cells; absent files are found before anything is fitted."""
    names = [cell.name for cell in cells]
    try:
        counts = {name: len(load(name, 0, data_dir).names) for name in set(names)}
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from None
    return sum(1 + counts[name] for name in names)


def thinned(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """y without this share of the values of each output, which are drawn at random."""
    rng = np.random.default_rng([seed, 30])
    y = y.copy()
    for column in y.T:
        column[rng.permutation(len(y))[: round(share * len(y))]] = np.nan
    return y


def compare(cell: Cell, settings: dict[str, Any], data_dir: Path | None) -> list[Score]:
    """The scores of both models on every output of a set."""
    problem = load(cell.name, cell.split, data_dir)
    likelihoods = dict(zip(problem.names, problem.likelihoods, strict=True))
    y_train = thinned(problem.y_train, cell.missing, cell.split)
    train = dict(zip(problem.names, y_train.T, strict=True))
    given = {"random_state": cell.split, "progress": False} | settings
    joint = mg.MotleyGP(likelihoods, **given)
    densities = []
    for model in (joint, joint.independent()):
        predicted = model.fit(problem.x_train, train).predict_dist(problem.x_test)
        values = zip(problem.names, problem.y_test.T, strict=True)
        densities.append([predicted[name].log_prob(y) for name, y in values])
    scores = []
    for name, *pair in zip(problem.names, *densities, strict=True):
        together, alone = (-np.asarray(density) for density in pair)
        rows = together - alone
        error = rows.std(ddof=1) / np.sqrt(len(rows))
        means = (float(value.mean()) for value in (together, alone, rows))
        scores.append(Score(*cell, name, *means, float(error)))
    return scores


def means(scores: list[Score]) -> dict[str, dict[str, "Mean"]]:
    """The means over the splits, by set and output."""
    found: dict[str, dict[str, list[Score]]] = {}
    for score in scores:
        found.setdefault(score.name, {}).setdefault(score.output, []).append(score)
    return {
        name: {output: mean(each) for output, each in own.items()}
        for name, own in found.items()
    }


def table(scores: list[Score]) -> str:
    """The means over the splits, by output and by set."""
    lines = [
        "| set | output | joint | independent | difference | standard error | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    every = []
    for name, outputs in means(scores).items():
        for output, found in outputs.items():
            mark = "worse" if found.worse else ""
            cells = f"{found.error:.4f} | {mark}"
            lines.append(f"| {name} | {output} | {shown(found)} | {cells} |")
        # Outputs share their test rows: their errors do not add up to that of a mean.
        own = list(outputs.values())
        lines.append(f"| {name} | **mean** | {shown(mean(own))} | | |")
        every += own
    marked = sum(found.worse for found in every)
    lines.append(
        f"\nMean over all {len(every)} outputs, of which {marked} are worse: "
        f"difference {mean(every).difference:+.4f}"
    )
    return "\n".join(lines)


def table_by_set(scores: list[Score]) -> str:
    """The means over splits and outputs of each set, and its worst output."""
    lines = [
        "| set | outputs | joint | independent | difference | worst output | worse |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    every = []
    for name, outputs in means(scores).items():
        own = list(outputs.values())
        worst = max(found.difference for found in own)
        cells = f"{shown(mean(own))} | {worst:+.4f} | {sum(m.worse for m in own)}"
        lines.append(f"| {name} | {len(own)} | {cells} |")
        every += own
    total = f"{mean(every).difference:+.4f}"
    lines.append(f"\nMean difference over all {len(every)} outputs: {total}")
    return "\n".join(lines)


def mean(scores: Sequence[Score | Mean]) -> Mean:
    """The mean of scores, and its standard error if they are independent."""
    joint, independent, difference, error = np.array(
        [(s.joint, s.independent, s.difference, s.error) for s in scores]
    ).T
    error = np.sqrt(np.sum(error**2)) / len(scores)
    return Mean(joint.mean(), independent.mean(), difference.mean(), error)


def shown(found: Mean) -> str:
    return f"{found.joint:.4f} | {found.independent:.4f} | {found.difference:+.4f}"


def known_sets(text: str) -> list[str]:
    """The sets of a name; that of a toy stands for all numbers of inputs."""
    found = [n for n in (*FILES, *TOYS) if text in (n, TOYS.get(n, (n,))[0])]
    if not found:
        names = ", ".join((*FILES, "t1", "t2", "t3", *TOYS))
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {names}")
    return found


def share(text: str) -> float:
    if not 0.0 <= (value := float(text)) < 1.0:
        raise argparse.ArgumentTypeError(f"must be at least 0 and below 1; got {text}")
    return value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = [[name] for name in (*FILES, *TOYS)]
    parser.add_argument(
        "names", nargs="*", type=known_sets, default=default, help="data sets"
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--splits", type=splits, default=mg.datasets.SPLITS)
    parser.add_argument("--missing", type=share, default=0.0, help="share of training")
    parser.add_argument("--set", action="append", default=[], type=setting)
    parser.add_argument("--scheme", action="append", default=[], type=setting)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--by", choices=("output", "set"), default="output")
    parser.add_argument("--output", type=Path, help="a CSV file of the single scores")
    args = parser.parse_args()
    if args.output is not None and not args.output.absolute().parent.is_dir():
        parser.error(f"--output must lie in a folder that exists; got {args.output}")
    try:
        mg.MotleyGP().set_params(**settings_of(args))
    except (TypeError, ValueError) as error:
        parser.error(f"--set or --scheme: {error}")
    return args


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of MotleyGP."""
    scheme = {"optimizer": mg.optim.fng(**dict(args.scheme))} if args.scheme else {}
    return dict(args.set) | scheme


def main() -> None:
    args = arguments()
    settings = settings_of(args)
    text = " ".join(f"{key}={value}" for key, value in sorted(args.set + args.scheme))
    names = dict.fromkeys(name for group in args.names for name in group)
    wanted = [Cell(n, s, args.missing, text) for n in names for s in args.splits]
    scores = finished(args.output, Score)
    left = sorted(set(wanted) - {score.cell for score in scores}, key=wanted.index)
    fits = num_fits(left, args.data_dir)
    print(f"predicted: {fits * HOURS_PER_FIT / args.jobs:.1f} hours", flush=True)
    runs = joblib.Parallel(args.jobs, return_as="generator_unordered")
    tasks = (joblib.delayed(compare)(cell, settings, args.data_dir) for cell in left)
    for found in runs(tasks):
        scores += found
        if args.output is not None:
            write(args.output, found)
    asked = [score for score in scores if score.cell in set(wanted)]
    ordered = sorted(asked, key=lambda score: wanted.index(score.cell))
    print({"output": table, "set": table_by_set}[args.by](ordered))


if __name__ == "__main__":
    main()
