"""Several starts: in turn, in processes, together; the best is kept."""

import functools as ft
import subprocess
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import small
from motleygp import optim
from motleygp.inference.objective import elbo, full_elbo, held_out_nlpd
from motleygp.inference.posterior import kl_to_prior
from motleygp.numerics.chunks import some_places
from motleygp.training import loop, paper_start, restarts

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def task():
    return small.task()


def same(a: restarts.Outcome, b: restarts.Outcome) -> bool:
    assert a.solution is not None and b.solution is not None
    means = np.array_equal(a.solution.q.mean, b.solution.q.mean)
    return means and a.score == b.score


def test_the_same_seed_gives_the_same_run_bit_for_bit(task):
    first, again = restarts.run(task, 1), restarts.run(task, 1)
    assert same(first, again)
    assert not same(first, restarts.run(task, 2))


@pytest.mark.slow
def test_processes_give_what_one_process_gives():
    # In a process of its own: the type checks of the tests' import hook do not pickle.
    code = """
import numpy as np, small
from motleygp.training import processes, restarts
apart = processes.run_in_processes(small.task(), [1, 2], 2, print)
for seed, outcome in zip([1, 2], apart, strict=True):
    alone = restarts.run(small.task(), seed)
    assert outcome.score == alone.score
    assert np.array_equal(outcome.solution.q.mean, alone.solution.q.mean)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


@pytest.mark.slow
def test_together_is_close_to_alone(task):
    together = restarts.run_together(task, [1, 2])
    for seed, outcome in zip([1, 2], together, strict=True):
        np.testing.assert_allclose(
            outcome.score, restarts.run(task, seed).score, rtol=1e-6
        )


def test_together_keeps_the_best_states_as_alone(task, monkeypatch):
    left, held = ((task.data[0].part(rows),) for rows in (slice(18, 70), slice(18)))
    task = task._replace(data=left, held_out=held)
    with_it = ft.partial(loop.HeldOut, every=5, patience=2)
    monkeypatch.setattr(restarts, "HeldOut", with_it)
    for seed, outcome in zip([1, 2], restarts.run_together(task, [1, 2]), strict=True):
        alone = restarts.run(task, seed)
        assert outcome.ended == alone.ended
        scores, expected = outcome.trace["held_out"], alone.trace["held_out"]
        np.testing.assert_allclose(scores, expected, rtol=1e-6)
        np.testing.assert_allclose(outcome.score, alone.score, rtol=1e-6)


def test_the_score_is_minus_the_bound_on_all_rows(task):
    outcome = restarts.run(task, 1)
    model, q, _ = outcome.solution
    expected = -float(elbo(model, q, task.data).elbo)
    np.testing.assert_allclose(outcome.score, expected, rtol=1e-9)


def test_the_best_run_is_kept_and_failures_are_told(task):
    good = restarts.run(task, 1)
    worse = good._replace(score=good.score + 1.0)
    failed = restarts._failed("it fell over.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert restarts.best([worse, good])[1] is good
    assert restarts.best([failed, worse])[1] is worse
    with pytest.warns(UserWarning, match="1 of 2 restarts failed: it fell over"):
        restarts.warn_if_failed([outcome._asdict() for outcome in (failed, worse)])
    with pytest.raises(FloatingPointError, match="it fell over"):
        restarts.best([failed, failed])


def test_a_run_that_breaks_is_an_outcome_not_a_crash(task):
    wild = optim.Scheme(
        optim.NaturalGradient(1.0, guard=None),
        optim.Variational(1e6, precision_step=0.1),
        refuse=False,
    )
    outcome = restarts.run(task._replace(scheme=wild), 1)
    assert outcome.solution is None and outcome.score == np.inf
    assert outcome.error is not None and "no longer finite" in outcome.error


def test_held_out_rows_score_the_run(task):
    left, held = ((task.data[0].part(rows),) for rows in (slice(18, 70), slice(18)))
    outcome = restarts.run(task._replace(data=left, held_out=held), 1)
    model, q, _ = outcome.solution
    np.testing.assert_allclose(
        outcome.score, float(np.mean(held_out_nlpd(model, q, held))), rtol=1e-9
    )
    scores = outcome.trace["held_out"]
    assert np.isfinite(scores).sum() == 1 and np.isfinite(scores[-1])


def test_the_papers_start(rng, task):
    model, q = paper_start(rng, task.data, task.likelihoods, **small.SETTINGS)
    z = np.asarray(model.prior.inducing)[0, :, 0]
    np.testing.assert_allclose(np.diff(z), np.ptp(z) / 5)
    assert model.fixed == ("offset",) and not np.any(model.offset)
    np.testing.assert_allclose(q.cov()[0], np.eye(6))


def test_the_bound_by_parts_is_the_bound(task, monkeypatch):
    from motleygp.inference import objective

    outcome = restarts.run(task, 1)
    model, q, _ = outcome.solution
    whole = full_elbo(model, q, task.data)
    monkeypatch.setattr(objective, "_COLUMNS", 17)
    np.testing.assert_allclose(full_elbo(model, q, task.data), whole, rtol=1e-12)
    # Some rows at random stand for all of them.
    (block,) = task.data
    rows = some_places(block.total, 40)
    expected = full_elbo(model, q, (block.part(rows),))
    kl = float(jnp.sum(kl_to_prior(q)))
    expected = (expected + kl) * block.total / 40 - kl
    estimate = full_elbo(model, q, task.data, most=40)
    np.testing.assert_allclose(estimate, expected, rtol=1e-12)
    assert estimate != pytest.approx(whole, rel=1e-6)
