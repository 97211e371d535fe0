"""House sales on a map: two outputs of different types over two coordinates.

The sales are drawn over a town like London and are denser in the middle. The outputs
are the change of the price in a year (in per cent, noisier in the centre) and whether a
flat was sold. A fifth of the values is missing. One model learns both and draws maps.
It is scored on 400 other sales, beside a fit that ignores the coordinates.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import motleygp as mg
from motleygp import plotting

OUTPUTS = {"change": "hetgaussian", "flat": "bernoulli"}


def river(east: np.ndarray) -> np.ndarray:
    """The north coordinate of the river."""
    return 2.0 * np.sin(0.45 * east) - 1.0


def draw(num_rows: int = 1600, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The coordinates of sales, in km from the centre, and the outputs."""
    rng = np.random.default_rng(seed)
    east, north = rng.normal(size=(2, num_rows)) * [[7.0], [5.5]]
    centre = np.exp(-(east**2 + north**2) / 30.0)
    bank = np.exp(-((north - river(east)) ** 2) / 3.0)
    growth = 3.0 + 5.0 * bank - 4.0 * centre + 0.25 * east
    change = growth + (0.8 + 2.5 * centre) * rng.normal(size=num_rows)
    logit = 4.0 * centre + 2.5 * bank - 2.2
    flat = (rng.random(num_rows) < 1.0 / (1.0 + np.exp(-logit))).astype(float)
    X = pd.DataFrame({"east": east, "north": north})
    return X, pd.DataFrame({"change": change, "flat": flat})


def main(max_iter: int = 1200, folder: Path = Path(), num_inducing: int = 60) -> None:
    X, Y = draw()
    seen = Y[:1200].mask(np.random.default_rng(1).random((1200, 2)) < 0.2)
    model = mg.MotleyGP(
        OUTPUTS, num_inducing=num_inducing, max_iter=max_iter, random_state=0
    ).fit(X[:1200], seen)
    table = model.metrics(X[1200:], Y[1200:])
    table.insert(1, "marginal nlpd", model.marginal_nlpd(X[1200:], Y[1200:]))
    print(table.round(3).to_string())

    east, north = np.meshgrid(np.linspace(-15, 15, 61), np.linspace(-11, 11, 45))
    grid = pd.DataFrame({"east": east.ravel(), "north": north.ravel()})
    p = model.predict_dist(grid)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    titles = ("price change, per cent", "price change: spread", "probability of a flat")
    pairs = (("change", "mean"), ("change", "std"), ("flat", "mean"))
    for ax, title, (output, what) in zip(axes, titles, pairs, strict=True):
        plotting.predictive_map(ax, grid, p[output], what=what)
        ax.plot(east[0], river(east[0]), "w--", lw=1.0)
        ax.set_title(title)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "london_map.png", dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-iter", type=int, default=1200)
    parser.add_argument("-o", dest="folder", type=Path, default=Path())
    main(**vars(parser.parse_args()))
