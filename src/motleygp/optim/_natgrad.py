"""The natural-gradient step on q(u), with natural momentum and a guard."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from motleygp._types import Scalar
from motleygp.inference.posterior import NaturalTerms, Posterior, part_divergence
from motleygp.named import Named
from motleygp.numerics.linalg import cholesky, inverse_lower, over_groups
from motleygp.optim import _checks
from motleygp.optim._q import AbstractQOptimiser, Pace, QInfo
from motleygp.optim._schedules import Rate, at

# A slope below this many nats is rounding, not overshoot.
_NEGLIGIBLE = 1e-9


class Guard(Named):
    """Limits on the steps of q(u); without a guard, every step is taken.

    **Within a step**, for each part of q: the new precision must be positive definite
    and KL[q_new || q_old] at most `radius` nats per inducing value. A step outside
    these limits is shortened at most `max_shrinks` times, then refused.

    **From step to step**, for all parts together: q factorises over its parts, so
    steps that are right for each part can overshoot together (a Jacobi iteration). Let
    s be the slope of the loss along the last step, before and after it. A ratio
    -s_after / s_before above 0 means that the step went past the minimum on its line;
    at 1 it gained nothing. Above `overshoot`, the step length is halved and the
    momentum dropped.

    A shortened length grows by the factor `recovery` with each step inside the limits,
    or by 2 if the step is far inside, up to the full length.
    """

    kind: ClassVar[str] = "guard"
    name: ClassVar[str] = "guard"

    radius: float = 2.0
    max_shrinks: int = 12
    overshoot: float = 0.6
    recovery: float = 1.1


_DEFAULT_GUARD = Guard()


class NatGradState(NamedTuple):
    """The memory of earlier steps."""

    num_steps: Int[Array, ""]
    previous_mean: Float[Array, "K S"]
    slope: Scalar
    joint_length: Scalar
    length: Float[Array, " K"]


class NaturalGradient(AbstractQOptimiser):
    """Mirror descent on q(u) with natural momentum, where F is minus the bound.

        V'^-1 = V^-1 + 2 b dF/dV
        m' = m - b V' dF/dm + u V' V^-1 (m - m_previous)

    **Arguments:**

    - `step_size`: b (the paper's beta), a number or a schedule.
    - `momentum`: u (the paper's upsilon), likewise.
    - `guard`: limits on the steps; `None` for the plain formulas.
    """

    name: ClassVar[str] = "natural_gradient"
    starts_narrow: ClassVar[bool] = True

    step_size: Rate
    momentum: Rate = 0.0
    guard: Guard | None = _DEFAULT_GUARD

    def __check_init__(self) -> None:
        _checks.check_positive("step_size", self.step_size)
        _checks.check_momentum(self.momentum)

    def init(self, q: Posterior) -> NatGradState:
        return NatGradState(
            num_steps=jnp.zeros((), int),
            previous_mean=q.mean,
            slope=jnp.zeros(()),
            joint_length=jnp.ones(()),
            length=jnp.ones(q.mean.shape[0]),
        )

    def update(
        self, terms: NaturalTerms, state: NatGradState, q: Posterior, pace: Pace = 1.0
    ) -> tuple[Posterior, NatGradState, QInfo]:
        guard = self.guard
        beta = pace * at(self.step_size, state.num_steps)
        upsilon = at(self.momentum, state.num_steps)
        joint, overshot = state.joint_length, jnp.zeros((), bool)
        if guard is not None:
            after = jnp.sum(terms.gradient * (q.mean - state.previous_mean))
            overshot = after > guard.overshoot * -state.slope
            overshot &= state.slope < -_NEGLIGIBLE
            joint = jnp.where(overshot, 0.5 * joint, joint * guard.recovery)
            joint = jnp.minimum(joint, 1.0)
            upsilon = jnp.where(overshot, 0.0, upsilon)
        num_parts = q.mean.shape[0]
        step = over_groups(
            _guarded(guard),
            q,
            terms,
            state.previous_mean,
            state.length,
            jnp.broadcast_to(beta * joint, (num_parts,)),
            jnp.broadcast_to(upsilon, (num_parts,)),
        )
        slope = jnp.sum(terms.gradient * (step.q.mean - q.mean))
        new_state = NatGradState(state.num_steps + 1, q.mean, slope, joint, step.length)
        info = QInfo(
            step_size=jnp.mean(step.taken),
            shrinks=jnp.sum(step.shrinks),
            refused=jnp.sum(step.refused),
            overshot=overshot,
            divergence=jnp.sum(step.divergence),
        )
        return step.q, new_state, info


class _PartStep(NamedTuple):
    """The step of one part of q: the new q, and lengths and counts for the report."""

    q: Posterior
    taken: Scalar
    length: Scalar
    shrinks: Int[Array, ""]
    refused: Int[Array, ""]
    divergence: Scalar


def _moved(
    q: Posterior, terms: NaturalTerms, impulse: Float[Array, " S"], b: Scalar
) -> tuple[Posterior, Scalar]:
    """One part after a step of length b, and KL[q_new || q_old]."""
    precision = (1.0 - b) * q.precision + b * terms.target
    half = inverse_lower(cholesky(precision))
    mean = q.mean + (half @ (impulse - b * terms.gradient)) @ half
    new = Posterior(mean, precision, half)
    return new, part_divergence(new, q)


def _guarded(guard: Guard | None) -> Callable[..., _PartStep]:
    def one_part(
        q: Posterior,
        terms: NaturalTerms,
        previous_mean: Float[Array, " S"],
        length: Scalar,
        beta: Scalar,
        upsilon: Scalar,
    ) -> _PartStep:
        impulse = upsilon * (q.precision @ (q.mean - previous_mean))

        def attempt(length: Scalar) -> tuple[Posterior, Scalar]:
            return _moved(q, terms, length * impulse, beta * length)

        if guard is None:
            new, divergence = attempt(jnp.ones(()))
            zero = jnp.zeros((), int)
            return _PartStep(new, beta, length, zero, zero, divergence)

        limit, max_shrinks = guard.radius * q.mean.shape[0], guard.max_shrinks

        def outside(divergence: Scalar) -> Bool[Array, ""]:
            return ~(divergence <= limit)  # True for NaN: outside the cone.

        def shorten(carry: tuple) -> tuple:
            length, divergence, shrinks, _ = carry
            # KL is roughly quadratic in the length, so the root aims at the limit.
            factor = jnp.clip(0.9 * jnp.sqrt(limit / divergence), 0.1, 0.5)
            factor = jnp.where(jnp.isnan(divergence), 0.25, factor)
            length = length * jnp.where(shrinks < 0, 1.0, factor)
            new, divergence = attempt(length)
            return length, divergence, shrinks + 1, new

        # The first attempt is in the loop too, so that the program has one.
        length, divergence, shrinks, new = jax.lax.while_loop(
            lambda carry: outside(carry[1]) & (carry[2] < max_shrinks),
            shorten,
            (length, jnp.full_like(length, jnp.nan), -jnp.ones((), int), q),
        )
        refused = outside(divergence)
        kept = jax.tree.map(lambda a, b: jnp.where(refused, a, b), q, new)
        # KL is roughly quadratic, so from a quarter of the limit twice the length is
        # still inside.
        factor = jnp.where(divergence <= 0.25 * limit, 2.0, guard.recovery)
        grown = jnp.minimum(length * jnp.where(shrinks > 0, 1.0, factor), 1.0)
        return _PartStep(
            q=kept,
            taken=jnp.where(refused, 0.0, beta * length),
            length=grown,
            shrinks=shrinks,
            refused=refused.astype(int),
            divergence=jnp.where(refused, 0.0, divergence),
        )

    return one_part
