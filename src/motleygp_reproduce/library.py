"""The library's own schemes as methods: the "paper" variant, and the default.

The "paper" variant has the paper's model and updates. It differs in one respect: the
numbers of the first q(u) are those of q(v), v = L^-1 u with K_uu = L L^T, with a
smaller variance, q(v) = N(0.2 N(0, 1), 0.01 I), and it is q(v) that stays while theta
is drawn. With q(u) = N(0.2 N(0, 1), I), functions between the inducing points have
variances in the thousands, and the expectation of their exponential is not finite.
"""

import dataclasses
import functools as ft
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import motleygp as mg
from motleygp import optim
from motleygp.core import Model, Posterior, unwhiten
from motleygp.datasets import Problem
from motleygp.estimator import door
from motleygp.estimator.fitting import prepared
from motleygp.inference import Dataset, Scaling, make_dataset, no_scaling
from motleygp.inference.posterior import from_factor
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.linalg import cholesky
from motleygp.training import Task, paper_start
from motleygp_reproduce.courses import Course, train
from motleygp_reproduce.records import DONE

_START_VARIANCE = 0.01
# SGD takes the first of these steps with which the pilot runs live and gain.
_SGD_STEPS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
_PILOT_STARTS, _PILOT_ITERATIONS = 3, 500


class Setup(NamedTuple):
    """What the runs of a cell share: the task, its units, and what a record tells of
    their settings."""

    task: Task
    scaling: Scaling
    settings: dict[str, Any]


class Sizes(NamedTuple):
    """The sizes of the paper's models and runs."""

    num_latents: int
    num_inducing: int
    batch_size: int
    iterations: int


def paper_setup(
    problem: Problem, scheme: str, sizes: Sizes, **variational: float
) -> Setup:
    """The "paper" variant of a scheme; `variational` has the settings of q(theta)."""
    ranks = (1,) * sizes.num_latents
    start = ft.partial(
        whitened_start,
        num_latents=sizes.num_latents,
        rank=ranks,
        num_inducing=sizes.num_inducing,
    )
    xs = [problem.x_train] * len(problem.names)
    task = Task(
        data=make_dataset(xs, list(problem.y_train.T), problem.likelihoods),
        held_out=None,
        likelihoods=problem.likelihoods,
        start=start,
        scheme=_scheme(scheme, **variational),
        batch_size=sizes.batch_size,
        num_steps=sizes.iterations,
    )
    settings: dict[str, Any] = dict(Q=sizes.num_latents, M=sizes.num_inducing)
    if scheme == "fng":
        settings |= variational
    if scheme == "sgd":
        step = _largest_step(task)
        task = task._replace(scheme=_scheme("sgd", sgd_step=step))
        settings |= {"step": step}
    units = no_scaling(problem.x_train.shape[1], len(problem.names))
    return Setup(task, units, settings)


def _scheme(name: str, **settings: float) -> optim.Scheme:
    """The paper's scheme, with q(v) in place of q(u)."""
    return dataclasses.replace(optim.paper(name, **settings), whitened=True)


def _largest_step(task: Task) -> float:
    """The largest step of SGD with which all pilot runs live and gain."""
    for step in _SGD_STEPS:
        pilot = task._replace(
            scheme=_scheme("sgd", sgd_step=step),
            num_steps=min(_PILOT_ITERATIONS, task.num_steps),
        )
        courses = train(pilot, range(_PILOT_STARTS), (), lambda _: {"none": 0.0})
        if all(map(_gains, courses)):
            return step
    return _SGD_STEPS[-1]


def _gains(course: Course) -> bool:
    """Whether a run came to its end, which is below its beginning."""
    if course.ended != DONE:
        return False
    tenth = max(len(course.nelbo) // 10, 1)
    return bool(course.nelbo[-tenth:].mean() <= course.nelbo[:tenth].mean())


def whitened_start(
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    **settings: Any,
) -> tuple[Model, Posterior]:
    """The paper's start, with the numbers of its q(u) for q(v) and less variance."""
    model, q = paper_start(rng, data, likelihoods, **settings)
    mean, cov = unwhiten(model.prior, q)
    factors = [cholesky(_START_VARIANCE * part) for part in cov]
    return model, from_factor(mean, jnp.stack(factors))


def default_setup(problem: Problem, **given: Any) -> Setup:
    """The estimator with its default settings, apart from those given; the noise of
    Gaussian outputs, which the paper fixes, is learned."""
    types = [likelihood.name for likelihood in problem.likelihoods]
    outputs = dict(zip(problem.names, types, strict=True))
    every = mg.MotleyGP(outputs, random_state=0, **given).get_params(deep=False)
    read = door.read(outputs, *problem.train(), None, None, show=False)
    ready = prepared(every, read)
    return Setup(ready.task, ready.scaling, {"plan": ready.task.plan} | given)
