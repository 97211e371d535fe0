"""Runs of the example: from samples, with exact expectations, by Newton's method."""

import functools as ft
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from motleygp import optim
from motleygp._types import RandomKey, Scalar
from motleygp.demos.vo.example import (
    MINIMA,
    REACH,
    START_MEAN,
    Setting,
    expected,
    objective,
)
from motleygp.numerics.quadrature import dense_rule

NUM_SAMPLES, NUM_STEPS = 50, 80
# Exact runs are cheap enough to continue until they no longer move.
EXACT_STEPS = (80, 400, 2000)

_NUM_NEWTON = 6
# Enough nodes to integrate g'(theta)^2, which holds sin(9 theta), to rounding error
# at sigma = 3.
_NUM_NODES = 1001

Estimate = Callable[[RandomKey, optim.ThetaState], optim.GaussianGradients]


class Course(NamedTuple):
    """mu and sigma from the start to the end, and the refused steps so far."""

    mean: Float[Array, "*S T"]
    std: Float[Array, "*S T"]
    refused: Int[Array, "*S T"]


def sampled(setting: Setting) -> Estimate:
    """Estimate the gradients of E_q[g] from draws of q."""
    sample = setting.optimiser().sample

    def estimate(key: RandomKey, state: optim.ThetaState) -> optim.GaussianGradients:
        draws = sample(key, state, NUM_SAMPLES)
        gradients = jax.vmap(jax.grad(objective))(draws)
        if setting.curvature == "gauss-newton":
            return optim.gauss_newton(gradients)
        hessians = jax.vmap(jax.hessian(objective))(draws)
        return optim.exact_hessian(gradients, hessians)

    return estimate


def exact(setting: Setting) -> Estimate:
    """Compute the gradients of E_q[g] without noise."""
    nodes, weights = (jnp.asarray(a) for a in dense_rule(_NUM_NODES))

    def estimate(key: RandomKey, state: optim.ThetaState) -> optim.GaussianGradients:
        del key
        mean, var = state.mean, state.inner.cov[0, 0]
        in_mean, in_var = jax.grad(expected, argnums=(0, 1))(mean, var)
        if setting.curvature == "gauss-newton":
            slopes = jax.vmap(jax.grad(objective))(mean + jnp.sqrt(var) * nodes)
            in_var = 0.5 * (weights @ slopes**2)
        return optim.GaussianGradients(in_mean, in_var[None, None])

    return estimate


@ft.partial(jax.jit, static_argnames=("setting", "estimator", "num_steps"))
def follow(
    key: RandomKey,
    setting: Setting,
    estimator: Callable[[Setting], Estimate] = sampled,
    num_steps: int = NUM_STEPS,
) -> Course:
    """Run once from the paper's start."""
    optimiser, estimate = setting.optimiser(), estimator(setting)
    start = optimiser.init(jnp.asarray(START_MEAN))

    def step(state: Any, key: RandomKey) -> tuple[Any, Course]:
        state = optimiser.update(estimate(key, state), state)
        return state, _seen(state)

    _, after = jax.lax.scan(step, start, jr.split(key, num_steps))
    joined = lambda first, rest: jnp.concatenate([first[None], rest])  # noqa: E731
    return jax.tree.map(joined, _seen(start), after)


def _seen(state: optim.ThetaState) -> Course:
    return Course(state.mean, jnp.sqrt(state.inner.cov[0, 0]), state.inner.refused)


@ft.partial(jax.jit, static_argnames="setting")
def without_noise(setting: Setting) -> Course:
    """Run once with exact expectations, long enough to settle."""
    return follow(jr.key(0), setting, exact, EXACT_STEPS[-1])


@ft.partial(jax.jit, static_argnames=("num_seeds", "setting"))
def many(seed: int | Int[Array, ""], num_seeds: int, setting: Setting) -> Course:
    """Run once per seed from samples. A run does not depend on the number of runs."""

    def one(i: Int[Array, ""]) -> Course:
        return follow(jr.fold_in(jr.key(seed), i), setting)

    return jax.vmap(one)(jnp.arange(num_seeds))


@jax.jit
def newton() -> Course:
    """Newton's method on g itself, as a course with sigma = 0."""

    def step(theta: Scalar, _: None) -> tuple[Scalar, Scalar]:
        theta = theta - jax.grad(objective)(theta) / jax.hessian(objective)(theta)
        return theta, theta

    start = jnp.asarray(START_MEAN)
    _, after = jax.lax.scan(step, start, length=_NUM_NEWTON)
    mean = jnp.concatenate([start[None], after])
    return Course(mean, jnp.zeros_like(mean), jnp.zeros(mean.shape, int))


def ends(course: Course) -> np.ndarray:
    """The last mu of every run."""
    return np.asarray(course.mean)[..., -1]


def shares(last: np.ndarray) -> np.ndarray:
    """The number of runs that end near each of `MINIMA`, and the number of others."""
    near = np.abs(last[:, None] - np.array(MINIMA)) <= REACH
    counts = near.sum(axis=0)
    return np.append(counts, len(last) - counts.sum())
