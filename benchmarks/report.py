"""Time the report of a model with many outputs on a large table: `motleygp report`.

    python benchmarks/report.py [--outputs 40] [--rows 100000]

The outputs cycle through the likelihoods, and a tenth of the values is missing. The
model is fitted for only a few iterations, because its quality does not matter here. The
time is that of the whole command, with compilation.
"""

import argparse
import itertools as it
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import motleygp as mg

_INPUTS = ["a", "b", "c"]
_FITTED = 300


def draw(num_outputs: int, num_rows: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Inputs and outputs in one table, and the likelihood of each output."""
    rng = np.random.default_rng(0)
    x = rng.random((num_rows, len(_INPUTS)))
    columns = dict(zip(_INPUTS, x.T, strict=True))
    outputs = {}
    for number, name in zip(range(num_outputs), it.cycle(mg.likelihoods.BY_NAME)):
        likelihood = mg.likelihoods.get(name)
        f = np.sin(6.0 * x @ rng.normal(size=(len(_INPUTS), likelihood.num_functions)))
        y = np.asarray(likelihood.sample(rng, f.T), dtype=float)
        y[~likelihood.in_support(y) | (rng.random(num_rows) < 0.1)] = np.nan
        columns[f"{name}{number}"], outputs[f"{name}{number}"] = y, name
    return pd.DataFrame(columns), outputs


def measure(num_outputs: int, num_rows: int) -> dict[str, float]:
    """The seconds of the command, and the megabytes of its page."""
    table, outputs = draw(num_outputs, num_rows)
    settings = {"max_iter": 5, "num_inducing": 50, "progress": False}
    model = mg.MotleyGP(outputs, random_state=0, **settings)
    # Complete rows, which compile fastest.
    some = table[:_FITTED].ffill().bfill()
    model.fit(some[_INPUTS], some[list(outputs)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "m.motley")
        table.to_csv(folder / "data.csv", index=False)
        words = ["report", "m.motley", "data.csv", "-o", "r.html", "--quiet"]
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "motleygp", *words],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - start
        size = (folder / "r.html").stat().st_size
    return {"seconds": round(seconds, 1), "megabytes": round(size / 1e6, 2)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=40)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    print(json.dumps(measure(given.outputs, given.rows)))
