"""Compare MotleyGP with GPflow, GPyTorch and GPJax on one core, part by part.

    make bench-peers
    python benchmarks/peers.py --only grid      # or match, step, bound, limit

- match: the models are the same: every library's own bound at equal parameters.
- step: milliseconds per iteration, seconds to the first and memory, for five outputs of
  five types, each library with the scheme that is natural to it.
- grid: the same for Gaussian outputs by inducing points, batch and inputs.
- bound: the time to one bound on all rows, which MotleyGP computes for all.
- limit: our step beside the BLAS, LAPACK and special-function calls that it needs.

Every case is kept in a file when it is done, with the time at which it began, so that a
run that was stopped goes on where it was; `--again` measures anew.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ["NPROC"] = "1"  # XLA's thread pool; read when JAX starts
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # that of LAPACK

import sys

from comparison import bound, grid, limit, match, steps
from comparison.workers import BARE, OURS, Pythons

PEERS = ("GPflow", "GPyTorch", "GPJax")
FOLDER = Path("build")


class Part(NamedTuple):
    """The cases of a part, how each is measured, how all are shown, and about how many
    minutes it takes."""

    cases: Sequence[str]
    measure: Callable[[Pythons, str], Any]
    show: Callable[[dict[str, Any]], None]
    minutes: float


def _one_by_one(show: Callable[[str, Any], None]) -> Callable[[dict[str, Any]], None]:
    def each(found: dict[str, Any]) -> None:
        for label, own in found.items():
            show(label, own)

    return each


def _grid(found: dict[str, Any]) -> None:
    grid.show(found)
    grid.show_waits(found)


PARTS = {
    "match": Part(tuple(match.cases()), match.measure, match.show, 2),
    "step": Part(tuple(steps.CASES), steps.measure, _one_by_one(steps.show), 4),
    "grid": Part(grid.CASES, grid.measure, _grid, 15),
    "bound": Part(tuple(bound.CASES), bound.measure, _one_by_one(bound.show), 8),
    "limit": Part(tuple(limit.CASES), limit.measure, _one_by_one(limit.show), 2),
}


def kept(name: str, folder: Path, again: bool) -> dict[str, Any]:
    """The cases of a part that were measured before."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() and not again else {}


def run(name: str, pythons: Pythons, folder: Path, again: bool) -> None:
    """Measure the cases of a part that are not kept, and show all."""
    part, found = PARTS[name], kept(name, folder, again)
    for number, label in enumerate(part.cases, start=1):
        if label in found:
            continue
        begun = time.time()
        found[label] = part.measure(pythons, label)
        (folder / f"{name}.json").write_text(json.dumps(found))
        seconds = time.time() - begun
        told = f"{name} {number}/{len(part.cases)}: {label}, {seconds:.0f} s"
        print(told, file=sys.stderr, flush=True)
    part.show({label: found[label] for label in part.cases})
    print(flush=True)


def minutes_left(names: Sequence[str], folder: Path, again: bool) -> float:
    """The predicted time of what is not kept."""
    total = 0.0
    for name in names:
        part, found = PARTS[name], kept(name, folder, again)
        open_cases = [label for label in part.cases if label not in found]
        total += part.minutes * len(open_cases) / len(part.cases)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--again", action="store_true", help="measure anew")
    parser.add_argument("--out", type=Path, default=FOLDER / "peers")
    parser.add_argument("--environments", type=Path, default=FOLDER)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    args.out.mkdir(parents=True, exist_ok=True)
    ours = Path(sys.executable)
    pythons = {OURS: ours, BARE: ours}
    for peer in PEERS:
        pythons[peer] = args.environments / f"{peer.lower()}-env" / "bin" / "python"
    names = [args.only] if args.only else list(PARTS)
    left = minutes_left(names, args.out, args.again)
    print(f"about {left:.0f} minutes on one core", file=sys.stderr, flush=True)
    for name in names:
        run(name, pythons, args.out, args.again)


if __name__ == "__main__":
    main()
