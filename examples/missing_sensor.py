"""A sensor fails for two days, and the others fill its gap.

Four sensors of four types are in one room for ten days: temperature (real), humidity (a
share), power of the heater (positive) and openings of the door (a count). All depend on
the same weather and people. The temperature is missing from day 4 to day 6. A joint
model uses the other sensors there; a model of the temperature alone cannot.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import motleygp as mg
from motleygp import plotting

OUTPUTS = dict(temperature="gaussian", humidity="beta", power="gamma", door="poisson")
GAP = 4.0, 6.0


def draw(num_rows: int = 480, seed: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The readings of the sensors, every half hour, without gaps."""
    rng = np.random.default_rng(seed)
    day = np.linspace(0.0, 10.0, num_rows)
    phases = rng.uniform(0.0, 2.0 * np.pi, size=4)
    weather = np.sin(1.3 * day + phases[0]) + 0.7 * np.sin(2.9 * day + phases[1])
    people = np.sin(2.0 * day + phases[2]) + 0.6 * np.sin(3.7 * day + phases[3])
    warmth = 20.0 + 2.0 * weather + 1.2 * people
    share = 1.0 / (1.0 + np.exp(0.7 * weather - 0.3 * people))
    heating = 1.5 * np.exp(-0.6 * weather - 0.2 * people)
    values = {
        "temperature": rng.normal(warmth, 0.4),
        "humidity": rng.beta(40.0 * share, 40.0 * (1.0 - share)),
        "power": rng.gamma(8.0, heating / 8.0),
        "door": rng.poisson(np.exp(1.2 + 0.8 * people)),
    }
    return pd.DataFrame({"day": day}), pd.DataFrame(values)


def main(max_iter: int = 600, folder: Path = Path(), num_inducing: int = 40) -> None:
    X, Y = draw()
    gap = X["day"].between(*GAP)
    seen = Y.copy()
    seen.loc[gap, "temperature"] = np.nan
    settings: dict[str, Any] = {"num_latents": 2, "random_state": 0}
    settings |= {"num_inducing": num_inducing, "max_iter": max_iter}
    joint = mg.MotleyGP(OUTPUTS, **settings)
    # Only the temperature is compared, so only its independent model is fitted.
    first = {"temperature": "gaussian"}
    alone = mg.MotleyGP(first, **settings).independent()
    figure, axes = plt.subplots(4, 1, figsize=(8, 8), sharex=True, layout="constrained")
    scores = {}
    for name, model, shown in (("joint", joint, OUTPUTS), ("alone", alone, first)):
        p = model.fit(X, seen[list(shown)]).predict_dist(X)
        removed = p["temperature"][gap.to_numpy()], Y["temperature"][gap]
        scores[name] = mg.metrics.summary(*removed)
        for ax, output in zip(axes, shown, strict=False):
            plotting.predictive_curve(ax, X[::4], p[output][::4], label=name)
    print(pd.DataFrame(scores).T.round(3).to_string())
    for ax, output in zip(axes, OUTPUTS, strict=True):
        plotting.observations(ax, X, seen[output], label="seen")
        ax.axvspan(*GAP, color="0.93", zorder=0)
        ax.set_ylabel(output)
    axes[0].plot(X["day"][gap], Y["temperature"][gap], "k.", ms=3, label="removed")
    axes[0].legend(loc="lower right", ncols=4, fontsize="small")
    axes[-1].set_xlabel("day")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "missing_sensor.png", dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-iter", type=int, default=600)
    parser.add_argument("-o", dest="folder", type=Path, default=Path())
    main(**vars(parser.parse_args()))
