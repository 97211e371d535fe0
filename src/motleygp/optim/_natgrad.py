"""The natural-gradient step on q(u), with natural momentum and a guard."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from motleygp._types import Scalar
from motleygp.inference.objective import NaturalTerms
from motleygp.inference.posterior import Posterior, group_divergence
from motleygp.numerics.linalg import cholesky, inverse_lower, over_groups
from motleygp.optim import _checks
from motleygp.optim._schedule import Schedule, at

# A slope of less than this many nats is rounding, not overshoot.
_NEGLIGIBLE = 1e-9


class Guard(NamedTuple):
    """What a step may do; `None` in its place lets every step through.

    **Within a step**, each group on its own: the new precision must be positive
    definite and KL[q_new || q_old] at most `radius` nats per inducing value. A step
    outside is shortened until it is inside, at most `max_shrinks` times, then refused.

    **From step to step**, all groups together: q factorises over the groups, so steps
    that are each right alone can overshoot together (a Jacobi iteration). With s the
    slope of the loss along the last step, before and after it, -s_after / s_before > 0
    means that the step went past the minimum on its line, and at 1 that it gained
    nothing. Past `overshoot` the step length is halved and the momentum dropped.

    A shortened length grows by `recovery` per quiet step, up to the full one.
    """

    radius: float = 2.0
    max_shrinks: int = 12
    overshoot: float = 0.6
    recovery: float = 1.1


_DEFAULT_GUARD = Guard()


class NatGradState(NamedTuple):
    """All that a step needs from the ones before it."""

    num_steps: Int[Array, ""]
    previous_mean: Float[Array, "G M"]
    slope: Scalar
    joint_length: Scalar
    length: Float[Array, " G"]


class NatGradInfo(NamedTuple):
    """What a step did: the lengths it took, and how often it was cut.

    `shrinks` and `refused` count over the groups; `overshot` says that the step before
    this one went too far; `divergence` is KL[q_new || q_old] summed over the groups.
    """

    step_size: Scalar
    shrinks: Int[Array, ""]
    refused: Int[Array, ""]
    overshot: Bool[Array, ""]
    divergence: Scalar


class NaturalGradient(NamedTuple):
    """A pair of pure functions, in optax's manner.

    `update` returns the new q itself, not something to add to the old one: a step adds
    to the natural parameters, where a sum of moments means nothing. Its last argument,
    the pace, scales the step.
    """

    init: Callable[[Posterior], Any]
    update: Callable[
        ...,  # NaturalTerms, state, Posterior, pace
        tuple[Posterior, Any, NatGradInfo],
    ]


def natural_gradient(
    step_size: float | Schedule,
    *,
    momentum: float | Schedule = 0.0,
    guard: Guard | None = _DEFAULT_GUARD,
) -> NaturalGradient:
    """Mirror descent on q(u) with natural momentum, F being minus the bound.

        V'^-1 = V^-1 + 2 b dF/dV
        m' = m - b V' dF/dm + u V' V^-1 (m - m_previous)

    **Arguments:**

    - `step_size`: b (the paper's beta), or a function of the step count.
    - `momentum`: u (the paper's upsilon), likewise.
    - `guard`: what a step may do; `None` for the formulas alone.
    """
    _checks.check_positive("step_size", step_size)
    _checks.check_momentum(momentum)

    def init(q: Posterior) -> NatGradState:
        num_groups = q.mean.shape[0]
        return NatGradState(
            num_steps=jnp.zeros((), int),
            previous_mean=q.mean,
            slope=jnp.zeros(()),
            joint_length=jnp.ones(()),
            length=jnp.ones(num_groups),
        )

    def update(
        terms: NaturalTerms,
        state: NatGradState,
        q: Posterior,
        pace: Scalar | float = 1.0,
    ) -> tuple[Posterior, NatGradState, NatGradInfo]:
        beta = pace * at(step_size, state.num_steps)
        upsilon = at(momentum, state.num_steps)
        joint, overshot = state.joint_length, jnp.zeros((), bool)
        if guard is not None:
            after = jnp.sum(terms.gradient * (q.mean - state.previous_mean))
            overshot = after > guard.overshoot * -state.slope
            overshot &= state.slope < -_NEGLIGIBLE
            joint = jnp.where(overshot, 0.5 * joint, joint * guard.recovery)
            joint = jnp.minimum(joint, 1.0)
            upsilon = jnp.where(overshot, 0.0, upsilon)
        num_groups = q.mean.shape[0]
        spread = lambda s: jnp.broadcast_to(s, (num_groups,))  # noqa: E731
        step = over_groups(
            _guarded(guard),
            q,
            terms,
            state.previous_mean,
            state.length,
            spread(beta * joint),
            spread(upsilon),
        )
        slope = jnp.sum(terms.gradient * (step.q.mean - q.mean))
        new_state = NatGradState(state.num_steps + 1, q.mean, slope, joint, step.length)
        info = NatGradInfo(
            step_size=jnp.mean(step.taken),
            shrinks=jnp.sum(step.shrinks),
            refused=jnp.sum(step.refused),
            overshot=overshot,
            divergence=jnp.sum(step.divergence),
        )
        return step.q, new_state, info

    return NaturalGradient(init, update)


class _GroupStep(NamedTuple):
    """One group's step: the new q and what it took to get there."""

    q: Posterior
    taken: Scalar
    length: Scalar
    shrinks: Int[Array, ""]
    refused: Int[Array, ""]
    divergence: Scalar


def _guarded(guard: Guard | None) -> Callable[..., _GroupStep]:
    def one_group(
        q: Posterior,
        terms: NaturalTerms,
        previous_mean: Float[Array, " M"],
        length: Scalar,
        beta: Scalar,
        upsilon: Scalar,
    ) -> _GroupStep:
        impulse = upsilon * (q.precision @ (q.mean - previous_mean))

        def attempt(length: Scalar) -> tuple[Posterior, Scalar]:
            b = beta * length
            precision = (1.0 - b) * q.precision + b * terms.target
            half = inverse_lower(cholesky(precision))
            push = length * impulse - b * terms.gradient
            mean = q.mean + (half @ push) @ half
            new = Posterior(mean, precision, half)
            return new, group_divergence(new, q)

        if guard is None:
            new, divergence = attempt(jnp.ones(()))
            zero = jnp.zeros((), int)
            return _GroupStep(new, beta, length, zero, zero, divergence)

        limit, max_shrinks = guard.radius * q.mean.shape[0], guard.max_shrinks

        def outside(divergence: Scalar) -> Bool[Array, ""]:
            return ~(divergence <= limit)  # True for NaN: outside the cone.

        def shorten(carry: tuple) -> tuple:
            length, divergence, shrinks, _ = carry
            # KL is about quadratic in the length, so the root aims at the limit.
            factor = jnp.clip(0.9 * jnp.sqrt(limit / divergence), 0.1, 0.5)
            length = length * jnp.where(jnp.isnan(divergence), 0.25, factor)
            new, divergence = attempt(length)
            return length, divergence, shrinks + 1, new

        new, divergence = attempt(length)
        length, divergence, shrinks, new = jax.lax.while_loop(
            lambda carry: outside(carry[1]) & (carry[2] < max_shrinks),
            shorten,
            (length, divergence, jnp.zeros((), int), new),
        )
        refused = outside(divergence)
        kept = jax.tree.map(lambda a, b: jnp.where(refused, a, b), q, new)
        grown = jnp.minimum(length * jnp.where(shrinks > 0, 1.0, guard.recovery), 1.0)
        return _GroupStep(
            q=kept,
            taken=jnp.where(refused, 0.0, beta * length),
            length=grown,
            shrinks=shrinks,
            refused=refused.astype(int),
            divergence=jnp.where(refused, 0.0, divergence),
        )

    return one_group
