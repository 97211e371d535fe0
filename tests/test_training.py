"""The step and the loop: minibatches, chunks, refusals, convergence, loud failure."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small
from motleygp.inference import Dataset, Model, elbo
from motleygp.priors import LMC
from motleygp.training import (
    HeldOut,
    Run,
    StepInfo,
    TrainState,
    clock,
    minibatch,
    named_trace,
    one_step,
    run,
    step,
    warn_if_refused,
)
from motleygp.training.together import run_together

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def begun():
    return small.build()


def fit(state: TrainState, data: Dataset, **settings: Any) -> Run:
    """The run from this state."""
    return run(small.SCHEME, state, data, batch_size=small.BATCH_SIZE, **settings)


def fit_together(states: list[TrainState], data: Dataset, **settings: Any) -> list[Run]:
    """The runs from these states, under vmap."""
    return run_together(
        small.SCHEME, states, data, batch_size=small.BATCH_SIZE, **settings
    )


@jax.jit
def stepped(state: TrainState, data: Dataset) -> tuple[TrainState, StepInfo]:
    """One step."""
    return step(small.SCHEME, state, data, batch_size=small.BATCH_SIZE)


def up_to(state: TrainState, iteration: int) -> TrainState:
    """The same run to another horizon, without a cool-down, which depends on it."""
    return state._replace(
        horizon=jnp.asarray(iteration, dtype=int), cool_down=jnp.asarray(0, dtype=int)
    )


def test_minibatches_are_without_replacement_within_an_epoch(begun):
    state, data = begun
    size, seen = small.BATCH_SIZE, []
    epoch = data[0].total // size
    draw = jax.jit(lambda s: minibatch(s, data, size))
    for _ in range(2 * epoch):
        batch = draw(state)
        assert all(block.x.shape[0] == size for block in batch)
        assert batch[0].scale == data[0].total / size
        seen.append(np.asarray(batch[0].x[:, 0]))
        state = state._replace(iteration=state.iteration + 1)
    first, second = np.concatenate(seen[:epoch]), np.concatenate(seen[epoch:])
    assert len(np.unique(first)) == len(np.unique(second)) == epoch * size
    assert not np.array_equal(first, second)
    assert set(first) <= set(np.asarray(data[0].x[:, 0]))


def assert_same(a: TrainState, b: TrainState):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_array_equal(one, other)


def test_chunks_and_pauses_do_not_change_the_run(begun):
    state, data = begun
    whole = fit(up_to(state, 12), data, chunk=20)
    parts = fit(up_to(state, 12), data, chunk=5)
    half = fit(up_to(state, 5), data, chunk=5).state
    resumed = fit(up_to(half, 12), data, chunk=5)
    np.testing.assert_array_equal(whole.steps.nelbo, parts.steps.nelbo)
    assert_same(whole.state, parts.state)
    assert_same(whole.state, resumed.state)
    assert int(resumed.state.iteration) == 12
    trace = named_trace(resumed)
    np.testing.assert_array_equal(trace["iteration"], np.arange(6, 13))


def test_a_callback_ends_the_run_and_is_told_where_it_is(begun):
    state, data = begun
    reports = []

    def callback(report):
        reports.append(report)
        return report.iteration >= 10

    result = fit(up_to(state, 20), data, chunk=5, callback=callback)
    assert len(result.steps.nelbo) == 10 and result.ended == "callback"
    assert [r.iteration for r in reports] == [5, 10]
    assert reports[0].horizon == 20 and reports[0].held_out is None


def test_ctrl_c_keeps_what_is_done(begun):
    state, data = begun

    def interrupt(report):
        if report.iteration == 10:
            raise KeyboardInterrupt

    result = fit(up_to(state, 20), data, chunk=5, callback=interrupt)
    assert result.ended == "interrupted" and int(result.state.iteration) == 10


def test_a_time_limit_ends_the_run(begun):
    state, data = begun
    result = fit(up_to(state, 20), data, chunk=5, time_limit=1e-9)
    assert result.ended == "time" and int(result.state.iteration) == 5


def test_a_run_with_too_little_time_cools_down_before_the_limit(begun, monkeypatch):
    state, data = begun
    now = [0.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    state = state._replace(
        horizon=jnp.asarray(1000), cool_down=jnp.asarray(600), iteration=jnp.asarray(0)
    )
    seen = []

    def callback(report):
        # The first chunk compiles, and then an iteration takes a second.
        now[0] += 30.0 if not seen else report.iteration - seen[-1]
        seen.append(report.iteration)

    result = fit(state, data, chunk=20, callback=callback, time_limit=130.0)
    assert result.ended == "time"
    # 10 iterations in the first 30 seconds, 20 in the next; 95 % of what is left.
    assert int(result.state.horizon) == seen[-1] == 10 + 20 + 76
    steps = named_trace(result)["q_step"]
    assert steps[-1] < 0.05 * steps.max() and now[0] < 130.0
    # Enough time changes nothing.
    now[0] = 0.0
    plain = fit(up_to(state, 40), data, chunk=20)
    timed = fit(up_to(state, 40), data, chunk=20, time_limit=1e6)
    np.testing.assert_array_equal(plain.steps.nelbo, timed.steps.nelbo)
    assert timed.ended == plain.ended == "horizon"


def test_held_out_scores_keep_the_best_state_and_end_the_run(begun):
    state, data = begun
    given = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    held_out = HeldOut(lambda _: next(given), every=4, patience=3)
    result = fit(up_to(state, 100), data, chunk=5, held_out=held_out)
    assert result.ended == "held-out" and int(result.state.iteration) == 8
    assert [when for when, _ in result.held_out] == [4, 8, 12, 16, 20]
    trace = named_trace(result)
    assert len(trace["nelbo"]) == 20
    np.testing.assert_array_equal(
        trace["iteration"][np.isfinite(trace["held_out"])], [4, 8, 12, 16, 20]
    )


def test_a_bad_draw_is_refused_and_takes_back_the_last_step(begun):
    state, data = begun
    good = fit(up_to(state, 5), data, chunk=5).state
    # Weights that make every exponential overflow, as the last step might have.
    bad_mean = jax.tree.map(lambda leaf: leaf + 1e200, good.theta.mean)
    bad = good._replace(theta=good.theta._replace(mean=bad_mean))
    new, info = stepped(bad, data)
    assert bool(info.refused)
    assert_same(
        new._replace(theta=()),
        bad._replace(
            theta=(),
            iteration=bad.iteration + 1,
            progress=new.progress,
        ),
    )
    for leaf, before in zip(
        jax.tree.leaves(new.theta.mean),
        jax.tree.leaves(good.theta.previous),
        strict=True,
    ):
        np.testing.assert_array_equal(leaf, before)
    assert float(new.theta.length) == 0.5 * float(bad.theta.length)
    after, info = stepped(new, data)
    assert not bool(info.refused) and np.isfinite(float(info.nelbo))
    assert float(after.theta.length) > float(new.theta.length)


def test_a_run_that_cannot_move_ends_loudly(begun):
    state, data = begun
    broken = up_to(state._replace(q=jax.tree.map(lambda a: a * np.nan, state.q)), 80)
    with pytest.raises(FloatingPointError, match="no longer finite at iteration"):
        fit(broken, data, chunk=5)


def test_a_jitter_that_was_raised_is_in_the_trace(begun):
    state, data = begun
    trace = named_trace(fit(up_to(state, 5), data, chunk=5))
    np.testing.assert_allclose(trace["jitter"], state.model.prior.jitter)
    # All inducing points at one place, and less jitter than that needs.
    prior, base = state.model.prior, 1e-19
    same = LMC(prior.kernel, prior.weights, 0.0 * prior.inducing, jitter=base)
    model = Model(same, state.model.offset, state.model.likelihoods)
    assert 10.0 * base < float(jax.jit(elbo)(model, state.q, data).jitter) < 1e-6


def followed(values: np.ndarray, patience: int, least: float = 0.0) -> TrainState:
    """A state that has seen these values of minus the bound."""
    state, _ = small.build()
    state = state._replace(
        horizon=jnp.asarray(10**6, dtype=int), cool_down=jnp.asarray(300, dtype=int)
    )
    scheme = dataclasses.replace(small.SCHEME, patience=patience)

    def one(state, value):
        # NaN stands for a refused draw, which must not count.
        progress = one_step._followed(state, value, jnp.isfinite(value), least)
        state = state._replace(iteration=state.iteration + 1, progress=progress)
        return one_step._nearer(scheme, state), None

    return jax.jit(lambda s, v: jax.lax.scan(one, s, v)[0])(state, values)


def test_the_horizon_comes_nearer_when_the_bound_is_stale(rng):
    noise = rng.normal(size=2000)
    flat = followed(jnp.asarray(100.0 + noise), 3)
    falling = followed(jnp.asarray(100.0 - 0.05 * np.arange(2000) + noise), 3)
    assert int(falling.horizon) == 10**6
    # The cool-down lasts for a quarter of the iterations before it.
    assert 200 + 50 <= int(flat.horizon) < 1.25 * 2000
    assert int(flat.horizon) == pytest.approx(5 * int(flat.cool_down), abs=5)
    # The bound rises by 2.5 nats in each window.
    assert int(followed(100.0 - 0.05 * np.arange(2000), 3, 2.0).horizon) == 10**6
    assert int(followed(100.0 - 0.05 * np.arange(2000), 3, 40.0).horizon) < 1000
    assert int(followed(jnp.asarray(100.0 + noise), 50).horizon) == 10**6
    # A third of the draws refused: the best window's mean stays where it was.
    some = np.where(np.arange(2000) % 3 == 0, np.nan, 100.0 + noise)
    best = float(followed(jnp.asarray(some), 50).progress.best)
    assert abs(best - 100.0) < 0.5


def test_a_cool_down_that_has_begun_goes_on_at_its_pace(begun):
    state, _ = begun
    scheme = dataclasses.replace(small.SCHEME, patience=1)
    state = state._replace(
        iteration=jnp.asarray(400),
        horizon=jnp.asarray(1000),
        cool_down=jnp.asarray(800),
        progress=state.progress._replace(stale=jnp.asarray(1)),
    )
    nearer = one_step._nearer(scheme, state)
    # A quarter of 400 iterations, of which three quarters are left.
    assert (int(nearer.horizon), int(nearer.cool_down)) == (475, 100)
    assert one_step.pace_down(nearer) == one_step.pace_down(state) == 0.75
    assert one_step._nearer(scheme, nearer).horizon == 475


def test_the_pace_ramps_up_and_cools_down(begun):
    state, _ = begun
    scheme = dataclasses.replace(small.SCHEME, warm_up=9)
    state = state._replace(
        horizon=jnp.asarray(100, dtype=int), cool_down=jnp.asarray(50, dtype=int)
    )
    paces = [
        float(one_step._pace(scheme, state._replace(iteration=jnp.asarray(i))))
        for i in (0, 4, 9, 49, 75, 99)
    ]
    np.testing.assert_allclose(paces, [0.1, 0.5, 1.0, 1.0, 0.5, 0.02])


def test_refused_steps_are_warned_about_past_a_share():
    quiet = {"refused": np.zeros(100, int), "theta_refused": np.zeros(100, bool)}
    warn_if_refused(quiet)
    warn_if_refused({name: np.zeros(0) for name in quiet})
    often = np.repeat([1, 0], [10, 90])
    with pytest.warns(UserWarning, match="10% of the natural-gradient steps"):
        warn_if_refused(quiet | {"refused": often})
    with pytest.warns(UserWarning, match="10% of the draws of theta"):
        warn_if_refused(quiet | {"theta_refused": often > 0})


def test_a_run_that_never_began_has_an_empty_trace(begun):
    state, data = begun
    result = fit(up_to(state, 0), data)
    assert all(len(column) == 0 for column in named_trace(result).values())


@pytest.mark.slow
def test_runs_together_are_the_runs_alone(begun):
    state, data = begun
    other = state._replace(key=jax.random.key(1), horizon=jnp.asarray(4, dtype=int))
    first = up_to(state, 7)
    starts = [first, other]
    together = fit_together(starts, data, chunk=5)
    for start, result in zip(starts, together, strict=True):
        alone = fit(start, data, chunk=5)
        np.testing.assert_allclose(result.steps.nelbo, alone.steps.nelbo, rtol=1e-6)
        np.testing.assert_allclose(
            result.state.q.mean, alone.state.q.mean, rtol=1e-5, atol=1e-7
        )
        assert int(result.state.iteration) == int(start.horizon)
        assert result.ended == "horizon"
    stopped = fit_together(starts, data, chunk=5, callback=lambda _: True)
    assert stopped[0].ended == "callback" and int(stopped[0].state.iteration) == 5
    timed = fit_together(starts, data, chunk=5, time_limit=1e-9)
    assert timed[0].ended == "time"
