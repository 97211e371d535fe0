"""What missing values and inputs of their own cost, for many outputs.

    python benchmarks/missing.py                       # 20 outputs of 20 000 rows
    python benchmarks/missing.py --outputs 40 --rows 100000 --forms missing

The outputs are real and share their inputs; "missing" has 30 % of the values missing at
random, and with "own inputs" each output has rows of its own. The start is everything
from the call of `fit` to the end of the first 50 iterations, compilation included (in a
process of its own, without programs of earlier ones). Prints both, and the ratio to
complete outputs, on one core.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

os.environ["NPROC"] = "1"
os.environ["MOTLEYGP_PROGRAM_CACHE"] = "off"

import numpy as np

import motleygp as mg
from motleygp.training import Report

FORMS = ("complete", "missing", "own inputs")
CHUNK, CHUNKS = 50, 5


def data(form: str, num_outputs: int, num_rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.random((num_rows, 3))
    f = np.sin(6.0 * x @ rng.normal(size=(3, num_outputs)))
    y = f + 0.1 * rng.normal(size=f.shape)
    names = [f"y{d}" for d in range(num_outputs)]
    if form == "own inputs":
        own = rng.random((num_outputs, num_rows, 3))
        return dict(zip(names, own, strict=True)), dict(zip(names, y.T, strict=True))
    if form == "missing":
        y[rng.random(y.shape) < 0.3] = np.nan
    return x, dict(zip(names, y.T, strict=True))


def measured(form: str, num_outputs: int, num_rows: int) -> tuple[float, float]:
    """Seconds to the end of the first chunk, and milliseconds per later iteration."""
    X, Y = data(form, num_outputs, num_rows)
    times = []

    def tell(report: Report) -> bool:
        del report
        times.append(time.perf_counter())
        return len(times) == CHUNKS

    model = mg.MotleyGP(["gaussian"] * num_outputs, random_state=0, progress=False)
    begun = time.perf_counter()
    model.fit(X, Y, callback=tell)
    fastest = float(np.min(np.diff(times)))
    return times[0] - begun, 1e3 * fastest / CHUNK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if args.child:
        print(json.dumps(measured(args.forms[0], args.outputs, args.rows)))
        return
    print("| data | start, s | ratio | iteration, ms | ratio |")
    print("| --- | --- | --- | --- | --- |")
    first = None
    for form in args.forms:
        command = [sys.executable, __file__, "--child", "--forms", form]
        command += ["--outputs", str(args.outputs), "--rows", str(args.rows)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        start, step = json.loads(done.stdout.splitlines()[-1])
        first = first or (start, step)
        ratios = start / first[0], step / first[1]
        cells = f"{start:.1f} | {ratios[0]:.2f} | {step:.2f} | {ratios[1]:.2f}"
        print(f"| {form} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
