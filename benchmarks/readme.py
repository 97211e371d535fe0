"""The table of measurements in the README.

    python benchmarks/readme.py
    python benchmarks/readme.py --gpflow build/gpflow-env/bin/python

Prints held-out scores on several draws of the README's data, for one joint model, one
model per output, and the constant fit. Then prints the time of one training step of
five outputs on one core, beside GPflow's if --gpflow is given (see step.py).
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

import motleygp as mg

HELD_OUT = 100


def scores(seed: int) -> tuple[float, float, float]:
    """Mean NLPD on held-out rows: joint, one model per output, constant."""
    X, Y = mg.datasets.houses(seed=seed)
    train, test = slice(HELD_OUT, None), slice(0, HELD_OUT)
    joint = mg.MotleyGP(outputs="auto", random_state=0, progress=False)
    apart = joint.independent().fit(X[train], Y[train])
    joint.fit(X[train], Y[train])
    constant = joint.marginal_nlpd(X[test], Y[test])
    return (
        -joint.score(X[test], Y[test]),
        -apart.score(X[test], Y[test]),
        float(np.mean(list(constant.values()))),
    )


def step_times(gpflow: Path | None) -> dict[str, float]:
    """Milliseconds per step by name, as step.py prints them."""
    command = [sys.executable, str(Path(__file__).with_name("step.py"))]
    if gpflow is not None:
        command += ["--gpflow", str(gpflow)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [line for line in done.stdout.splitlines()[1:] if line[:1].strip()]
    return {line[:32].strip(): float(line[32:].split()[0]) for line in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpflow", type=Path, help="a Python with GPflow")
    parser.add_argument("--draws", type=int, default=3, help="draws of the house sales")
    args = parser.parse_args()
    found = np.array([scores(seed) for seed in range(args.draws)])
    joint, apart, constant = found.mean(axis=0)
    times = step_times(args.gpflow)
    rivals = [ms for name, ms in times.items() if name.startswith("GPflow")]
    fastest = f"{min(rivals):.1f} ms" if rivals else ""
    print("| | MotleyGP | one model per output | constant fit | GPflow |")
    print("| --- | --- | --- | --- | --- |")
    label = f"NLPD on held-out house sales, mean of {args.draws} draws"
    print(f"| {label} | **{joint:.3f}** | {apart:.3f} | {constant:.3f} | |")
    ours = f"**{times['MotleyGP']:.1f} ms**"
    print(f"| one training step, five outputs, one core | {ours} | | | {fastest} |")
    gains = np.round(found[:, 1] - found[:, 0], 3).tolist()
    print(f"gain over one model per output, by draw: {gains}")


if __name__ == "__main__":
    main()
