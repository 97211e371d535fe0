"""Time the training step of this checkout against that of another one.

    git worktree add build/before HEAD~1
    python benchmarks/versus.py build/before

Each checkout runs the step of its own `step.py` in a process of its own, on the same
core. Rounds are short and alternate, because the machine may be busy: the fastest tenth
of them was hardly disturbed. Prints the slowest round of that tenth, and the median.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def serve(num_steps: int) -> None:
    """Compile the step beside this process's `step.py`; time a round per input line."""
    import jax.numpy as jnp
    import numpy as np

    import step

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rng = np.random.default_rng(0)
    rows = [rng.choice(step.NUM_ROWS, step.BATCH, False) for _ in range(num_steps)]
    start = step.our_step(*step.build(step.problem()))
    run, _, _ = step.compiled(*start, jnp.asarray(np.stack(rows)))
    for _ in sys.stdin:
        print(step.milliseconds(run, num_steps), flush=True)


class Served:
    """A process that times rounds of the step of one checkout."""

    def __init__(self, checkout: Path, num_steps: int):
        folders = (checkout / "src", checkout / "benchmarks")
        path = os.pathsep.join(str(folder) for folder in folders)
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--serve", "--steps", str(num_steps)],
            env=os.environ | {"PYTHONPATH": path, "NPROC": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self) -> float:
        """Milliseconds per step."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print("round", file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--steps", type=int, default=20, help="steps per round")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.steps)
    if args.checkout is None:
        parser.error("name the folder of the other checkout")
    other, ours = (Served(c.resolve(), args.steps) for c in (args.checkout, HERE))
    pairs = [(other.round(), ours.round()) for _ in range(args.rounds)]
    print(f"{'ms a step':20}{'other':>8}{'this':>8}{'this / other':>14}")
    for label, place in (("fastest tenth", 0), ("median", 4)):
        its, mine = (
            statistics.quantiles(ms, n=10)[place] for ms in zip(*pairs, strict=True)
        )
        print(f"{label:20}{its:8.3f}{mine:8.3f}{mine / its:14.3f}")


if __name__ == "__main__":
    sys.exit(main())
