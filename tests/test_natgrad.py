"""The natural-gradient step: its formulas, its guard, and what it reports."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from motleygp.inference.posterior import (
    NaturalTerms,
    Posterior,
    from_precision,
    kl_to_prior,
)
from motleygp.optim import Guard, NaturalGradient, schedule

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_GROUPS, NUM_INDUCING = 2, 5


def random_q(rng: np.random.Generator) -> Posterior:
    root = rng.normal(size=(NUM_GROUPS, NUM_INDUCING, NUM_INDUCING))
    precision = root @ root.swapaxes(1, 2) + NUM_INDUCING * np.eye(NUM_INDUCING)
    mean = rng.normal(size=(NUM_GROUPS, NUM_INDUCING))
    return from_precision(jnp.asarray(mean), jnp.asarray(precision))


def random_terms(rng: np.random.Generator, scale: float = 1.0) -> NaturalTerms:
    root = rng.normal(size=(NUM_GROUPS, NUM_INDUCING, NUM_INDUCING))
    target = np.eye(NUM_INDUCING) + scale * root @ root.swapaxes(1, 2)
    gradient = scale * rng.normal(size=(NUM_GROUPS, NUM_INDUCING))
    return NaturalTerms(jnp.asarray(gradient), jnp.asarray(target))


@eqx.filter_jit
def two_steps(q, first, second, beta, upsilon):
    optimiser = NaturalGradient(beta, momentum=upsilon, guard=None)
    q, state, _ = optimiser.update(first, optimiser.init(q), q)
    return optimiser.update(second, state, q)[0]


def test_two_steps_with_momentum_equal_the_papers_formulas(rng):
    beta, upsilon = 0.3, 0.7
    q, terms = random_q(rng), [random_terms(rng), random_terms(rng)]
    new = two_steps(q, *terms, beta, upsilon)
    for g in range(NUM_GROUPS):
        m = m_before = np.asarray(q.mean[g])
        V = np.linalg.inv(q.precision[g])
        for t in terms:
            # target = V^-1 + 2 dF/dV.
            dF_dV = 0.5 * (np.asarray(t.target[g]) - np.linalg.inv(V))
            V_new = np.linalg.inv(np.linalg.inv(V) + 2.0 * beta * dF_dV)
            move = V_new @ np.linalg.inv(V) @ (m - m_before)
            m_new = m - beta * V_new @ np.asarray(t.gradient[g]) + upsilon * move
            m, m_before, V = m_new, m, V_new
        np.testing.assert_allclose(new.mean[g], m, rtol=1e-10)
        np.testing.assert_allclose(new.cov()[g], V, rtol=1e-9, atol=1e-12)


def kl_numpy(new: Posterior, old: Posterior, g: int) -> float:
    V0, V1 = (np.linalg.inv(q.precision[g]) for q in (old, new))
    d = np.asarray(new.mean[g] - old.mean[g])
    inverse = np.linalg.inv(V0)
    log_det = np.linalg.slogdet(V0)[1] - np.linalg.slogdet(V1)[1]
    return 0.5 * (np.trace(inverse @ V1) - len(d) + d @ inverse @ d + log_det)


@eqx.filter_jit
def guarded(q, terms, guard: Guard, step_size: float = 1.0, momentum: float = 0.0):
    optimiser = NaturalGradient(step_size, momentum=momentum, guard=guard)
    return optimiser.update(terms, optimiser.init(q), q)


def test_divergence_is_reported(rng):
    q, terms = random_q(rng), random_terms(rng)
    new, _, info = guarded(q, terms, Guard(radius=1e6), 0.5)
    expected = sum(kl_numpy(new, q, g) for g in range(NUM_GROUPS))
    np.testing.assert_allclose(info.divergence, expected, rtol=1e-8)
    assert int(info.shrinks) == int(info.refused) == 0
    np.testing.assert_allclose(info.step_size, 0.5)


def test_step_is_shortened_into_the_trust_region(rng):
    guard = Guard(radius=0.1)
    q, terms = random_q(rng), random_terms(rng, scale=1e4)
    new, state, info = guarded(q, terms, guard)
    for g in range(NUM_GROUPS):
        assert 0.0 < kl_numpy(new, q, g) <= guard.radius * NUM_INDUCING
    assert int(info.shrinks) > 0 and int(info.refused) == 0
    assert float(info.step_size) < 1.0
    assert np.all(np.asarray(state.length) < 1.0)


def test_step_out_of_the_cone_is_shortened_until_it_is_inside(rng):
    q = random_q(rng)
    # A target far below zero: any long step makes the precision indefinite.
    target = -1e3 * jnp.broadcast_to(jnp.eye(NUM_INDUCING), q.precision.shape)
    terms = NaturalTerms(jnp.zeros_like(q.mean), target)
    new, _, info = guarded(q, terms, Guard(radius=1e3))
    assert int(info.shrinks) > 0 and int(info.refused) == 0
    assert np.linalg.eigvalsh(new.precision).min() > 0.0
    assert np.all(np.isfinite(new.half))


def test_a_hopeless_step_is_refused_and_counted(rng):
    q = random_q(rng)
    terms = NaturalTerms(jnp.full_like(q.mean, jnp.nan), q.precision)
    new, _, info = guarded(q, terms, Guard(max_shrinks=3))
    assert int(info.refused) == NUM_GROUPS and int(info.shrinks) == 3 * NUM_GROUPS
    assert float(info.step_size) == 0.0 and float(info.divergence) == 0.0
    for kept, before in zip(jax.tree.leaves(new), jax.tree.leaves(q), strict=True):
        np.testing.assert_array_equal(kept, before)


def test_length_recovers_after_quiet_steps(rng):
    optimiser = NaturalGradient(1.0, guard=Guard(radius=0.1, recovery=1.5))
    update = eqx.filter_jit(optimiser.update)
    q, terms = random_q(rng), random_terms(rng, scale=1e4)
    q, state, _ = update(terms, optimiser.init(q), q)
    cut = np.asarray(state.length)
    at_rest = NaturalTerms(jnp.zeros_like(q.mean), q.precision)
    for _ in range(40):
        q, state, _ = update(at_rest, state, q)
    assert np.all(cut < 1.0) and np.all(np.asarray(state.length) == 1.0)


@pytest.mark.parametrize("overshoots", [True, False])
def test_overshoot_halves_the_joint_length_and_drops_momentum(rng, overshoots):
    optimiser = NaturalGradient(0.1, momentum=0.9, guard=Guard(radius=1e6))
    update = eqx.filter_jit(optimiser.update)
    q, terms = random_q(rng), random_terms(rng)
    moved, state, _ = update(terms, optimiser.init(q), q)
    # The gradient after the step: turned round, or the same.
    after = terms._replace(gradient=(-1.0 if overshoots else 1.0) * terms.gradient)
    again, new_state, info = update(after, state, moved)
    assert bool(info.overshot) == overshoots
    assert float(new_state.joint_length) == (0.5 if overshoots else 1.0)
    plain = NaturalGradient(0.1 * float(new_state.joint_length), guard=None)
    without_momentum = plain.update(after, plain.init(moved), moved)[0]
    same = np.allclose(again.mean, without_momentum.mean, rtol=1e-12)
    assert same == overshoots


def test_schedules_see_the_step_count(rng):
    rates = schedule(
        "linear_schedule", init_value=0.1, end_value=0.2, transition_steps=1
    )
    optimiser = NaturalGradient(rates, guard=None)
    q = random_q(rng)
    state = optimiser.init(q)
    for expected in (0.1, 0.2):
        q, state, info = optimiser.update(random_terms(rng), state, q)
        np.testing.assert_allclose(info.step_size, expected)


def test_divergence_from_the_prior(rng):
    q = random_q(rng)
    eyes = jnp.broadcast_to(jnp.eye(NUM_INDUCING), q.precision.shape)
    prior = from_precision(jnp.zeros_like(q.mean), eyes)
    expected = [kl_numpy(q, prior, g) for g in range(NUM_GROUPS)]
    np.testing.assert_allclose(kl_to_prior(q), expected, rtol=1e-10)
