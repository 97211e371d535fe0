"""A gap of one output that others fill: the tables of docs/convolution.md.

    python experiments/gap.py                          # about 40 minutes on one core
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
import jax.scipy.linalg as jsp
import numpy as np
import scipy.optimize
import scipy.stats
from drawn import NOISE, Draw, convolution, draw, exact_nlpd, lmc, observed_rows
from jax.flatten_util import ravel_pytree

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


def at_most_likely_values(
    drawn: Draw, observed: np.ndarray, prior: mg.priors.AbstractPrior
) -> np.ndarray:
    """Log densities of the first output at all rows under the exact posterior, with
    theta at a maximum of the exact evidence, searched from the generating values."""
    count = len(drawn.y)
    arrays, rest = eqx.partition(prior, eqx.is_inexact_array)
    every = (arrays, jnp.full(count, np.log(NOISE)), jnp.zeros(count))
    start, tree_of = ravel_pytree(every)
    rows = np.flatnonzero(observed.any(axis=0))
    j, n = np.nonzero(observed[:, rows])
    x, y = jnp.asarray(drawn.x[rows]), jnp.asarray(drawn.y[j, rows[n]])

    def solved(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        arrays, log_noise, offset = tree_of(theta)
        full = eqx.combine(arrays, rest).covariance(x, x)
        noise = jnp.diag(jnp.exp(2.0 * log_noise)[j])
        factor = jnp.linalg.cholesky(full[j[:, None], n[:, None], j, n] + noise)
        return factor, jsp.solve_triangular(factor, y - offset[j], lower=True)

    @jax.jit
    @jax.value_and_grad
    def loss(theta: jax.Array) -> jax.Array:
        factor, white = solved(theta)
        return jnp.sum(jnp.log(jnp.diagonal(factor))) + 0.5 * white @ white

    found = scipy.optimize.minimize(
        lambda theta: [np.asarray(a) for a in loss(theta)],
        np.asarray(start),
        jac=True,
        method="L-BFGS-B",
    )
    theta = jnp.asarray(found.x)
    factor, white = solved(theta)
    arrays, log_noise, offset = tree_of(theta)
    learned = eqx.combine(arrays, rest)
    at = jnp.asarray(drawn.x)
    cross = learned.covariance(at, x)[0][:, j, n].T
    explained = jsp.solve_triangular(factor, cross, lower=True)
    # The prior is stationary.
    prior_var = learned.covariance(at[:1], at[:1])[0, 0, 0, 0]
    var = prior_var - jnp.sum(explained**2, axis=0) + jnp.exp(2.0 * log_noise[0])
    mean = offset[0] + white @ explained
    return scipy.stats.norm.logpdf(drawn.y[0], np.asarray(mean), np.sqrt(var))


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
        if way == "given":
            scores = at_generating_values(drawn, observed, prior, form)
        elif form == "exact":
            scores = at_most_likely_values(drawn, observed, prior)
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
