"""The wait for first answers, in fresh processes, against GPflow's first iteration.

    python benchmarks/cold.py --gpflow build/gpflow-env/bin/python
    python benchmarks/cold.py --gpflow ... --readme     # the script of the README, too

The task is the five-output benchmark of `step.py`, on one core. "Cold" has no compiled
programs; "cached" finds those of an earlier process. Times are from the call of `fit`,
with imports done, to the end of its first 50 iterations; of the first `nlpd` and of the
first 5 and 95 % quantiles of 300 rows, which compile too; and of the same again. The
README's script is timed from the start of its process to the end, on all cores. Ratios
are to GPflow's time to its first iteration (with the quadrature that is faster for it),
imports done, in the same run; the table has the medians of all runs.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHUNK, ROWS = 50, 300
VARIABLE = "MOTLEYGP_PROGRAM_CACHE"


def measured(max_iter: int) -> dict[str, float]:
    """Seconds of each wait in this process."""
    import motleygp as mg
    import step

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    arrays = step.problem()
    names = ["hetgaussian", "beta", "bernoulli", "gamma", "exponential"]
    model = mg.MotleyGP(
        names,
        num_latents=step.NUM_LATENTS,
        num_inducing=step.NUM_INDUCING,
        batch_size=step.BATCH,
        posterior="factorised",
        max_iter=max_iter,
        random_state=0,
        progress=False,
    )
    found: dict[str, float] = {}
    begun = time.perf_counter()

    def after_50(report: object) -> bool:
        del report
        found["first 50 iterations"] = time.perf_counter() - begun
        return True

    model.fit(arrays["X"], arrays["Y"], callback=after_50)
    X, Y = arrays["X"][:ROWS], arrays["Y"][:ROWS]

    def quantiles() -> None:
        for predicted in model.predict_dist(X).values():
            predicted.quantile([0.05, 0.95])

    for label, answer in (("nlpd", lambda: model.nlpd(X, Y)), ("quantiles", quantiles)):
        for again in ("", ", again"):
            begun = time.perf_counter()
            answer()
            found[label + again] = time.perf_counter() - begun
    return found


def fresh(cache: str) -> dict[str, str]:
    """The environment of a process that keeps its programs in this folder. Without
    compiled modules, each import would compile Python's source again."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {VARIABLE: cache}


def child(cache: str, *flags: str) -> dict[str, float]:
    """`measured` in a fresh process."""
    environment = fresh(cache) | {"NPROC": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--child", *flags]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def readme(cache: str) -> float:
    """Seconds of the README's script in a fresh process."""
    page = (HERE.parent / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code],
            env=fresh(cache),
            cwd=folder,
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - begun


def gpflow(python: Path) -> float:
    """Seconds from building the model to the end of the first iteration."""
    import step

    flags = ("--steps", "5", "--warmup", "1")
    kinds = (flags, (*flags, "--split"))
    found = [step.gpflow(python, step.problem(), *kind) for kind in kinds]
    return min(each["first_answer_s"] for each in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpflow", type=Path, help="a Python with GPflow")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-iter", type=int, default=2000)
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.max_iter)))
        return
    flags = ("--max-iter", str(args.max_iter))
    runs = []
    for _ in range(args.runs):
        with tempfile.TemporaryDirectory() as folder:
            child(folder, *flags)
            found = {
                f"{name}, {state}": seconds
                for state, cache in (("cold", "off"), ("cached", folder))
                for name, seconds in child(cache, *flags).items()
            }
            if args.readme:
                readme(folder)
                found["README, cold"] = readme("off")
                found["README, cached"] = readme(folder)
        if args.gpflow is not None:
            found["GPflow, first iteration"] = gpflow(args.gpflow)
        runs.append(found)
    print("| wait | seconds | of GPflow's first iteration |\n| --- | --- | --- |")
    for name in runs[0]:
        seconds = statistics.median(run[name] for run in runs)
        ratio = ""
        if args.gpflow is not None:
            pairs = [(run[name], run["GPflow, first iteration"]) for run in runs]
            ratio = f"{statistics.median(ours / its for ours, its in pairs):.2f}"
        print(f"| {name} | {seconds:.2f} | {ratio} |")


if __name__ == "__main__":
    main()
