"""Time one training step: ours, the same step by autodiff, and GPflow's.

The task: five outputs (HetGaussian, Beta, Bernoulli, Gamma, Exponential), J = 8
parameter functions, LMC with Q = 3, M = 80, ten inputs, 1500 rows, minibatches of 50,
20 quadrature nodes, natural gradients on q(u) and Adam on theta, float64, one core.
Compile time is measured separately. Our rounds and those of autodiff alternate, and
their medians are compared, because the machine may be busy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["NPROC"] = "1"  # XLA's thread pool; read when JAX starts
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # that of LAPACK

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array

import motleygp as mg
from motleygp.inference import derivatives, expected, objective
from motleygp.inference.data import Dataset, make_dataset
from motleygp.inference.model import Model, trainable
from motleygp.inference.posterior import from_prior, unwhiten
from motleygp.numerics import linalg
from motleygp.optim import NaturalGradient
from motleygp.priors import AbstractPrior, Sites, everywhere

NUM_ROWS, NUM_INPUTS, NUM_INDUCING, NUM_LATENTS, BATCH = 1500, 10, 80, 3, 50
NUM_FUNCTIONS = 8
Q_STEP, THETA_STEP = 0.01, 0.005


def problem(
    seed: int = 0, num_latents: int = NUM_LATENTS, num_inducing: int = NUM_INDUCING
) -> dict[str, np.ndarray]:
    """Data and starting values, as the arrays that every competitor reads."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(size=NUM_ROWS),
        rng.beta(2.0, 3.0, NUM_ROWS),
        rng.integers(0, 2, NUM_ROWS).astype(float),
        rng.gamma(2.0, 1.0, NUM_ROWS),
        rng.exponential(1.0, NUM_ROWS),
    ]
    return {
        "X": rng.random((NUM_ROWS, NUM_INPUTS)),
        "Y": np.stack(columns, axis=1),
        "Z": rng.random((num_latents, num_inducing, NUM_INPUTS)),
        "lengthscale": rng.uniform(0.5, 1.5, (num_latents, NUM_INPUTS)),
        "weights": 0.5 * rng.normal(size=(NUM_FUNCTIONS, num_latents)),
    }


def build(arrays: dict[str, np.ndarray]) -> tuple[Model, Dataset]:
    """The model, without offsets because the competitors have none, and its data."""
    names = ("hetgaussian", "beta", "bernoulli", "gamma", "exponential")
    likelihoods = tuple(mg.likelihoods.get(name) for name in names)
    prior = mg.priors.LMC(
        mg.kernels.EQ(arrays["lengthscale"]), arrays["weights"], arrays["Z"]
    )
    model = Model(prior, jnp.zeros(NUM_FUNCTIONS), likelihoods, fixed=("offset",))
    data = make_dataset([arrays["X"]] * 5, list(arrays["Y"].T), likelihoods)
    return model, data


def our_step(
    model: Model, data: Dataset, *, joint: bool = False
) -> tuple[Callable, Any]:
    """The library's step: one pass for all gradients, guarded natural gradient."""
    theta, fixed = eqx.partition(model, trainable(model))
    q = from_prior(model.prior, joint=joint)
    natural, adam = NaturalGradient(Q_STEP), optax.adam(THETA_STEP)

    def step(carry: Any, rows: Array) -> tuple[Any, Array]:
        theta, q, q_state, adam_state = carry
        batch = (data[0].take(rows),)
        terms, grads = derivatives.gradients(eqx.combine(theta, fixed), q, batch)
        q, q_state, _ = natural.update(grads.q, q_state, q)
        updates, adam_state = adam.update(
            grads.theta,  # pyright: ignore[reportArgumentType]
            adam_state,
        )
        carry = (eqx.apply_updates(theta, updates), q, q_state, adam_state)
        return carry, -terms.elbo

    return step, (theta, q, natural.init(q), adam.init(eqx.filter(theta, eqx.is_array)))


GroupBound = Callable[[Any, Sites, Array, Array], tuple[Array, ...]]


def paper_group(prior: AbstractPrior) -> GroupBound:
    """One group's marginals and divergence as the paper writes them, q(u) = N(m, V)."""

    def bound(group: Any, sites: Sites, mean: Array, cov: Array) -> tuple[Array, ...]:
        k = prior.covariances(group, sites)
        factor, _ = linalg.jittered_cholesky(k.uu, prior.jitter)
        half = linalg.solve_lower(factor, k.ug)
        projection = solve_triangular(factor, half, trans=1, lower=True)  # K^-1 k
        var = k.gg - jnp.sum(half**2, 0) + jnp.sum(projection * (cov @ projection), 0)
        root = linalg.cholesky(cov)
        trace = jnp.sum(linalg.solve_lower(factor, root) ** 2)  # tr K^-1 V
        square = jnp.sum(linalg.solve_lower(factor, mean[:, None]) ** 2)
        log_ratio = 2.0 * (_half_log_det(factor) - _half_log_det(root))
        kl = 0.5 * (trace + square - len(mean) + log_ratio)
        return mean @ projection, var, kl

    return bound


def whitened_group(prior: AbstractPrior) -> GroupBound:
    """The same in the whitened variable, whose divergence does not depend on theta."""

    def bound(group: Any, sites: Sites, mean: Array, cov: Array) -> tuple[Array, ...]:
        k = prior.covariances(group, sites)
        factor, _ = linalg.jittered_cholesky(k.uu, prior.jitter)
        basis = linalg.solve_lower(factor, k.ug)
        var = k.gg - jnp.sum(basis**2, 0) + jnp.sum(basis * (cov @ basis), 0)
        log_det = 2.0 * _half_log_det(linalg.cholesky(cov))
        kl = 0.5 * (jnp.trace(cov) + mean @ mean - len(mean) - log_det)
        return mean @ basis, var, kl

    return bound


def _half_log_det(factor: Array) -> Array:
    return jnp.sum(jnp.log(jnp.diagonal(factor)))


def autodiff_step(
    model: Model,
    data: Dataset,
    group_bound: Callable[[AbstractPrior], GroupBound],
    start: tuple[Array, Array],
) -> tuple[Callable, Any]:
    """The same step without a guard, with gradients by autodiff of the whole bound.

    The bound is a function of theta and of the mean and covariance of q(u); the
    likelihoods, the kernels and the factorisation of K_uu are the library's.
    """
    theta, fixed = eqx.partition(model, trainable(model))
    adam = optax.adam(THETA_STEP)

    def nelbo(theta: Model, mean: Array, cov: Array, batch: Dataset) -> Array:
        model = eqx.combine(theta, fixed)
        bound = group_bound(model.prior)
        sites = everywhere(batch[0].x, len(model.offset))
        m, v, kl = linalg.over_groups(
            lambda group, mean, cov: bound(group, sites, mean, cov),
            model.prior.groups(),
            mean,
            cov,
        )
        moments = model.prior.mix(sites, m, v)
        terms = expected.expected_log_lik(model.likelihoods, moments, batch)
        return jnp.sum(kl) - jnp.sum(terms)

    def natural(mean: Array, cov: Array, g_mean: Array, g_cov: Array) -> Any:
        inverse = linalg.inverse_lower(linalg.cholesky(cov))
        precision = inverse.T @ inverse + Q_STEP * (g_cov + g_cov.T)
        half = linalg.inverse_lower(linalg.cholesky(precision))
        cov = half.T @ half
        return mean - Q_STEP * cov @ g_mean, cov

    def step(carry: Any, rows: Array) -> tuple[Any, Array]:
        theta, mean, cov, adam_state = carry
        batch = (data[0].take(rows),)
        value, (g_theta, g_mean, g_cov) = jax.value_and_grad(nelbo, (0, 1, 2))(
            theta, mean, cov, batch
        )
        mean, cov = linalg.over_groups(natural, mean, cov, g_mean, g_cov)
        updates, adam_state = adam.update(g_theta, adam_state)
        return (eqx.apply_updates(theta, updates), mean, cov, adam_state), value

    return step, (theta, *start, adam.init(eqx.filter(theta, eqx.is_array)))


def compiled(step: Callable, start: Any, rows: Array) -> tuple[Callable, float, Array]:
    """The scanned step, the seconds of its first call, and its losses."""
    program = jax.jit(lambda carry: jax.lax.scan(step, carry, rows))
    begin = time.perf_counter()
    _, losses = jax.block_until_ready(program(start))
    return lambda: program(start), time.perf_counter() - begin, losses


def milliseconds(run: Callable, num_steps: int) -> float:
    """Wall time per step of one round."""
    begin = time.perf_counter()
    jax.block_until_ready(run())
    return 1e3 * (time.perf_counter() - begin) / num_steps


def gpflow(python: Path, arrays: dict[str, np.ndarray], *flags: str) -> dict[str, Any]:
    """The results of `gpflow_step.py`, run in GPflow's own environment."""
    script = Path(__file__).with_name("gpflow_step.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, allow_pickle=False, **arrays)
        done = subprocess.run(
            [python, script, path, "--nodes", "20", *flags],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpflow", type=Path, help="a Python with GPflow")
    parser.add_argument("--steps", type=int, default=300, help="steps per round")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    arrays = problem()
    model, data = build(arrays)
    rng = np.random.default_rng(0)
    rows = jnp.asarray(
        np.stack([rng.choice(NUM_ROWS, BATCH, False) for _ in range(args.steps)])
    )
    q = from_prior(model.prior)
    steps = {
        "MotleyGP": our_step(model, data),
        "autodiff, the paper's bound": autodiff_step(
            model, data, paper_group, unwhiten(model.prior, q)
        ),
        "autodiff, whitened bound": autodiff_step(
            model, data, whitened_group, (q.mean, q.cov())
        ),
    }
    programs = {name: compiled(*step, rows) for name, step in steps.items()}
    rounds = [
        {name: milliseconds(run, args.steps) for name, (run, _, _) in programs.items()}
        for _ in range(args.rounds)
    ]
    print(f"{'':32}{'ms a step':>10}{'first call s':>14}{'ours / it':>12}")
    for name, (_, first, _) in programs.items():
        ms = statistics.median(r[name] for r in rounds)
        ratio = statistics.median(r["MotleyGP"] / r[name] for r in rounds)
        print(f"{name:32}{ms:10.2f}{first:14.1f}{ratio:12.3f}")
    ours, _, losses = programs["MotleyGP"]
    _, _, whitened = programs["autodiff, whitened bound"]
    apart = float(jnp.max(jnp.abs(losses - whitened) / jnp.abs(whitened)))
    print(f"  ours and the whitened autodiff: losses differ by at most {apart:.0e}")
    if args.gpflow is None:
        return
    terms = eqx.filter_jit(objective.elbo)(model, q, data)
    for label, flags in (
        ("GPflow, 2-D quadrature", ()),
        ("GPflow, split", ["--split"]),
    ):
        found = gpflow(args.gpflow, arrays, *flags)
        ours_ms = statistics.median(milliseconds(ours, args.steps) for _ in range(5))
        print(
            f"{label:32}{found['ms_per_step']:10.2f}{found['first_step_s']:14.1f}"
            f"{ours_ms / found['ms_per_step']:12.3f}"
        )
        print(
            f"  -ELBO at the start {found['nelbo']:.4f}, ours {-float(terms.elbo):.4f}"
        )


if __name__ == "__main__":
    sys.exit(main())
