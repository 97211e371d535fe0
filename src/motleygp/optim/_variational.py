"""Variational optimisation: descend E_q(theta)[loss] instead of the loss.

q(theta) = N(mu, diag sigma^2) explores around mu; where the loss is sensitive, its
gradients are large and sigma shrinks.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.optim import _checks
from motleygp.optim._schedule import Schedule, at


class VariationalState(NamedTuple):
    """q(theta) = N(mean, 1 / (p + lambda_1)), and what momentum and refusals need.

    `previous` is the mean one step ago and `centre` the mean of the prior p(theta).
    `length` scales the next step of the mean; `retract` shortens it.
    """

    num_steps: Int[Array, ""]
    mean: PyTree
    previous: PyTree
    p: PyTree
    centre: PyTree
    length: Scalar


class VariationalOptimiser(NamedTuple):
    """Pure functions, in optax's manner.

    - `init(theta)`: the state with q(theta) around theta.
    - `sample(key, state, num_samples)`: draws of theta, stacked on a leading axis.
    - `update(gradients, state, pace)`: the next state from the loss's gradients at the
      draws, stacked likewise (`full_variational` takes `GaussianGradients`); `pace`, 1
      by default, scales the step of the mean. The optimum is `state.mean`.
    - `std(state)`: the standard deviations of the draws, where these are independent
      normals; `None` where there are none.
    """

    init: Callable[[PyTree], Any]
    sample: Callable[..., PyTree]
    update: Callable[..., Any]
    std: Callable[[Any], PyTree | None] = lambda state: None


Leaves = float | Callable[[PyTree], PyTree]
"""One number for all of theta, or a function that gives a tree of them for a theta."""


def variational(
    step_size: float | Schedule,
    *,
    momentum: float | Schedule = 0.9,
    precision_step: float | Schedule | None = None,
    prior_precision: Leaves = 1.0,
    prior_mean: Literal["zero", "initial"] = "zero",
    initial_p: float = 0.0,
    root: bool = True,
    max_std: float | None = None,
    units: Leaves = 1.0,
) -> VariationalOptimiser:
    """The paper's diagonal scheme: mirror descent with natural momentum.

        p' = (1 - alpha) p + alpha E[g * g],        sigma^2 = 1 / (p + lambda_1)
        mu' = mu - alpha (E[g] + lambda_1 (mu - c)) / (s' + lambda_1)
                 + gamma (s + lambda_1) / (s' + lambda_1) (mu - mu_previous)

    with g the loss's gradients at draws from q(theta), and the objective
    E_q[loss] + KL[q || N(c, 1 / lambda_1)]. With `prior_precision=0` the prior is flat:
    of the KL, the entropy of q stays, which is the decay of p. The scheme that leaves
    it out too is `full_variational(..., prior_precision=None)`.

    **Arguments:**

    - `step_size`, `momentum`: alpha and gamma, numbers or functions of the step count.
    - `precision_step`: the step of p, where it is not to be alpha. At most 1, beyond
      which p could turn negative.
    - `prior_precision`: lambda_1, one number or one per leaf.
    - `prior_mean`: c, zero or the theta that `init` gets.
    - `initial_p`: p at the start. Below 0 it makes q wider than the prior, which only
      `root=False` allows.
    - `root`: s = sqrt(p), which the paper found better in practice, instead of s = p.
    - `max_std`: a limit on sigma of the draws, for losses that are only valid near mu.
    - `units`: the scheme moves theta * units (so that log l may move as log l^2 does).
    """
    _checks.check_positive("step_size", step_size)
    if precision_step is None:
        _checks.check_share("step_size", step_size)
    _checks.check_share("precision_step", precision_step)
    _checks.check_momentum(momentum)
    check_diagonal(prior_precision, prior_mean, initial_p, max_std, units)
    if root:
        _checks.check_not_negative("initial_p", initial_p)

    def init(theta: PyTree) -> VariationalState:
        theta = as_floats(theta)
        return VariationalState(
            num_steps=jnp.zeros((), int),
            mean=theta,
            previous=theta,
            p=jax.tree.map(lambda t: jnp.full_like(t, initial_p), theta),
            centre=centre_of(theta, prior_mean),
            length=jnp.ones(()),
        )

    def update(
        gradients: PyTree, state: VariationalState, pace: Scalar | float = 1.0
    ) -> VariationalState:
        alpha = at(step_size, state.num_steps)
        rho = alpha if precision_step is None else at(precision_step, state.num_steps)
        gamma = at(momentum, state.num_steps)

        def one_leaf(g, mean, previous, p, centre, lam, unit):
            g = g / unit
            new_p = (1.0 - rho) * p + rho * jnp.mean(g**2, axis=0)
            s, new_s = (jnp.sqrt(a) if root else a for a in (p, new_p))
            force = jnp.mean(g, axis=0) + lam * unit * (mean - centre)
            inertia = gamma * (s + lam) * unit * (mean - previous)
            # Nothing pushes a leaf whose denominator is zero: it stays.
            weight = new_s + lam
            weight = jnp.where(weight > 0.0, weight, jnp.inf)
            step = (inertia - pace * alpha * force) / (weight * unit)
            return mean + state.length * step, new_p

        moved = jax.tree.map(
            one_leaf,
            gradients,
            state.mean,
            state.previous,
            state.p,
            state.centre,
            leaves(prior_precision, state.mean),
            leaves(units, state.mean),
        )
        mean, p = jax.tree.transpose(
            jax.tree.structure(state.mean), jax.tree.structure((0, 0)), moved
        )
        return VariationalState(
            num_steps=state.num_steps + 1,
            mean=mean,
            previous=state.mean,
            p=p,
            centre=state.centre,
            length=recovered(state.length),
        )

    std = diagonal_std(prior_precision, units, max_std)
    return VariationalOptimiser(init, diagonal_sampler(std), update, std)


def retract(state: Any) -> Any:
    """Take back the last step of the mean, and make the next ones half as long.

    For a loss that is not finite at the new mean: call it in place of an update. The
    length recovers by a tenth per step. The states of all three schemes will do.
    """
    return state._replace(mean=state.previous, length=0.5 * state.length)


def recovered(length: Scalar) -> Scalar:
    """The length after a step that went well."""
    return jnp.minimum(1.1 * length, 1.0)


def as_floats(theta: PyTree) -> PyTree:
    """The same tree with floating-point arrays for leaves."""
    return jax.tree.map(lambda t: jnp.asarray(t, jnp.result_type(t, float)), theta)


def centre_of(theta: PyTree, prior_mean: str) -> PyTree:
    """The mean of the prior: zero, or the theta of the start."""
    return theta if prior_mean == "initial" else jax.tree.map(jnp.zeros_like, theta)


def leaves(value: Leaves, theta: PyTree) -> PyTree:
    """A tree of numbers like theta."""
    if callable(value):
        return value(theta)
    return jax.tree.map(lambda _: value, theta)


def diagonal_std(
    prior_precision: Leaves, units: Leaves, max_std: float | None
) -> Callable[[Any], PyTree]:
    """The standard deviations of theta, where theta * units has the variances
    1 / (p + lambda_1)."""

    def one_leaf(p: Array, lam: Any, unit: Any) -> Array:
        sigma = 1.0 / jnp.sqrt(p + lam)
        if max_std is not None:
            sigma = jnp.minimum(sigma, max_std)
        return sigma / unit

    def std(state: Any) -> PyTree:
        lambdas, scales = (leaves(v, state.mean) for v in (prior_precision, units))
        return jax.tree.map(one_leaf, state.p, lambdas, scales)

    return std


def diagonal_sampler(std: Callable[[Any], PyTree]) -> Callable[..., PyTree]:
    """What draws theta: independent normals around the mean."""

    def sample(key: RandomKey, state: Any, num_samples: int = 1) -> PyTree:
        _checks.check_positive("num_samples", num_samples)
        flat, tree = jax.tree.flatten(state.mean)
        noise = [
            jr.normal(k, (num_samples, *leaf.shape), leaf.dtype)
            for k, leaf in zip(jr.split(key, len(flat)), flat, strict=True)
        ]
        return jax.tree.map(
            lambda mean, sigma, e: mean + sigma * e,
            state.mean,
            std(state),
            jax.tree.unflatten(tree, noise),
        )

    return sample


def check_diagonal(
    prior_precision: Leaves,
    prior_mean: str,
    initial_p: float,
    max_std: float | None,
    units: Leaves,
) -> None:
    """The arguments that the diagonal schemes share."""
    _checks.check_not_negative("prior_precision", prior_precision)
    _checks.check_prior_mean(prior_mean)
    _checks.check_positive("max_std", max_std)
    _checks.check_positive("units", units)
    _checks.check_finite_std(initial_p, prior_precision, max_std)
