"""A gap of one output that others fill: the tables of docs/convolution.md.

    python experiments/gap.py                          # hours on one core
    python experiments/gap.py --prior lmc --outputs 2 --draws 0 1 --theta given
    python experiments/gap.py --theta learned --forms joint exact

Two or three Gaussian outputs are drawn from a joint prior with two latent processes, a
convolution or a linear model. The first output has no values in a third of the range.
The table has the NLPD of its values there, in excess of the exact joint posterior at
the generating parameters, under a factorised and under a joint q(u): with theta at the
generating values and q(u) optimal, and with theta learned at default settings. A last
column shows how far learned parameters can lead astray: the exact posterior again, with
theta at the maximum of the exact evidence.
"""

import argparse
import os
from typing import Any

os.environ.setdefault("NPROC", "1")

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from drawn import (
    NOISE,
    Draw,
    at_most_likely_values,
    convolution,
    draw,
    exact_nlpd,
    lmc,
    observed_rows,
)

import motleygp as mg
from motleygp.inference import (
    Dataset,
    Model,
    Posterior,
    from_prior,
    function_moments,
    gradients,
    make_dataset,
)
from motleygp.optim import NaturalGradient

WEIGHTS = np.array([[1.0, 0.3], [0.9, -0.4], [-0.5, 0.8]])
SMOOTHING = np.array([0.03, 0.06, 0.05])
FORMS = ("factorised", "joint", "exact")
NUM_STEPS = {"factorised": 3000, "joint": 30}
NUM_INDUCING = 80
LENGTH = 3


def prior_of(name: str, num_outputs: int) -> mg.priors.AbstractPrior:
    """The generating prior, with evenly spaced inducing points."""
    z = np.linspace(0.0, LENGTH, NUM_INDUCING)[:, None]
    inducing = np.stack([z, z])
    weights, smoothing = WEIGHTS[:num_outputs], SMOOTHING[:num_outputs]
    if name == "lmc":
        return lmc(weights, inducing)
    return convolution(weights, smoothing, inducing)


@eqx.filter_jit
def optimal_q(model: Model, data: Dataset, q: Posterior, num_steps: int) -> Posterior:
    """q(u) after natural-gradient steps of length 1 on all rows."""
    natural = NaturalGradient(1.0)

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        q, state = carry
        _, grads = gradients(model, q, data)
        return natural.update(grads.q, state, q)[:2], None

    return jax.lax.scan(step, (q, natural.init(q)), None, length=num_steps)[0][0]


def at_generating_values(
    drawn: Draw, observed: np.ndarray, prior: mg.priors.AbstractPrior, form: str
) -> np.ndarray:
    """Log densities of the first output at all rows, theta as generated."""
    likelihoods = tuple(mg.likelihoods.Gaussian(NOISE) for _ in drawn.y)
    joint = form == "joint"
    model = Model(prior, jnp.zeros(len(drawn.y)), likelihoods, joint_q=joint)
    ys = list(np.where(observed, drawn.y, np.nan))
    data = make_dataset([drawn.x] * len(ys), ys, likelihoods)
    start = from_prior(prior, joint=joint)
    q = optimal_q(model, data, start, NUM_STEPS[form])
    mean, var = eqx.filter_jit(function_moments)(model, q, jnp.asarray(drawn.x))
    std = np.sqrt(np.asarray(var[0]) + NOISE**2)
    return scipy.stats.norm.logpdf(drawn.y[0], np.asarray(mean[0]), std)


def learned(drawn: Draw, observed: np.ndarray, name: str, form: str) -> np.ndarray:
    """Log densities of the first output at all rows, under a fitted model."""
    prior: dict[str, Any] = {"prior": "lmc"}
    if name == "convolution":
        prior = {"prior": name, "inducing": "latent"}
    model = mg.MotleyGP(
        ["gaussian"] * len(drawn.y),
        posterior=form,
        random_state=0,
        progress=False,
        **prior,
    )
    y = np.where(observed, drawn.y, np.nan)
    model.fit(drawn.x, {f"y{d}": own for d, own in enumerate(y)})
    return model.predict_dist(drawn.x)["y0"].log_prob(drawn.y[0])


def row(
    name: str, num_outputs: int, seed: int, columns: list[tuple[str, str]]
) -> list[float]:
    """The exact NLPD, and the excess in each column."""
    prior = prior_of(name, num_outputs)
    drawn = draw(seed, prior, length=LENGTH)
    rng = np.random.default_rng(seed)
    observed = observed_rows(rng, num_outputs, length=LENGTH)
    missing = (drawn.x[:, 0] > 1.0) & (drawn.x[:, 0] < 2.0)
    observed[0] &= ~missing
    tested = np.zeros_like(observed)
    tested[0] = missing
    exact = exact_nlpd(drawn, observed, tested, joint=True)
    found = [exact]
    for way, form in columns:
        if form == "exact":
            likely = at_most_likely_values(drawn, observed, prior)
            found.append(exact_nlpd(likely, observed, tested, joint=True) - exact)
            continue
        if way == "given":
            scores = at_generating_values(drawn, observed, prior, form)
        else:
            scores = learned(drawn, observed, name, form)
        found.append(-float(np.mean(scores[missing])) - exact)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    both = ["convolution", "lmc"]
    parser.add_argument("--prior", nargs="+", choices=both, default=both)
    parser.add_argument("--outputs", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--draws", nargs="+", type=int, default=list(range(10)))
    ways = ["given", "learned"]
    parser.add_argument("--theta", nargs="+", choices=ways, default=ways)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    args = parser.parse_args()
    columns = [(way, form) for way in args.theta for form in args.forms]
    columns = [column for column in columns if column != ("given", "exact")]
    labels = [f"theta {way}, {form}" for way, form in columns]
    head = ["prior", "D", "draw", "exact", *labels]
    print(f"| {' | '.join(head)} |\n" + "| --- " * len(head) + "|", flush=True)
    for name in args.prior:
        for count in args.outputs:
            rows = []
            for seed in args.draws:
                rows.append(row(name, count, seed, columns))
                cells = " | ".join(f"{value:.3f}" for value in rows[-1])
                print(f"| {name} | {count} | {seed} | {cells} |", flush=True)
            excess = np.array(rows)[:, 1:]
            for column, own in zip(labels, excess.T, strict=True):
                limit = 0.05 if "given" in column else 0.2
                within = int(np.sum(own <= limit))
                print(
                    f"{name}, D = {count}, {column}: largest excess {own.max():.3f}, "
                    f"at most {limit} in {within} of {len(own)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
