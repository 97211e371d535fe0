"""A table of patients: a binary, a count, a positive and a real column with gaps.

The inputs are age, body mass index, smoking and hours of exercise. The outputs are
diabetes, visits to the doctor, triglycerides in the blood and blood pressure. A quarter
of their values is missing, and `outputs="auto"` infers their types. The model imputes
the missing values of 300 other patients. The table compares the errors with those of
the mean of each column. The pictures show the calibration on these patients and the
correlation between the parameter functions.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import motleygp as mg
from motleygp import plotting


def draw(num_rows: int = 1100, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The patients and their measurements, without gaps."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.uniform(20.0, 85.0, num_rows),
            "bmi": 18.0 + rng.gamma(4.0, 2.2, num_rows),
            "smoker": rng.random(num_rows) < 0.3,
            "exercise": rng.gamma(2.0, 1.5, num_rows),
        }
    )
    old, heavy = (X["age"] - 50.0) / 20.0, (X["bmi"] - 27.0) / 5.0
    risk = 0.8 * np.tanh(old) + 0.8 * heavy + 0.5 * X["smoker"] - 0.2 * X["exercise"]
    Y = pd.DataFrame(
        {
            "diabetes": rng.random(num_rows) < 1.0 / (1.0 + np.exp(1.0 - 1.8 * risk)),
            "visits": rng.poisson(np.exp(0.6 + 0.45 * risk)),
            "triglycerides": rng.gamma(6.0, 1.6 * np.exp(0.35 * risk) / 6.0),
            "pressure": rng.normal(125.0 + 9.0 * risk, 6.0 + 3.0 * (old > 0.0)),
        }
    )
    Y["diabetes"] = np.where(Y["diabetes"], "yes", "no")
    return X, Y


def main(max_iter: int = 1200, folder: Path = Path(), num_inducing: int = 60) -> None:
    X, Y = draw()
    seen = Y.mask(np.random.default_rng(1).random(Y.shape) < 0.25)
    model = mg.MotleyGP(num_inducing=num_inducing, max_iter=max_iter, random_state=0)
    model.fit(X[:800], seen[:800])
    X, Y, means, seen = X[800:], Y[800:], seen[:800].mean(numeric_only=True), seen[800:]
    table = model.metrics(X, Y)[["nlpd", "coverage95", "accuracy"]]
    filled, numbers = model.impute(X, seen)[means.index], Y[means.index]
    for name, values in {"imputed": filled, "column mean": means}.items():
        squares = ((values - numbers) ** 2).where(seen[means.index].isna())
        table[f"{name} rmse"] = np.sqrt(squares.mean())
    print(table.round(3).to_string())

    p = model.predict_dist(X)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    for output in numbers:
        plotting.coverage_curve(axes[0], p[output], Y[output], label=output)
    axes[0].legend(loc="upper left", fontsize="small")
    sick = (Y["diabetes"] == "yes").astype(float)
    plotting.reliability_curve(axes[1], p["diabetes"], sick, bins=8)
    plotting.heat_map(axes[2], model.correlation())
    for ax, title in zip(axes, ("intervals", "diabetes", "correlation"), strict=True):
        ax.set_title(title)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "health_table.png", dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-iter", type=int, default=1200)
    parser.add_argument("-o", dest="folder", type=Path, default=Path())
    main(**vars(parser.parse_args()))
