"""The methods that are compared, the jobs, and the problem as a method sees it."""

import dataclasses
import functools as ft
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import numpy as np

import motleygp as mg
from motleygp import optim
from motleygp.datasets import Problem
from motleygp.inference import Dataset, make_dataset, standardising
from motleygp.training import data_driven_start, paper_start

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
        data_driven_start,
        lambda _: dataclasses.replace(optim.fng(), whitened=False),
        256,
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


@ft.cache
def problem_of(method: Method, toy: str, num_inputs: int) -> Problem:
    """The problem with standardised inputs and learned noise; for the paper's methods,
    with raw inputs, and the noise of T3's Gaussian output fixed."""
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
    """Three for the paper's methods, otherwise the estimator's default."""
    if method.paper:
        return 3
    num_functions = sum(lik.num_functions for lik in problem.likelihoods)
    return mg.priors.LMC.usual_num_latents(
        len(problem.likelihoods), num_functions, len(problem.x_train)
    )


def start_of(method: Method, problem: Problem, data: Dataset, seed: int, size: int):
    count = num_latents(method, problem)
    rng = np.random.default_rng(seed)
    settings = dict(num_latents=count, rank=(1,) * count, num_inducing=size)
    return method.start(rng, data, problem.likelihoods, **settings)


def start_file(folder: Path, method: Method, toy: str, num_inputs: int) -> Path:
    return folder / f"start-{method.start.__name__.strip('_')}-{toy}-{num_inputs}.npz"
