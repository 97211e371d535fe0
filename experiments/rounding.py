"""The change of a score by rounding: two versions that differ by less agree.

    python experiments/rounding.py london naval --data-dir DIR

Each set is fitted with default settings several times, on split 0 and from the same
seed. The inputs are multiplied by 1 + k 2^-52, k = 0, 1, 2, ..., which changes only
their last digits. Over 2000 steps on minibatches, the last digits of the first step
reach the leading digits of the score. A change of the code that reorders a sum has the
same effect.
"""

import argparse
from pathlib import Path

import numpy as np

import motleygp as mg


def score(name: str, digits: int, data_dir: Path | None, max_iter: int) -> float:
    """Test NLPD with the last digits of the inputs changed."""
    problem = mg.datasets.load(name, split=0, data_dir=data_dir)
    likelihoods = dict(zip(problem.names, problem.likelihoods, strict=True))
    model = mg.MotleyGP(likelihoods, random_state=0, progress=False, max_iter=max_iter)
    moved = problem.x_train * (1.0 + digits * np.finfo(float).eps)
    model.fit(moved, dict(zip(problem.names, problem.y_train.T, strict=True)))
    test = dict(zip(problem.names, problem.y_test.T, strict=True))
    return -model.score(problem.x_test, test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["london", "naval"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--fits", type=int, default=5, help="fits of each set")
    parser.add_argument("--max-iter", type=int, default=2000)
    args = parser.parse_args()
    for name in args.names:
        found = [
            score(name, digits, args.data_dir, args.max_iter)
            for digits in range(args.fits)
        ]
        shown = ", ".join(f"{value:.6f}" for value in found)
        spread = max(found) - min(found)
        print(f"{name}: {shown}; largest minus smallest {spread:.6f}", flush=True)


if __name__ == "__main__":
    main()
