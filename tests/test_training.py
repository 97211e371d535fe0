"""The training loop: minibatches, chunks, interruption, loud failure."""

import jax
import numpy as np
import pytest

import real_step
from motleygp import training


@pytest.fixture(scope="module")
def run():
    return real_step.build()


def test_minibatches_are_without_replacement_within_an_epoch(run):
    state, data, _ = run
    size, seen = real_step.BATCH_SIZE, []
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


def test_chunks_do_not_change_the_run(run):
    state, data, step = run
    whole = training.fit(state, data, step, num_steps=12, chunk=12)
    parts = training.fit(state, data, step, num_steps=12, chunk=5)
    resumed = training.fit(
        training.fit(state, data, step, num_steps=5, chunk=5).state,
        data,
        step,
        num_steps=7,
        chunk=5,
    )
    np.testing.assert_array_equal(whole.trace.nelbo, parts.trace.nelbo)
    np.testing.assert_array_equal(whole.state.q.mean, resumed.state.q.mean)
    np.testing.assert_array_equal(whole.state.q.mean, parts.state.q.mean)
    assert int(resumed.state.iteration) == 12


def test_a_callback_ends_the_run(run):
    state, data, step = run
    result = training.fit(
        state, data, step, num_steps=20, chunk=5, callback=lambda done, _: done >= 10
    )
    assert len(result.trace.nelbo) == 10 and not result.interrupted


def test_ctrl_c_keeps_what_is_done(run):
    state, data, step = run

    def interrupt(done, _):
        if done == 10:
            raise KeyboardInterrupt

    result = training.fit(state, data, step, num_steps=20, chunk=5, callback=interrupt)
    assert result.interrupted and int(result.state.iteration) == 10


def test_a_bound_that_is_not_finite_ends_the_run(run):
    state, data, step = run
    broken = state._replace(q=jax.tree.map(lambda a: a * np.nan, state.q))
    with pytest.raises(FloatingPointError, match="at step 0"):
        training.fit(broken, data, step, num_steps=5, chunk=5)


def test_refused_steps_are_warned_about_past_a_share():
    training.warn_if_refused(np.zeros(100, int))
    training.warn_if_refused(np.zeros(0))
    with pytest.warns(UserWarning, match="10% of the natural-gradient steps"):
        training.warn_if_refused(np.repeat([1, 0], [10, 90]))


def test_a_run_that_never_began_has_an_empty_trace():
    trace = training.named_trace(None)
    assert all(len(column) == 0 for column in trace.values())
