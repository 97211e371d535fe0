"""The most memory that a fit holds, against the arrays that it is given.

    python benchmarks/memory.py                    # 5e6 rows of six columns
    python benchmarks/memory.py --rows 1000000 --missing 0.3

Four inputs and two real outputs. The figures are in MB: the arrays; the most that the
process has held up to the end of the fit, above the imported library, with the arrays
included; and the ratio of both, for numbers of rows that double up to the given one.
Each fit is in a process of its own, without programs of earlier ones.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

os.environ["NPROC"] = "1"
os.environ["MOTLEYGP_PROGRAM_CACHE"] = "off"

NUM_INPUTS, NUM_OUTPUTS = 4, 2
MB = 1e6


def held(kind: str) -> float:
    """MB that this process holds (VmRSS), or has held at most (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(rf"{kind}:\s*(\d+) kB", status)[0]) * 1024 / MB


def measured(num_rows: int, missing: float) -> dict[str, float]:
    """The figures of one fit in this process."""
    import numpy as np

    import motleygp as mg

    # JAX starts with its first array.
    small = np.random.default_rng(1).normal(size=(50, NUM_INPUTS + NUM_OUTPUTS))
    model = mg.MotleyGP(["hetgaussian"] * NUM_OUTPUTS, max_iter=50, random_state=0)
    model.set_params(progress=False)
    model.fit(*np.split(small, [NUM_INPUTS], axis=1))
    before = held("VmRSS")
    rng = np.random.default_rng(0)
    X = rng.random((num_rows, NUM_INPUTS))
    Y = rng.normal(size=(num_rows, NUM_OUTPUTS))
    Y += np.sin(6.0 * X[:, :NUM_OUTPUTS])
    if missing:
        Y[rng.random(Y.shape) < missing] = np.nan
    begun = time.perf_counter()
    model.set_params(max_iter=100).fit(X, Y)
    seconds = time.perf_counter() - begun
    arrays, most = (X.nbytes + Y.nbytes) / MB, held("VmHWM") - before
    return {"arrays": arrays, "most": most, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--missing", type=float, default=0.0, help="a share of values")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.rows, args.missing)))
        return
    print("| rows | arrays, MB | most, MB | ratio | fit, s |")
    print("| --- | --- | --- | --- | --- |")
    for rows in (args.rows // 4, args.rows // 2, args.rows):
        command = [sys.executable, "-W", "ignore", __file__, "--child"]
        command += ["--rows", str(rows), "--missing", str(args.missing)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        own = json.loads(done.stdout.splitlines()[-1])
        ratio = own["most"] / own["arrays"]
        print(
            f"| {rows} | {own['arrays']:.0f} | {own['most']:.0f} | {ratio:.2f} "
            f"| {own['seconds']:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
