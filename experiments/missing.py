"""Missing values: one output of T2 is removed from half of the range, and predicted.

    python experiments/missing.py                       # all of it: an hour on one core
    python experiments/missing.py --outputs 0 --seeds 3

One output at a time loses its values between 0.25 and 0.75, and the score is the NLPD
of the removed values. The joint models see the other outputs there; `independent()`
does not. Prints the table of docs/estimator.md.
"""

import argparse
import warnings

import numpy as np

import motleygp as mg

GAP = (0.25, 0.75)
MODELS = {
    "independent": {},
    "lmc": {},
    "convolution, latent": {"prior": "convolution", "inducing": "latent"},
}


def scores(seed: int, output: int) -> list[float]:
    """The NLPD of the removed values under each model."""
    toy = mg.datasets.load("t2", seed=seed)
    x = np.concatenate([toy.x_train, toy.x_test])
    y = np.concatenate([toy.y_train, toy.y_test])
    gap = (x[:, 0] > GAP[0]) & (x[:, 0] < GAP[1])
    seen = y.copy()
    seen[gap, output] = np.nan
    name, found = f"y{output}", []
    for kind, settings in MODELS.items():
        model = mg.MotleyGP(
            outputs=list(toy.likelihoods), random_state=0, progress=False, **settings
        )
        if kind == "independent":
            # The models of the other outputs do not affect this one.
            only = model.set_params(outputs={name: toy.likelihoods[output]})
            fitted = only.independent().fit(x, {name: seen[:, output]})
        else:
            fitted = model.fit(x, seen)
        removed = fitted.predict_dist(x[gap])[name].log_prob(y[gap, output])
        found.append(-float(np.mean(removed)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--outputs", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = mg.datasets.load("t2").names
    print("| output removed | seed |", " | ".join(MODELS), "|")
    print("| --- | --- |", " --- |" * len(MODELS))
    for output in args.outputs:
        for seed in args.seeds:
            values = " | ".join(f"{score:.3f}" for score in scores(seed, output))
            print(f"| {names[output]} | {seed} | {values} |", flush=True)


if __name__ == "__main__":
    main()
