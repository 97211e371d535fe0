"""The functional core: its page, and that the estimator is built on it."""

import re
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import motleygp as mg
from motleygp import core

ROOT = Path(__file__).parents[1]
MOST_LINES = 30


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    """The Python blocks of the page, in order."""
    text = (ROOT / "docs" / "core.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def ran(blocks) -> dict:
    names = {"__name__": "core_page"}
    for block in blocks:
        exec(compile(block, "docs/core.md", "exec"), names)
    return names


def test_the_page_shows_the_example_which_is_short(blocks):
    code = (ROOT / "examples" / "core.py").read_text().split('"""\n')[1]
    assert code.strip() == blocks[0].strip()
    assert sum(bool(line.strip()) for line in code.splitlines()) < MOST_LINES


def test_the_example_learns_what_was_drawn(ran):
    x, y, p = ran["x"][:, 0], ran["y"], ran["p"]
    truth = 5.0 * np.sin(9.0 * x)
    assert np.sqrt(np.mean((p.mean - truth) ** 2)) < 0.5
    some = slice(None, None, 4)
    low, high = p[some].interval(0.9).T
    assert 0.85 < np.mean((low <= y[some]) & (y[some] <= high)) < 0.97
    # No constant does nearly as well: a fit of the kernel and the likelihood was made.
    constant = -np.sum(np.abs(y - np.median(y)) + np.log(2.0))
    assert core.full_elbo(ran["model"], ran["q"], ran["data"]) > constant + 300.0


def test_a_step_by_hand_is_the_first_of_the_run(ran):
    scheme, data = ran["scheme"], ran["data"]
    prior = mg.priors.LMC(ran["Exponential"]([[0.3]]), [[3.0]], ran["x"][None, ::20])
    model = core.Model(prior, jnp.zeros(1), (ran["Laplace"](),))
    state = core.init(jr.key(0), model, scheme, num_steps=500)
    _, info = eqx.filter_jit(core.step)(scheme, state, data, batch_size=100)
    np.testing.assert_allclose(info.nelbo, ran["run"].steps.nelbo[0], rtol=1e-9)


@pytest.mark.slow
def test_the_estimator_is_the_core_with_a_start_of_its_own():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    settings = dict(num_inducing=6, num_latents=1, batch_size=20, max_iter=30)
    model = mg.MotleyGP(
        ["gaussian"], standardize=False, random_state=3, progress=False, **settings
    ).fit(X, y)

    # The estimator draws a seed per start, and each start a model and a key.
    (seed,) = np.random.default_rng(3).integers(2**31, size=1)
    draws = np.random.default_rng(int(seed))
    likelihoods = (mg.likelihoods.Gaussian(),)
    data = core.make_dataset([X], [y], likelihoods)
    start = core.initial_model(
        draws, data, likelihoods, num_latents=1, rank=(1,), num_inducing=6
    )
    key = jr.key(int(draws.integers(2**31)))
    scheme = mg.optim.usual("fng", share=20 / 60, weights_per_value=1 / 60)
    precision = core.start_precision(start, data)
    state = core.init(key, start, scheme, num_steps=30, precision=precision)
    run = core.run(scheme, state, data, batch_size=20)
    trained, q, _ = core.solution(scheme, run.state)
    np.testing.assert_array_equal(run.steps.nelbo, model.trace_["nelbo"])
    (p,) = core.predict(trained, q, X)
    np.testing.assert_array_equal(p.mean, model.predict_dist(X)["y0"].mean)
    assert core.full_elbo(trained, q, data) == model.elbo(X, y)
