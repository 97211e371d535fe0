"""The paper's real data with default settings: the table of docs/results.md.

    python experiments/real.py --data-dir DIR
    python experiments/real.py --prior convolution --inducing latent --data-dir DIR
    python experiments/real.py naval --set cool_down=0.3   # other settings of a scheme
    python experiments/real.py naval --splits 0,2 --precise   # every digit of a score
    python experiments/real.py london --effort thorough
    python experiments/real.py --restarts 20      # at once on a GPU

Prints the mean NLPD over the outputs on the test rows of the fixed splits 0, 1 and 2
(real outputs standardised), beside that of the constant fit. With several starts, the
best by the bound is scored, and "diverged" counts those that failed or ended with a
bound below the log likelihood of the constant fit. With `--precise`, two versions of
the library can be compared to the last bit.
"""

import argparse
import ast
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import motleygp as mg
from motleygp.estimator.plan import EFFORTS, FEW_ROWS
from motleygp.likelihoods import constant_log_prob, fit_constant

NAMES = ("london", "naval", "sarcos-4449", "mocap7", "mocap9", "traffic-8am")


class Score(NamedTuple):
    """Test NLPD, that of the constant fit, seconds of `fit`, and diverged starts."""

    nlpd: float
    constant: float
    seconds: float
    diverged: int


def score(name: str, split: int, args: argparse.Namespace) -> Score:
    """A set on one split."""
    problem = mg.datasets.load(name, split=split, data_dir=args.data_dir)
    columns = dict(zip(problem.names, problem.likelihoods, strict=True))
    optimizer, batch_size = args.optimizer, args.batch_size
    if args.set:
        num_rows = len(problem.x_train)
        usual = num_rows if num_rows <= FEW_ROWS else EFFORTS[args.effort].batch_size
        batch_size = batch_size or usual
        share = min(1.0, batch_size / num_rows)
        optimizer = mg.optim.usual(optimizer, share=share, **dict(args.set))
    model = mg.MotleyGP(
        columns,
        prior=args.prior,
        inducing=args.inducing,
        optimizer=optimizer,
        max_iter=args.max_iter,
        num_inducing=args.num_inducing,
        batch_size=batch_size,
        effort=args.effort,
        restarts=args.restarts,
        random_state=args.seed + split,
        progress=False,
    )
    begun = time.perf_counter()
    model.fit(problem.x_train, dict(zip(problem.names, problem.y_train.T, strict=True)))
    seconds = time.perf_counter() - begun
    test = dict(zip(problem.names, problem.y_test.T, strict=True))
    constant = float(np.mean(list(problem.constant_nlpd().values())))
    nlpd = -model.score(problem.x_test, test)
    return Score(nlpd, constant, seconds, diverged(model, problem))


def diverged(model: mg.MotleyGP, problem: mg.datasets.Problem) -> int:
    """The starts that failed, or ended with a bound below the log likelihood of the
    constant fit."""
    scaling, most = model.fitted_.scaling, 0.0
    for d, likelihood in enumerate(problem.likelihoods):
        y = problem.y_train[:, d]
        y = (y[~np.isnan(y)] - scaling.y_shift[d]) / scaling.y_scale[d]
        most -= float(np.sum(constant_log_prob(*fit_constant(likelihood, y), y)))
    # A score that is not a number is not below either.
    return sum(not start["score"] < most for start in model.restarts_)


def setting(text: str) -> tuple[str, Any]:
    """An argument as key=value; a value that is no Python literal is text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be key=value; got {text}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def splits(text: str) -> tuple[int, ...]:
    """Numbers of splits, such as 0,2."""
    numbers = tuple(int(number) for number in text.split(","))
    unknown = [split for split in numbers if split not in mg.datasets.SPLITS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no split {unknown[0]}")
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, help="data sets")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--prior", default="lmc")
    parser.add_argument("--inducing", default="auto")
    parser.add_argument("--optimizer", default="fng", choices=tuple(mg.optim.BY_NAME))
    parser.add_argument("--set", action="append", default=[], type=setting)
    parser.add_argument("--max-iter", type=int)
    parser.add_argument("--num-inducing", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--effort", default="standard", choices=tuple(EFFORTS))
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--splits", type=splits, default=mg.datasets.SPLITS, help="such as 0,1,2"
    )
    parser.add_argument("--precise", action="store_true", help="print all digits")
    args = parser.parse_args()
    shown = ", ".join(map(str, args.splits))
    last = " diverged |" if args.restarts > 1 else ""
    print(f"| set | test NLPD, splits {shown} | mean | constant fit | seconds |{last}")
    print("| --- | --- | --- | --- | --- |" + " --- |" * bool(last))
    for name in args.names:
        found = [score(name, split, args) for split in args.splits]
        digits = repr if args.precise else "{:.3f}".format
        each = ", ".join(digits(float(own.nlpd)) for own in found)
        mean, constant, seconds, _ = np.mean(found, axis=0)
        total = sum(own.diverged for own in found)
        last = f" {total} of {args.restarts * len(found)} |" if last else ""
        print(
            f"| {name} | {each} | {mean:.3f} | {constant:.3f} | {seconds:.0f} |{last}",
            flush=True,
        )


if __name__ == "__main__":
    main()
