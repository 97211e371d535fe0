"""Calibration on data drawn from the model itself, for every likelihood.

    python experiments/calibration.py              # 16 draws: half an hour on one core
    python experiments/calibration.py --draws 0 1

Each draw mixes four latent processes into the parameter functions of seven outputs, one
per likelihood. A model with default settings is fitted to all rows except a hundred,
which are scored: the share of values inside the central 95 % interval, a chi-square
test that the probability integral transforms are uniform (randomised for discrete
outputs), and Spiegelhalter's test for the binary output. The tests assume independent
values, but the values of one draw share the errors of its functions. So each draw has
few test rows, and many training rows. Prints the table of docs/estimator.md.
"""

import argparse
import json
import warnings
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np

import motleygp as mg
from motleygp import likelihoods as lik
from motleygp.kernels import EQ
from motleygp.prediction import metrics

OUTPUTS = (
    lik.Gaussian(0.3),
    lik.HetGaussian(),
    lik.Beta(),
    lik.Gamma(),
    lik.Exponential(),
    lik.Poisson(),
    lik.Bernoulli(),
)
NUM_ROWS, NUM_TEST = 2000, 100
LENGTHSCALES = np.array([[0.1], [0.15], [0.2], [0.3]])
SPREAD = 0.7
# The constant means of functions for which 0 would make unusual data: log variances,
# log shapes, and log rates, whose intervals would hold little more than 0 and 1.
OFFSETS = {
    "hetgaussian": (0.0, -1.5),
    "beta": (1.0, 1.0),
    "gamma": (1.0, 0.0),
    "poisson": (1.5,),
}
BINS = 10


def simulate(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Inputs and one value of each output at every row."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(NUM_ROWS, 1))
    num_functions = sum(output.num_functions for output in OUTPUTS)
    weights = SPREAD / 2.0 * rng.normal(size=(num_functions, len(LENGTHSCALES)))
    inducing = np.zeros((len(LENGTHSCALES), 1, 1))
    prior = mg.priors.LMC(EQ(LENGTHSCALES), weights, inducing)
    # Drawn on a fine grid, and interpolated.
    grid = np.linspace(0.0, 1.0, 201)
    draws = mg.priors.sample(prior, jr.key(seed), jnp.asarray(grid[:, None]))[0]
    f = np.stack([np.interp(x[:, 0], grid, values) for values in np.asarray(draws)])
    columns, first = {}, 0
    for output in OUTPUTS:
        own = f[first : first + output.num_functions]
        first += output.num_functions
        offset = OFFSETS.get(output.name, (0.0,) * len(own))
        y = output.sample(rng, own + np.asarray(offset)[:, None])
        if output.name == "beta":
            y = np.clip(y, 1e-12, 1.0 - 1e-12)
        columns[output.name] = y
    return x, columns


def scored(seed: int, **settings) -> dict[str, dict[str, list[float]]]:
    """For each output: whether rows are covered, their PIT, and the probabilities."""
    x, columns = simulate(seed)
    cut = NUM_ROWS - NUM_TEST
    settings = {"random_state": 0, "progress": False} | settings
    model = mg.MotleyGP(outputs={name: name for name in columns}, **settings)
    model.fit(x[:cut], {name: y[:cut] for name, y in columns.items()})
    found = {}
    for name, p in model.predict_dist(x[cut:]).items():
        y = columns[name][cut:]
        low, high = p.interval(0.95).T
        found[name] = {
            "covered": ((low <= y) & (y <= high)).tolist(),
            "pit": metrics.pit(p, y, random_state=seed).tolist(),
        }
        if name == "bernoulli":
            found[name]["probability"] = p.mean.tolist()
            found[name]["label"] = y.tolist()
    return found


def table(draws: list[dict[str, dict[str, list[float]]]]) -> str:
    """All draws together, one row per output."""
    lines = [
        "| output | values | inside 95 % | p, uniform PIT | p, reliability |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in draws[0]:
        every = {k: np.concatenate([d[name][k] for d in draws]) for k in draws[0][name]}
        uniform = metrics.uniformity(every["pit"], bins=BINS).pvalue
        cells = [
            name,
            str(len(every["pit"])),
            f"{100 * np.mean(every['covered']):.1f} %",
            f"{uniform:.3f}",
            f"{_reliability(every):.3f}" if "label" in every else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _reliability(every: dict[str, np.ndarray]) -> float:
    """The p-value of Spiegelhalter's test over all draws."""
    odds = np.log(every["probability"]) - np.log1p(-every["probability"])
    certain = mg.Predictive(lik.Bernoulli(), odds[None], np.zeros((1, len(odds))))
    return metrics.reliability_test(certain, every["label"]).pvalue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, nargs="+", default=list(range(16)))
    parser.add_argument("--write", help="write the scored values to this file")
    parser.add_argument("--read", nargs="+", help="make the table from such files")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.read:
        texts = [Path(path).read_text() for path in args.read]
        draws = [draw for text in texts for draw in json.loads(text)]
    else:
        draws = [scored(seed) for seed in args.draws]
    if args.write:
        Path(args.write).write_text(json.dumps(draws))
    print(table(draws))


if __name__ == "__main__":
    main()
