"""The toys: 20 starts of every scheme, and the tables of docs/results.md.

    python experiments/toys.py prepare   # starts, on any machine
    python experiments/toys.py run       # training, under vmap: for a GPU
    python experiments/toys.py table     # scores, on any machine

The stages exchange files in --folder, so that each can run on another machine; on one
machine with a GPU, run the three in this order. `prepare` and `run` take job names.
"""

import argparse
from pathlib import Path

from toy_study.methods import all_jobs
from toy_study.runs import prepare, run
from toy_study.scores import scores
from toy_study.tables import default_table, extra_table, paper_table

NUM_STARTS = 20
NUM_ITERATIONS = 2000
NUM_INDUCING = 80


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("prepare", "run", "table"))
    parser.add_argument("jobs", nargs="*", help="method:toy:P; all by default")
    parser.add_argument("--folder", type=Path, default=Path("build/toys"))
    parser.add_argument("--out", type=Path, help="the file that `run` writes")
    parser.add_argument("--iterations", type=int, default=NUM_ITERATIONS)
    parser.add_argument("--num-inducing", type=int, default=NUM_INDUCING)
    parser.add_argument("--starts", type=int, default=NUM_STARTS)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    jobs = args.jobs or all_jobs()
    if args.stage == "prepare":
        prepare(args.folder, jobs, args.num_inducing, args.starts)
    elif args.stage == "run":
        out = args.out or args.folder / "result.npz"
        run(args.folder, out, jobs, args.iterations)
    else:
        held = scores(sorted(args.folder.glob("result*.npz")))
        for table in (default_table, paper_table, extra_table):
            print(table(held), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
