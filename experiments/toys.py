"""The toys: 20 starts of every scheme, and the tables of docs/results.md.

    python experiments/toys.py prepare   # starts, on any machine
    python experiments/toys.py run       # training, under vmap: for a GPU
    python experiments/toys.py table     # scores, on any machine

The stages hand on files in --folder, so that each can run where it runs best; on one
machine with a GPU, run the three in turn. `run` takes some jobs by name, or all.
"""

import argparse
import functools as ft
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats
from scipy.special import gammaln, logsumexp

import motleygp as mg
from motleygp import optim
from motleygp.datasets import Problem
from motleygp.inference.data import Dataset, make_dataset
from motleygp.inference.objective import function_moments
from motleygp.inference.scaling import standardising
from motleygp.training import loop, step as training
from motleygp.training.initialise import (
    data_driven_start,
    paper_start,
    usual_num_latents,
)

NUM_STARTS = 20
NUM_ITERATIONS = 2000
NUM_INDUCING = 80
CELLS = [(toy, p) for toy in ("t1", "t2", "t3") for p in (1, 2, 3, 5, 10)]
PAPER_CELLS = [("t2", 1), ("t2", 2), ("t2", 10)]
SGD_STEPS = (1e-9, 1e-11, 1e-13, 1e-15)
NOISES = (1e-6, 0.003, 0.03, 0.1, 0.3)


class Method(NamedTuple):
    """A start, a scheme and a batch size."""

    start: Callable
    scheme: Callable[[int], optim.Scheme]
    batch_size: int
    paper: bool = False


def _long_start(*args, **settings):
    """The default start with length-scales ten times as long."""
    model, q = data_driven_start(*args, **settings)
    kernel = model.prior.kernel.with_lengthscale(10.0 * model.prior.kernel.lengthscale)
    return eqx.tree_at(lambda m: m.prior.kernel, model, kernel), q


def _paper(name: str, **settings) -> Callable[[int], optim.Scheme]:
    return lambda num_inputs: optim.paper(
        name, initial_p=optim.paper_initial_p(num_inputs), **settings
    )


METHODS = {
    "fng": Method(data_driven_start, lambda _: optim.fng(), 256),
    "hybrid": Method(data_driven_start, lambda _: optim.hybrid(), 256),
    "unwhitened": Method(
        data_driven_start, lambda _: optim.fng()._replace(whitened=False), 256
    ),
    "paper-fng": Method(paper_start, _paper("fng"), 50, True),
    "paper-hybrid": Method(paper_start, _paper("hybrid"), 50, True),
    "paper-adam": Method(paper_start, _paper("adam"), 50, True),
    **{
        f"paper-sgd-{step:g}": Method(
            paper_start, _paper("sgd", sgd_step=step), 50, True
        )
        for step in SGD_STEPS
    },
    "paper-fng-still": Method(paper_start, _paper("fng", momentum=0.0), 50, True),
    **{
        f"long-{std:g}": Method(
            _long_start, lambda _, std=std: optim.fng(max_std=std), 256
        )
        for std in NOISES
    },
}


def all_jobs() -> list[str]:
    jobs = [f"{m}:{t}:{p}" for t, p in CELLS for m in ("fng", "hybrid", "paper-fng")]
    more = [m for m in METHODS if m.startswith("paper") and m != "paper-fng"]
    jobs += [f"{m}:{t}:{p}" for m in ("unwhitened", *more) for t, p in PAPER_CELLS]
    return jobs + [f"{m}:t2:1" for m in METHODS if m.startswith("long")]


def parse(job: str) -> tuple[Method, str, int]:
    name, toy, num_inputs = job.split(":")
    return METHODS[name], toy, int(num_inputs)


# The problem as a method sees it.


@ft.cache
def problem_of(method: Method, toy: str, num_inputs: int) -> Problem:
    """The paper keeps the noise of T3's Gaussian output fixed and the inputs raw."""
    problem = mg.datasets.load(toy, num_inputs=num_inputs)
    if method.paper:
        return problem
    scaling = standardising([problem.x_train], [], [])
    learned = tuple(
        mg.likelihoods.Gaussian() if isinstance(lik, mg.likelihoods.Gaussian) else lik
        for lik in problem.likelihoods
    )
    return problem._replace(
        x_train=scaling.inputs(problem.x_train),
        x_test=scaling.inputs(problem.x_test),
        likelihoods=learned,
    )


def dataset_of(problem: Problem) -> Dataset:
    xs = [problem.x_train] * len(problem.names)
    return make_dataset(xs, list(problem.y_train.T), problem.likelihoods)


def num_latents(method: Method, problem: Problem) -> int:
    """The paper has three; the default is the estimator's."""
    return 3 if method.paper else usual_num_latents(mg.priors.LMC, problem.likelihoods)


def start_of(method: Method, problem: Problem, data: Dataset, seed: int, size: int):
    count = num_latents(method, problem)
    rng = np.random.default_rng(seed)
    settings = dict(num_latents=count, rank=(1,) * count, num_inducing=size)
    return method.start(rng, data, problem.likelihoods, **settings)


def start_file(folder: Path, method: Method, toy: str, num_inputs: int) -> Path:
    return folder / f"start-{method.start.__name__.strip('_')}-{toy}-{num_inputs}.npz"


# Stages.


def prepare(folder: Path, jobs: Iterable[str], size: int, starts: int) -> None:
    """Write the arrays of the starts: k-means is no work for a GPU."""
    for job in jobs:
        method, toy, num_inputs = parse(job)
        path = start_file(folder, method, toy, num_inputs)
        if path.exists():
            continue
        problem = problem_of(method, toy, num_inputs)
        data = dataset_of(problem)
        made = [start_of(method, problem, data, s, size) for s in range(starts)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *made)
        np.savez_compressed(
            path, *[np.asarray(leaf) for leaf in jax.tree.leaves(stacked)]
        )
        print(path.name, flush=True)


def run(folder: Path, out: Path, jobs: Iterable[str], iterations: int) -> None:
    """Train all starts of each job at once; write test moments and the trace's end."""
    results: dict[str, np.ndarray] = {}
    for job in jobs:
        begun = time.perf_counter()
        try:
            results |= {f"{job}/{k}": v for k, v in run_job(folder, job, iterations)}
        except Exception as error:  # The other jobs go on; the table shows the gap.
            print(f"{job} failed: {error!r:.300}", flush=True)
            continue
        np.savez(out, **results)
        print(f"{job} {time.perf_counter() - begun:.0f} s", flush=True)


def run_job(folder: Path, job: str, iterations: int):
    method, toy, num_inputs = parse(job)
    problem = problem_of(method, toy, num_inputs)
    data = dataset_of(problem)
    scheme = method.scheme(num_inputs)
    # A small start has the structure of the large ones.
    tree = jax.tree.structure(start_of(method, problem, data, 0, 2))
    with np.load(start_file(folder, method, toy, num_inputs)) as held:
        leaves = [jnp.asarray(held[name]) for name in held.files]
    states = []
    for r in range(len(leaves[0])):
        model, q = jax.tree.unflatten(tree, [leaf[r] for leaf in leaves])
        key = jr.key(r)
        states.append(
            training.init(key, model, data, scheme, num_steps=iterations, q=q)
        )
    step = training.make_step(scheme, batch_size=method.batch_size)
    results = loop.fit_together(states, data, step, chunk=500)
    stacked = [eqx.filter(r.state, eqx.is_array) for r in results]
    static = eqx.filter(results[0].state, eqx.is_array, inverse=True)

    @jax.jit
    @jax.vmap
    def moments(arrays):
        state = eqx.combine(arrays, static)
        q = training.posterior(scheme, state)
        mean, var = function_moments(state.model, q, jnp.asarray(problem.x_test))
        return mean, var, jax.tree.leaves(state.model.likelihoods)

    together = jax.tree.map(lambda *a: jnp.stack(a), *stacked)
    mean, var, noises = moments(together)
    traces = [r.trace for r in results]
    yield "mean", np.asarray(mean, dtype=np.float32)
    yield "var", np.asarray(var, dtype=np.float32)
    yield "nelbo", np.stack([t.nelbo[-100:].mean() for t in traces])
    yield "iterations", np.array([len(t.nelbo) for t in traces])
    yield "refused", np.array([np.sum(t.refused | (t.q.refused > 0)) for t in traces])
    for i, noise in enumerate(noises):
        yield f"lik{i}", np.asarray(noise)


# Scores.


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())


@eqx.filter_jit
def _log_predictive(lik, y, mean, var):
    return lik.log_predictive(y, mean, var)


def log_predictive(
    lik: mg.likelihoods.AbstractLikelihood,
    y: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
) -> np.ndarray:
    """log E[p(y | f)]; for Beta and Gamma on a plain grid of 40 x 40 nodes.

    The library's own rule for those two places its nodes anew for every value, which
    thousands of runs have no time for; `check_grid` says how far the two are apart.
    """
    if lik.name not in ("beta", "gamma"):
        given = (jnp.asarray(v, dtype=float) for v in (y, mean, var))
        return np.asarray(_log_predictive(lik, *given))
    f = mean[..., None] + np.sqrt(var)[..., None] * _NODES
    first, second = f[0][:, :, None], f[1][:, None, :]
    a, b, y = np.exp(first), np.exp(second), y[:, None, None]
    if lik.name == "beta":
        norm = gammaln(a + b) - gammaln(a) - gammaln(b)
        log_prob = norm + (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y)
    else:
        log_prob = a * second - gammaln(a) + (a - 1.0) * np.log(y) - b * y
    weights = _LOG_WEIGHTS[:, None] + _LOG_WEIGHTS[None, :]
    return logsumexp(log_prob + weights, axis=(1, 2))


def check_grid(held) -> str:
    """The largest difference of a mean NLPD between the grid and the library."""
    worst = 0.0
    for job in ("fng:t1:1", "fng:t2:2", "hybrid:t3:10", "paper-fng:t2:10"):
        if job not in held:
            continue
        for lik, y, mean, var in lanes(job, held[job], 0):
            given = (jnp.asarray(v, dtype=float) for v in (y, mean, var))
            exact = float(jnp.mean(_log_predictive(lik, *given)))
            worst = max(worst, abs(exact - log_predictive(lik, y, mean, var).mean()))
    return f"Grid against the library's rule: NLPD of an output within {worst:.1e}."


def scores(files: Iterable[Path]) -> dict[str, dict[str, np.ndarray]]:
    """By job: mean NLPD of each start (NaN where it is not finite), and the rest."""
    held: dict[str, dict[str, np.ndarray]] = {}
    for path in files:
        with np.load(path) as stored:
            for name in stored.files:
                job, what = name.rsplit("/", 1)
                held.setdefault(job, {})[what] = stored[name]
    for job, values in held.items():
        values["nlpd"] = _nlpd(job, values)
    return held


def lanes(job: str, values: dict[str, np.ndarray], r: int):
    """Likelihood, test values, mean and variance of every output in start r."""
    method, toy, num_inputs = parse(job)
    problem = problem_of(method, toy, num_inputs)
    ends = np.cumsum([0] + [lik.num_functions for lik in problem.likelihoods])
    noises = [values[k][r] for k in sorted(values) if k.startswith("lik")]
    tree = jax.tree.structure(problem.likelihoods)
    for d, lik in enumerate(jax.tree.unflatten(tree, map(jnp.asarray, noises))):
        own = slice(ends[d], ends[d + 1])
        mean, var = (values[k][r, own].astype(float) for k in ("mean", "var"))
        yield lik, problem.y_test[:, d], mean, var


def _nlpd(job: str, values: dict[str, np.ndarray]) -> np.ndarray:
    means = [
        [log_predictive(*lane).mean() for lane in lanes(job, values, r)]
        for r in range(len(values["mean"]))
    ]
    return -np.mean(means, axis=1)


def constant_nlpd(method: Method, toy: str, num_inputs: int) -> float:
    problem = problem_of(method, toy, num_inputs)
    return float(np.mean(list(problem.constant_nlpd().values())))


def diverged(values: dict[str, np.ndarray], *, frozen: bool = False) -> np.ndarray:
    """Not finite, or a bound worse than any that a run which works has.

    A run that is `frozen` keeps the bound of its start, which may be as bad.
    """
    broken = ~np.isfinite(values["nlpd"]) | ~np.isfinite(values["nelbo"])
    return broken if frozen else broken | ~(values["nelbo"] < 1e6)


def median(values: np.ndarray) -> float:
    """The median with diverged runs as the worst."""
    return float(np.median(np.where(np.isfinite(values), values, np.inf)))


def default_table(held) -> str:
    lines = [
        "| toy | P | constant fit | FNG | worst of 20 | within 0.03 of best | diverged "
        "or above constant | hybrid | paper preset (diverged) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    gains: dict[str, list[float]] = {"hybrid": [], "paper-fng": []}
    for toy, p in CELLS:
        own = held.get(f"fng:{toy}:{p}")
        if own is None:
            continue
        constant = constant_nlpd(METHODS["fng"], toy, p)
        nlpd = own["nlpd"]
        bad = diverged(own) | (nlpd > constant + 0.03)
        within = int(np.sum(nlpd < np.nanmin(nlpd) + 0.03))
        row = [toy.upper(), str(p), f"{constant:.3f}", f"{median(nlpd):.4f}"]
        row += [f"{np.max(nlpd):.4f}", str(within), str(int(bad.sum()))]
        for other in gains:
            values = held.get(f"{other}:{toy}:{p}")
            if values is None:
                row.append("-")
                continue
            number = int(diverged(values).sum())
            score = median(np.where(diverged(values), np.inf, values["nlpd"]))
            gains[other].append(score - median(nlpd))
            note = f" ({number})" if other == "paper-fng" else ""
            row.append(f"{score:.4f}{note}")
        lines.append("| " + " | ".join(row) + " |")
    for other, gain in gains.items():
        finite = np.array(gain)[np.isfinite(gain)]
        if len(finite):
            lines.append(
                f"\nMedian NLPD of {other} minus that of FNG: mean {finite.mean():.4f} "
                f"over {len(finite)} cells, smallest {finite.min():.4f}."
            )
    return "\n".join(lines)


def paper_table(held) -> str:
    lines = [
        "| P | scheme | diverged | median NELBO | median NLPD | NLPD minus FNG's |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for toy, p in PAPER_CELLS:
        base = held.get(f"paper-fng:{toy}:{p}")
        step = largest_sgd_step(held, toy, p)
        names = ["paper-fng", "paper-hybrid", "paper-adam", f"paper-sgd-{step:g}"]
        for name in [*names, "paper-fng-still"]:
            values = held.get(f"{name}:{toy}:{p}")
            if values is None or base is None:
                continue
            bad = diverged(values, frozen="sgd" in name)
            both = ~bad & ~diverged(base)
            pairs = (values["nlpd"] - base["nlpd"])[both]
            row = [
                str(p),
                name.removeprefix("paper-"),
                f"{int(bad.sum())} of {len(bad)}",
            ]
            row += [f"{np.median(values['nelbo'][~bad]):.1f}" if (~bad).any() else "-"]
            row += [f"{np.median(values['nlpd'][~bad]):.4f}" if (~bad).any() else "-"]
            row += ["-" if name == "paper-fng" else interval(pairs)]
            lines.append("| " + " | ".join(row) + " |")
        constant = constant_nlpd(METHODS["paper-fng"], toy, p)
        lines.append(f"| {p} | constant fit | | | {constant:.4f} | |")
    return "\n".join(lines)


def largest_sgd_step(held, toy: str, p: int) -> float:
    """The step that loses the fewest runs; the largest of those."""
    lost = {
        step: int(diverged(values, frozen=True).sum())
        for step in SGD_STEPS
        if (values := held.get(f"paper-sgd-{step:g}:{toy}:{p}")) is not None
    }
    return min(lost, key=lambda step: (lost[step], -step)) if lost else SGD_STEPS[-1]


def interval(pairs: np.ndarray) -> str:
    """The mean paired difference and its 95 % interval by Student's t."""
    if len(pairs) < 2:
        return "-"
    half = scipy.stats.t.ppf(0.975, len(pairs) - 1) * scipy.stats.sem(pairs)
    mean = pairs.mean()
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}] (n = {len(pairs)})"


def extra_table(held) -> str:
    lines = ["| method | toy | P | median NLPD | worst | median NELBO |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for job, values in held.items():
        name, toy, p = job.split(":")
        if name == "unwhitened" or name.startswith("long"):
            row = [name, toy.upper(), p, f"{median(values['nlpd']):.4f}"]
            row += [
                f"{np.max(values['nlpd']):.4f}",
                f"{np.median(values['nelbo']):.1f}",
            ]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("prepare", "run", "table"))
    parser.add_argument("jobs", nargs="*", help="method:toy:P; all of them by default")
    parser.add_argument("--folder", type=Path, default=Path("build/toys"))
    parser.add_argument("--out", type=Path, help="the file that `run` writes")
    parser.add_argument("--iterations", type=int, default=NUM_ITERATIONS)
    parser.add_argument("--num-inducing", type=int, default=NUM_INDUCING)
    parser.add_argument("--starts", type=int, default=NUM_STARTS)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    jobs = args.jobs or all_jobs()
    if args.stage == "prepare":
        prepare(args.folder, jobs, args.num_inducing, args.starts)
    elif args.stage == "run":
        out = args.out or args.folder / "result.npz"
        run(args.folder, out, jobs, args.iterations)
    else:
        held = scores(sorted(args.folder.glob("result*.npz")))
        for table in (default_table, paper_table, extra_table, check_grid):
            print(table(held), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
