"""How often does a start end at the constant fit? Default settings, many seeds.

    python experiments/starts.py                      # predicted: 1 h on two cores
    python experiments/starts.py drawn --seeds 40     # one table
    python experiments/starts.py --jobs 16 --output starts.csv

Each table is fitted with one and with two real outputs, jointly and by `independent()`,
from every seed. A fit's gain is the constant fit's mean NLPD minus its own, on the
training rows. Prints, for each table, the constant fit, the best gain, and the worst
seed's share of it; a share near 0 is a fit that learnt nothing. With --output, a run
that was stopped goes on where it ended.
"""

import argparse
import csv
import os
from pathlib import Path

os.environ.setdefault("NPROC", "1")

import joblib
import numpy as np
from sklearn import datasets

FORMS = ("one", "two", "independent")
HOURS_PER_FIT = 20 / 3600


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs, and two outputs of which the first is the one that is fitted alone."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(350, 4))
    noise = 0.4 * rng.normal(size=(2, 350))
    y = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + noise[0]
    other = np.cos(1.5 * x[:, 3]) + 0.5 * x[:, 0] + noise[1]
    found = {"drawn": (x, np.stack([y, other], axis=1))}
    x, first = datasets.make_friedman1(300, 5, noise=1.0, random_state=0)
    second = 5.0 * x[:, 0] + 10.0 * np.sin(np.pi * x[:, 3] * x[:, 4])
    second += rng.normal(size=300)
    found["friedman"] = (x, np.stack([first, second], axis=1))
    for name, outputs in (
        ("diabetes", (2, 8)),
        ("wine", (6, 0)),
        ("iris", (2, 3)),
        ("breast_cancer", (4, 27)),
    ):
        data = getattr(datasets, f"load_{name}")()
        columns = data["data"].astype(float)
        rest = [c for c in range(columns.shape[1]) if c not in outputs][:5]
        found[name] = (columns[:, rest], columns[:, list(outputs)])
    return found


def gain(table: str, form: str, seed: int) -> tuple[str, str, int, float, float]:
    """The constant fit's NLPD and the gain over it, both on the training rows."""
    import motleygp as mg

    x, y = tables()[table]
    y = y[:, :1] if form == "one" else y
    model = mg.MotleyGP(["gaussian"] * y.shape[1], random_state=seed, progress=False)
    fitted = model.fit(x, y)
    constant = float(np.mean(list(model.marginal_nlpd(x, y).values())))
    if form == "independent":
        fitted = model.independent().fit(x, y)
    return table, form, seed, constant, constant + fitted.score(x, y)


def finished(path: Path | None) -> list[tuple[str, str, int, float, float]]:
    if path is None or not path.exists():
        return []
    with path.open() as file:
        return [
            (t, f, int(s), float(c), float(g)) for t, f, s, c, g in csv.reader(file)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(tables()), help="tables")
    parser.add_argument("--forms", nargs="*", default=FORMS, choices=FORMS)
    parser.add_argument("--seeds", type=int, default=17)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a CSV file of the single fits")
    args = parser.parse_args()
    rows = finished(args.output)
    done = {row[:3] for row in rows}
    wanted = [
        (t, f, s) for t in args.names for f in args.forms for s in range(args.seeds)
    ]
    left = [task for task in wanted if task not in done]
    print(f"predicted: {len(left) * HOURS_PER_FIT / args.jobs:.1f} hours", flush=True)
    runs = joblib.Parallel(args.jobs, return_as="generator_unordered")
    for row in runs(joblib.delayed(gain)(*task) for task in left):
        rows.append(row)
        if args.output is not None:
            with args.output.open("a") as file:
                csv.writer(file).writerow(row)
    print(f"{'table':16}{'form':14}{'constant':>9}{'best gain':>11}{'worst share':>13}")
    for table, form in dict.fromkeys((t, f) for t, f, _ in wanted):
        own = [row for row in rows if row[:2] == (table, form)]
        gains = np.array([row[4] for row in own])
        share = gains.min() / gains.max()
        print(f"{table:16}{form:14}{own[0][3]:9.3f}{gains.max():11.3f}{share:13.2f}")


if __name__ == "__main__":
    main()
