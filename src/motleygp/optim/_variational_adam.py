"""Variational optimisation in the form of Adam."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from motleygp._types import Scalar
from motleygp.optim import _checks, _theta as shared
from motleygp.optim._schedules import Rate, at
from motleygp.optim._theta import ThetaState


class DiagonalAverage(NamedTuple):
    """p of each leaf, where sigma^2 = 1 / (p + lambda_1), and the average gradient."""

    p: PyTree
    average: PyTree


class VariationalAdam(shared.AbstractDiagonal):
    """The scheme of the paper's published code, which differs from that of the paper.

        m' = gamma m + (1 - gamma) (E[g] + lambda_1 (mu - c))
        p' = (1 - rho) p + rho E[g * g],        sigma^2 = 1 / (p + lambda_1)
        mu' = mu - alpha b m' / (sqrt(p') + lambda_1),
        b = sqrt(1 - (1 - rho)^t) / (1 - gamma^t)

    at step t = 1, 2, ..., with g the loss's gradient at draws from q(theta). Momentum
    is an average of gradients, not of steps, and p has its own rate. b is Adam's
    correction for averages that start at zero. But p starts at `initial_p`, so b does
    not correct it: b shortens the first steps (by sqrt(rho), about 0.03), and they grow
    over about 1 / rho steps.

    **Arguments:**

    - `step_size`: alpha, a number or a schedule.
    - `momentum`, `precision_step`: gamma and rho.
    - `bias_correction`: `False` sets b = 1.
    - `initial_p`: p at the start, the published code's `s_ini`.
    - `prior_precision`, `prior_mean`, `max_std`, `units`: see `AbstractDiagonal`.
    """

    name: ClassVar[str] = "variational_adam"

    step_size: Rate
    momentum: float = 0.9
    precision_step: float = 0.001
    bias_correction: bool = True
    initial_p: float = eqx.field(default=1000.0, kw_only=True)

    def __check_init__(self) -> None:
        _checks.check_positive("step_size", self.step_size)
        _checks.check_momentum(self.momentum)
        _checks.check_share("precision_step", self.precision_step)
        _checks.check_not_negative("initial_p", self.initial_p)
        self.check_spread()
        if self.bias_correction:
            # With rho = 0, b would stay 0.
            _checks.check_positive("precision_step", self.precision_step)

    def init(self, theta: PyTree) -> ThetaState:
        theta = shared.as_floats(theta)
        inner = DiagonalAverage(
            self.first_p(theta), jax.tree.map(jnp.zeros_like, theta)
        )
        return shared.first_state(
            theta, shared.centre_of(theta, self.prior_mean), inner
        )

    def update(
        self, gradients: PyTree, state: ThetaState, pace: Scalar | float = 1.0
    ) -> ThetaState:
        gamma, rho = self.momentum, self.precision_step
        alpha = pace * at(self.step_size, state.num_steps)
        if self.bias_correction:
            t = state.num_steps + 1
            alpha *= jnp.sqrt(1.0 - (1.0 - rho) ** t) / (1.0 - gamma**t)

        def one_leaf(g, mean, average, p, centre, lam, unit) -> tuple[Any, Any, Any]:
            g = g / unit
            force = shared.force_on(g, mean, centre, lam, unit)
            new_average = gamma * average + (1.0 - gamma) * force
            new_p = shared.averaged(p, g, rho)
            step = alpha * new_average / (shared.divisor(jnp.sqrt(new_p), lam) * unit)
            return mean - state.length * step, new_average, new_p

        moved = jax.tree.map(
            one_leaf,
            gradients,
            state.mean,
            state.inner.average,
            state.inner.p,
            state.centre,
            shared.leaves(self.prior_precision, state.mean),
            shared.leaves(self.units, state.mean),
        )
        mean, average, p = jax.tree.transpose(
            jax.tree.structure(state.mean), jax.tree.structure((0, 0, 0)), moved
        )
        return shared.next_state(state, mean, DiagonalAverage(p, average))
