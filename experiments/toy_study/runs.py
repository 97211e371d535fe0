"""The first two stages: the starts, and the training of all starts at once."""

import time
from collections.abc import Iterable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from motleygp.inference import function_moments
from motleygp.training import init, solution
from motleygp.training.initialise import start_precision
from motleygp.training.together import run_together
from toy_study.methods import dataset_of, parse, problem_of, start_file, start_of


def prepare(folder: Path, jobs: Iterable[str], size: int, starts: int) -> None:
    """Write the arrays of the starts; k-means does not suit a GPU."""
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
    """Train all starts of each job at once; write test moments and ends of traces."""
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
        precision = start_precision(model, data) if scheme.q.starts_narrow else 1.0
        states.append(
            init(
                jr.key(r), model, scheme, num_steps=iterations, q=q, precision=precision
            )
        )
    results = run_together(
        scheme, states, data, batch_size=method.batch_size, chunk=500
    )
    stacked = [eqx.filter(r.state, eqx.is_array) for r in results]
    static = eqx.filter(results[0].state, eqx.is_array, inverse=True)

    @jax.jit
    @jax.vmap
    def moments(arrays):
        model, q, _ = solution(scheme, eqx.combine(arrays, static))
        mean, var = function_moments(model, q, jnp.asarray(problem.x_test))
        return mean, var, jax.tree.leaves(model.likelihoods)

    together = jax.tree.map(lambda *a: jnp.stack(a), *stacked)
    mean, var, noises = moments(together)
    traces = [r.steps for r in results]
    yield "mean", np.asarray(mean, dtype=np.float32)
    yield "var", np.asarray(var, dtype=np.float32)
    yield "nelbo", np.stack([t.nelbo[-100:].mean() for t in traces])
    yield "iterations", np.array([len(t.nelbo) for t in traces])
    yield "refused", np.array([np.sum(t.refused | (t.q.refused > 0)) for t in traces])
    for i, noise in enumerate(noises):
        yield f"lik{i}", np.asarray(noise)
