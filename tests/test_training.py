"""The step and the loop: minibatches, chunks, refusals, convergence, loud failure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small
from motleygp.training import loop, step as training
from motleygp.training.loop import HeldOut

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def run():
    return small.build()


def up_to(state: training.TrainState, iteration: int) -> training.TrainState:
    """The same run to another horizon; without a cool-down, which looks at it."""
    return state._replace(
        horizon=jnp.asarray(iteration, dtype=int), cool_down=jnp.asarray(0, dtype=int)
    )


def test_minibatches_are_without_replacement_within_an_epoch(run):
    state, data, _ = run
    size, seen = small.BATCH_SIZE, []
    epoch = data[0].total // size
    draw = jax.jit(lambda s: training.minibatch(s, data, size))
    for _ in range(2 * epoch):
        batch, order = draw(state)
        assert all(block.x.shape[0] == size for block in batch)
        assert batch[0].scale == data[0].total / size
        seen.append(np.asarray(batch[0].x[:, 0]))
        state = state._replace(order=order, iteration=state.iteration + 1)
    first, second = np.concatenate(seen[:epoch]), np.concatenate(seen[epoch:])
    assert len(np.unique(first)) == len(np.unique(second)) == epoch * size
    assert not np.array_equal(first, second)
    assert set(first) <= set(np.asarray(data[0].x[:, 0]))


def assert_same(a: training.TrainState, b: training.TrainState):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_array_equal(one, other)


def test_chunks_and_pauses_do_not_change_the_run(run):
    state, data, step = run
    whole = loop.fit(up_to(state, 12), data, step, chunk=20)
    parts = loop.fit(up_to(state, 12), data, step, chunk=5)
    half = loop.fit(up_to(state, 5), data, step, chunk=5).state
    resumed = loop.fit(up_to(half, 12), data, step, chunk=5)
    np.testing.assert_array_equal(whole.trace.nelbo, parts.trace.nelbo)
    assert_same(whole.state, parts.state)
    assert_same(whole.state, resumed.state)
    assert int(resumed.state.iteration) == 12
    trace = loop.named_trace(resumed)
    np.testing.assert_array_equal(trace["iteration"], np.arange(6, 13))


def test_a_callback_ends_the_run_and_is_told_where_it_is(run):
    state, data, step = run
    reports = []

    def callback(report):
        reports.append(report)
        return report.iteration >= 10

    result = loop.fit(up_to(state, 20), data, step, chunk=5, callback=callback)
    assert len(result.trace.nelbo) == 10 and result.ended == "callback"
    assert [r.iteration for r in reports] == [5, 10]
    assert reports[0].horizon == 20 and reports[0].held_out is None


def test_ctrl_c_keeps_what_is_done(run):
    state, data, step = run

    def interrupt(report):
        if report.iteration == 10:
            raise KeyboardInterrupt

    result = loop.fit(up_to(state, 20), data, step, chunk=5, callback=interrupt)
    assert result.ended == "interrupted" and int(result.state.iteration) == 10


def test_a_time_limit_ends_the_run(run):
    state, data, step = run
    result = loop.fit(up_to(state, 20), data, step, chunk=5, time_limit=1e-9)
    assert result.ended == "time" and int(result.state.iteration) == 5


def test_held_out_scores_keep_the_best_state_and_end_the_run(run):
    state, data, step = run
    given = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    held_out = HeldOut(lambda _: next(given), every=4, patience=3)
    result = loop.fit(up_to(state, 100), data, step, chunk=5, held_out=held_out)
    assert result.ended == "held-out" and int(result.state.iteration) == 8
    assert [when for when, _ in result.held_out] == [4, 8, 12, 16, 20]
    trace = loop.named_trace(result)
    assert len(trace["nelbo"]) == 20
    np.testing.assert_array_equal(
        trace["iteration"][np.isfinite(trace["held_out"])], [4, 8, 12, 16, 20]
    )


def test_a_bad_draw_is_refused_and_takes_back_the_last_step(run):
    state, data, step = run
    good = loop.fit(up_to(state, 5), data, step, chunk=5).state
    # Weights that make every exponential overflow, as the last step might have.
    bad_mean = jax.tree.map(lambda leaf: leaf + 1e200, good.theta.mean)
    bad = good._replace(theta=good.theta._replace(mean=bad_mean))
    new, info = jax.jit(step)(bad, data)
    assert bool(info.refused)
    assert_same(
        new._replace(theta=()),
        bad._replace(
            theta=(),
            order=new.order,
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
    after, info = jax.jit(step)(new, data)
    assert not bool(info.refused) and np.isfinite(float(info.nelbo))
    assert float(after.theta.length) > float(new.theta.length)


def test_a_run_that_cannot_move_ends_loudly(run):
    state, data, step = run
    broken = up_to(state._replace(q=jax.tree.map(lambda a: a * np.nan, state.q)), 80)
    with pytest.raises(FloatingPointError, match="no longer finite at iteration"):
        loop.fit(broken, data, step, chunk=5)


def followed(values: np.ndarray, patience: int) -> training.TrainState:
    """A state that has seen these values of minus the bound."""
    state, _, _ = small.build()
    state = state._replace(
        horizon=jnp.asarray(10**6, dtype=int), cool_down=jnp.asarray(300, dtype=int)
    )
    scheme = small.SCHEME._replace(patience=patience)

    def one(state, value):
        # NaN stands for a refused draw, which must not count.
        progress = training._followed(state, value, jnp.isfinite(value))
        state = state._replace(iteration=state.iteration + 1, progress=progress)
        return training._nearer(scheme, state), None

    return jax.jit(lambda s, v: jax.lax.scan(one, s, v)[0])(state, values)


def test_the_horizon_comes_nearer_when_the_bound_is_stale(rng):
    noise = rng.normal(size=2000)
    flat = followed(jnp.asarray(100.0 + noise), 3)
    falling = followed(jnp.asarray(100.0 - 0.05 * np.arange(2000) + noise), 3)
    assert int(falling.horizon) == 10**6
    assert 600 + 300 <= int(flat.horizon) < 2000 + 300
    assert int(followed(jnp.asarray(100.0 + noise), 50).horizon) == 10**6
    # A third of the draws refused: the best window's mean stays where it was.
    some = np.where(np.arange(2000) % 3 == 0, np.nan, 100.0 + noise)
    best = float(followed(jnp.asarray(some), 50).progress.best)
    assert abs(best - 100.0) < 0.5


def test_the_pace_ramps_up_and_cools_down(run):
    state, _, _ = run
    scheme = small.SCHEME._replace(warm_up=9)
    state = state._replace(
        horizon=jnp.asarray(100, dtype=int), cool_down=jnp.asarray(50, dtype=int)
    )
    paces = [
        float(training._pace(scheme, state._replace(iteration=jnp.asarray(i))))
        for i in (0, 4, 9, 49, 75, 99)
    ]
    np.testing.assert_allclose(paces, [0.1, 0.5, 1.0, 1.0, 0.5, 0.02])


def test_refused_steps_are_warned_about_past_a_share():
    quiet = {"refused": np.zeros(100, int), "theta_refused": np.zeros(100, bool)}
    loop.warn_if_refused(quiet)
    loop.warn_if_refused({name: np.zeros(0) for name in quiet})
    often = np.repeat([1, 0], [10, 90])
    with pytest.warns(UserWarning, match="10% of the natural-gradient steps"):
        loop.warn_if_refused(quiet | {"refused": often})
    with pytest.warns(UserWarning, match="10% of the draws of theta"):
        loop.warn_if_refused(quiet | {"theta_refused": often > 0})


def test_a_run_that_never_began_has_an_empty_trace(run):
    state, data, step = run
    result = loop.fit(up_to(state, 0), data, step)
    assert all(len(column) == 0 for column in loop.named_trace(result).values())


@pytest.mark.slow
def test_runs_together_are_the_runs_alone(run):
    state, data, step = run
    other = state._replace(key=jax.random.key(1), horizon=jnp.asarray(4, dtype=int))
    first = up_to(state, 7)
    starts = [first, other]
    together = loop.fit_together(starts, data, step, chunk=5)
    for start, result in zip(starts, together, strict=True):
        alone = loop.fit(start, data, step, chunk=5)
        np.testing.assert_allclose(result.trace.nelbo, alone.trace.nelbo, rtol=1e-6)
        np.testing.assert_allclose(
            result.state.q.mean, alone.state.q.mean, rtol=1e-5, atol=1e-7
        )
        assert int(result.state.iteration) == int(start.horizon)
        assert result.ended == "horizon"
    stopped = loop.fit_together(starts, data, step, chunk=5, callback=lambda _: True)
    assert stopped[0].ended == "callback" and int(stopped[0].state.iteration) == 5
    timed = loop.fit_together(starts, data, step, chunk=5, time_limit=1e-9)
    assert timed[0].ended == "time"
