"""Variational optimisation in Adam's shape."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from motleygp._types import Scalar
from motleygp.optim import _checks
from motleygp.optim._schedule import Schedule, at
from motleygp.optim._variational import (
    Leaves,
    VariationalOptimiser,
    as_floats,
    centre_of,
    check_diagonal,
    diagonal_sampler,
    diagonal_std,
    leaves,
    recovered,
)


class VariationalAdamState(NamedTuple):
    """q(theta) = N(mean, 1 / (p + lambda_1)), and the running average of gradients.

    `previous` is the mean one step ago and `centre` the mean of the prior p(theta).
    `length` scales the next step of the mean; `retract` shortens it.
    """

    num_steps: Int[Array, ""]
    mean: PyTree
    previous: PyTree
    average: PyTree
    p: PyTree
    centre: PyTree
    length: Scalar


def variational_adam(
    step_size: float | Schedule,
    *,
    momentum: float = 0.9,
    precision_step: float = 0.001,
    prior_precision: Leaves = 1.0,
    prior_mean: Literal["zero", "initial"] = "zero",
    initial_p: float = 1000.0,
    bias_correction: bool = True,
    max_std: float | None = None,
    units: Leaves = 1.0,
) -> VariationalOptimiser:
    """The scheme of the paper's published code, which differs from the paper's own.

        m' = gamma m + (1 - gamma) (E[g] + lambda_1 (mu - c))
        p' = (1 - rho) p + rho E[g * g],        sigma^2 = 1 / (p + lambda_1)
        mu' = mu - alpha b m' / (sqrt(p') + lambda_1),
        b = sqrt(1 - (1 - rho)^t) / (1 - gamma^t)

    at step t = 1, 2, ..., with g the loss's gradients at draws from q(theta). Momentum
    is an average of gradients, not of steps, and p has a rate of its own. b is Adam's
    correction for averages that start at zero. p starts at `initial_p` instead, so b
    does not correct it: it makes the first steps short (by sqrt(rho), about 0.03) and
    lets them grow over about 1 / rho of them.

    **Arguments:**

    - `step_size`: alpha, a number or a function of the step count.
    - `momentum`, `precision_step`: gamma and rho.
    - `prior_precision`: lambda_1, one number or one per leaf.
    - `prior_mean`: c, zero or the theta that `init` gets.
    - `initial_p`: p at the start, the published code's `s_ini`.
    - `bias_correction`: `False` puts b = 1.
    - `max_std`, `units`: as in `variational`.
    """
    _checks.check_positive("step_size", step_size)
    _checks.check_momentum(momentum)
    _checks.check_share("precision_step", precision_step)
    _checks.check_not_negative("initial_p", initial_p)
    check_diagonal(prior_precision, prior_mean, initial_p, max_std, units)
    if bias_correction:
        # A p that never moves has no start to correct for: b would be 0 for ever.
        _checks.check_positive("precision_step", precision_step)

    def init(theta: PyTree) -> VariationalAdamState:
        theta = as_floats(theta)
        return VariationalAdamState(
            num_steps=jnp.zeros((), int),
            mean=theta,
            previous=theta,
            average=jax.tree.map(jnp.zeros_like, theta),
            p=jax.tree.map(lambda t: jnp.full_like(t, initial_p), theta),
            centre=centre_of(theta, prior_mean),
            length=jnp.ones(()),
        )

    def update(
        gradients: PyTree, state: VariationalAdamState, pace: Scalar | float = 1.0
    ) -> VariationalAdamState:
        alpha = pace * at(step_size, state.num_steps)
        if bias_correction:
            t = state.num_steps + 1
            alpha *= jnp.sqrt(1.0 - (1.0 - precision_step) ** t) / (1.0 - momentum**t)

        def one_leaf(g, mean, average, p, centre, lam, unit):
            g = g / unit
            force = jnp.mean(g, axis=0) + lam * unit * (mean - centre)
            new_average = momentum * average + (1.0 - momentum) * force
            new_p = (1.0 - precision_step) * p + precision_step * jnp.mean(g**2, axis=0)
            # Nothing pushes a leaf whose denominator is zero: it stays.
            weight = jnp.sqrt(new_p) + lam
            weight = jnp.where(weight > 0.0, weight, jnp.inf)
            step = alpha * new_average / (weight * unit)
            return mean - state.length * step, new_average, new_p

        moved = jax.tree.map(
            one_leaf,
            gradients,
            state.mean,
            state.average,
            state.p,
            state.centre,
            leaves(prior_precision, state.mean),
            leaves(units, state.mean),
        )
        mean, average, p = jax.tree.transpose(
            jax.tree.structure(state.mean), jax.tree.structure((0, 0, 0)), moved
        )
        return VariationalAdamState(
            num_steps=state.num_steps + 1,
            mean=mean,
            previous=state.mean,
            average=average,
            p=p,
            centre=state.centre,
            length=recovered(state.length),
        )

    std = diagonal_std(prior_precision, units, max_std)
    return VariationalOptimiser(init, diagonal_sampler(std), update, std)
