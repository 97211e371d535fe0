"""Time the training step, or `predict`, of this checkout against that of another one.

    git worktree add build/before HEAD~1
    python benchmarks/versus.py build/before
    python benchmarks/versus.py build/before --of predict

Each checkout runs the step of its own `step.py`, or predicts the means of its rows, in
a process of its own, on the same core. Rounds are short and alternate, because the
machine may be busy: the fastest tenth of them was hardly disturbed. Prints the slowest
round of that tenth, and the median.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]


def serve(of: str, number: int) -> None:
    """Time a round of this process's own checkout per input line."""
    import step

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run = {"step": training, "predict": prediction}[of](number)
    for _ in sys.stdin:
        print(step.milliseconds(run, number), flush=True)


def training(num_steps: int) -> Callable[[], Any]:
    """Some steps of the benchmark, compiled."""
    import jax.numpy as jnp
    import numpy as np

    import step

    rng = np.random.default_rng(0)
    rows = [rng.choice(step.NUM_ROWS, step.BATCH, False) for _ in range(num_steps)]
    start = step.our_step(*step.build(step.problem()))
    return step.compiled(*start, jnp.asarray(np.stack(rows)))[0]


def prediction(num_calls: int) -> Callable[[], Any]:
    """Some calls of `predict` on the rows of the benchmark, compiled."""
    import motleygp as mg
    import step

    arrays = step.problem()
    names = ["hetgaussian", "beta", "bernoulli", "gamma", "exponential"]
    model = mg.MotleyGP(names, max_iter=1, random_state=0, progress=False)
    X = arrays["X"]
    model.fit(X, arrays["Y"]).predict(X)
    return lambda: [model.predict(X) for _ in range(num_calls)]


class Served:
    """A process that times rounds of the step of one checkout."""

    def __init__(self, checkout: Path, of: str, number: int):
        folders = (checkout / "src", checkout / "benchmarks")
        path = os.pathsep.join(str(folder) for folder in folders)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                __file__,
                "--serve",
                f"--of={of}",
                f"--number={number}",
            ],
            env=os.environ | {"PYTHONPATH": path, "NPROC": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self) -> float:
        """Milliseconds per step or call."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print("round", file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--of", choices=("step", "predict"), default="step")
    parser.add_argument("--number", type=int, help="steps (20) or calls (1) per round")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    number = args.number or {"step": 20, "predict": 1}[args.of]
    if args.serve:
        return serve(args.of, number)
    if args.checkout is None:
        parser.error("name the folder of the other checkout")
    other, ours = (Served(c.resolve(), args.of, number) for c in (args.checkout, HERE))
    pairs = [(other.round(), ours.round()) for _ in range(args.rounds)]
    print(f"{f'ms a {args.of}':20}{'other':>8}{'this':>8}{'this / other':>14}")
    for label, place in (("fastest tenth", 0), ("median", 4)):
        its, mine = (
            statistics.quantiles(ms, n=10)[place] for ms in zip(*pairs, strict=True)
        )
        print(f"{label:20}{its:8.3f}{mine:8.3f}{mine / its:14.3f}")


if __name__ == "__main__":
    sys.exit(main())
