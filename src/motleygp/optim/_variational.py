"""Variational optimisation: descend E_q(theta)[loss] instead of the loss.

q(theta) = N(mu, diag sigma^2) explores around mu; where the loss is sensitive, its
gradients are large and sigma shrinks.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from motleygp._types import Scalar
from motleygp.optim import _checks
from motleygp.optim._schedules import Rate, rates
from motleygp.optim._theta import (
    AbstractDiagonal,
    ThetaState,
    as_floats,
    averaged,
    centre_of,
    divisor,
    first_state,
    force_on,
    leaves,
    next_state,
)


class Diagonal(NamedTuple):
    """p of each leaf, where sigma^2 = 1 / (p + lambda_1)."""

    p: PyTree


class Variational(AbstractDiagonal):
    """The paper's diagonal scheme: mirror descent with natural momentum.

        p' = (1 - alpha) p + alpha E[g * g],        sigma^2 = 1 / (p + lambda_1)
        mu' = mu - alpha (E[g] + lambda_1 (mu - c)) / (s' + lambda_1)
                 + gamma (s + lambda_1) / (s' + lambda_1) (mu - mu_previous)

    g is the loss's gradient at draws from q(theta), and the objective is
    E_q[loss] + KL[q || N(c, 1 / lambda_1)]. With `prior_precision=0` the prior is flat,
    and only the entropy of q, which makes p decay, is left of the KL.
    `FullVariational(..., prior_precision=None)` leaves the entropy out too.

    **Arguments:**

    - `step_size`, `momentum`: alpha and gamma, numbers or schedules.
    - `precision_step`: the step of p, alpha by default; at most 1, since p could turn
      negative beyond.
    - `root`: use s = sqrt(p), which the paper found better in practice, not s = p.
    - `prior_precision`, `prior_mean`: lambda_1 and c; see `AbstractDiagonal`.
    - `initial_p`: p at the start. A negative p makes q wider than the prior, and needs
      `root=False`.
    - `max_std`, `units`: see `AbstractDiagonal`.
    """

    name: ClassVar[str] = "variational"

    step_size: Rate
    momentum: Rate = 0.9
    precision_step: Rate | None = None
    root: bool = True

    def __check_init__(self) -> None:
        _checks.check_positive("step_size", self.step_size)
        if self.precision_step is None:
            _checks.check_share("step_size", self.step_size)
        _checks.check_share("precision_step", self.precision_step)
        _checks.check_momentum(self.momentum)
        self.check_spread()
        if self.root:
            _checks.check_not_negative("initial_p", self.initial_p)

    def init(self, theta: PyTree) -> ThetaState:
        theta = as_floats(theta)
        inner = Diagonal(self.first_p(theta))
        return first_state(theta, centre_of(theta, self.prior_mean), inner)

    def update(
        self, gradients: PyTree, state: ThetaState, pace: Scalar | float = 1.0
    ) -> ThetaState:
        alpha, rho, gamma = rates(self, state.num_steps)

        def one_leaf(g, mean, previous, p, centre, lam, unit) -> tuple[Any, Any]:
            g = g / unit
            new_p = averaged(p, g, rho)
            s, new_s = (jnp.sqrt(a) if self.root else a for a in (p, new_p))
            force = force_on(g, mean, centre, lam, unit)
            inertia = gamma * (s + lam) * unit * (mean - previous)
            step = (inertia - pace * alpha * force) / (divisor(new_s, lam) * unit)
            return mean + state.length * step, new_p

        moved = jax.tree.map(
            one_leaf,
            gradients,
            state.mean,
            state.previous,
            state.inner.p,
            state.centre,
            leaves(self.prior_precision, state.mean),
            leaves(self.units, state.mean),
        )
        mean, p = jax.tree.transpose(
            jax.tree.structure(state.mean), jax.tree.structure((0, 0)), moved
        )
        return next_state(state, mean, Diagonal(p))
