"""Quasi-Newton steps of theta at the end of a run."""

import time

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy.testing import assert_allclose

import motleygp as mg
import small
from motleygp import optim
from motleygp.inference import Model, full_elbo, make_dataset
from motleygp.inference.model import all_fixed, with_fixed
from motleygp.likelihoods import Gaussian
from motleygp.training import Run, init, initial_model, restarts, settled
from motleygp.training.polish import polish

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_ROWS = 12


def values() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-2, 2, size=(NUM_ROWS, 1)), axis=0)
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=NUM_ROWS)


def exact_log_evidence(x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> float:
    """Of y = offset + w u(x) + noise, theta = (log l, w, offset, log noise)."""
    log_length, weight, offset, log_noise = theta
    square = (x - x.T) ** 2 * np.exp(-2.0 * log_length)
    cov = weight**2 * np.exp(-0.5 * square) + np.exp(2 * log_noise) * np.eye(len(y))
    mean = np.full(len(y), offset)
    return float(scipy.stats.multivariate_normal(mean, cov).logpdf(y))


@pytest.fixture(scope="module")
def exact_case():
    """A run that has not begun, of one real output with Z = X, and its rows."""
    x, y = values()
    likelihoods = (Gaussian(0.5),)
    data = make_dataset([x], [y], likelihoods)
    settings = dict(num_latents=1, rank=(1,), num_inducing=NUM_ROWS)
    model = initial_model(np.random.default_rng(0), data, likelihoods, **settings)
    prior = model.prior.with_parameters(
        {**model.prior.parameters(), "inducing": x[None]}
    )
    model = with_fixed(Model(prior, model.offset, model.likelihoods), ["inducing"])
    scheme = optim.fng(lambda_1=0.0, polish=60)
    state = init(jr.key(0), model, scheme, num_steps=0)
    return scheme, Run(state, 0, None, (), "horizon"), data, (x, y)


def test_theta_ends_at_the_maximum_of_the_exact_evidence(exact_case):
    scheme, run, data, (x, y) = exact_case
    found = polish(scheme, run, data)
    assert found.ended == "converged"
    best = max(
        -scipy.optimize.minimize(
            lambda theta: -exact_log_evidence(x, y, theta),
            [log_length, 1.0, 0.0, -1.0],
            method="Nelder-Mead",
            options={"maxiter": 4000, "xatol": 1e-8, "fatol": 1e-10},
        ).fun
        for log_length in (-1.0, 0.0)
    )
    bound = full_elbo(found.state.model, found.state.q, data)
    assert_allclose(bound, best, atol=1e-3)
    assert_allclose(-found.steps.nelbo[-1], bound, atol=1e-3)
    assert np.all(np.diff(found.steps.nelbo) <= 0)


def test_a_prior_holds_theta_back(exact_case):
    _, run, data, _ = exact_case
    free, held = (
        polish(optim.fng(lambda_1=lam, polish=60), run, data).state.theta.mean.prior
        for lam in (0.0, 1e4)
    )
    start = run.state.theta.mean.prior
    assert np.abs(free.weights - start.weights).max() > 0.05
    assert np.abs(held.weights - start.weights).max() < 0.01


@pytest.mark.parametrize(
    "optimiser",
    [
        optim.fng(lambda_1=3.0).theta,
        optim.Variational(0.01, prior_precision=2.0, units=2.0, prior_mean="initial"),
        optim.FullVariational(0.01, prior_precision=0.5),
        optim.FullVariational(0.01, prior_precision=None),
        optim.hybrid().theta,
    ],
)
def test_cost_is_minus_the_log_of_the_prior(optimiser):
    names = ("weights", "offset")
    rng = np.random.default_rng(0)
    start, one, other = (
        {name: jnp.asarray(rng.normal(size=3)) for name in names} for _ in range(3)
    )
    state = optimiser.init(start)
    found = optimiser.cost(state, one) - optimiser.cost(state, other)
    precision = getattr(optimiser, "prior_precision", None) or 0.0
    expected = 0.0
    for name in names:
        lam = precision if np.isscalar(precision) else {"weights": 3.0}.get(name, 0.0)
        lam = lam * getattr(optimiser, "units", 1.0) ** 2
        around = getattr(optimiser, "prior_mean", "zero")
        centre = start[name] if around == "initial" else 0.0
        if lam > 0:
            density = scipy.stats.norm(centre, lam**-0.5)
            expected += np.sum(density.logpdf(other[name]) - density.logpdf(one[name]))
    assert_allclose(found, expected, rtol=1e-12)


# Within a fit.


@pytest.fixture(scope="module")
def task():
    return small.task()._replace(scheme=optim.fng(polish=8), num_steps=4)


@pytest.fixture(scope="module")
def whole(task):
    return restarts.run(task, 0)


def test_the_steps_are_iterations_of_the_run(task, whole):
    plain = restarts.run(task._replace(scheme=optim.fng()), 0)
    assert whole.ended == "horizon" and plain.ended == "horizon"
    assert_allclose(whole.trace["iteration"], np.arange(1, 13))
    assert_allclose(whole.trace["nelbo"][:4], plain.trace["nelbo"], rtol=1e-12)
    assert_allclose(whole.score, whole.trace["nelbo"][-1], rtol=1e-4)
    assert whole.score < plain.score - 1.0


def test_a_callback_ends_the_steps(task, whole):
    seen = []

    def callback(report):
        seen.append(report.iteration)
        return report.iteration == 6

    outcome = restarts.run(task, 0, callback)
    assert outcome.ended == "callback" and seen == [4, 5, 6]
    assert_allclose(outcome.trace["nelbo"], whole.trace["nelbo"][:6], rtol=1e-8)


def test_an_interrupt_keeps_the_best_point(task, whole):
    def callback(report):
        if report.iteration == 7:
            raise KeyboardInterrupt

    outcome = restarts.run(task, 0, callback)
    assert outcome.ended == "interrupted" and outcome.solution is not None
    assert_allclose(outcome.trace["nelbo"], whole.trace["nelbo"][:7], rtol=1e-8)


def test_the_time_limit_ends_the_steps(task):
    def callback(report):
        if report.iteration == 5:
            time.sleep(1.0)

    # The first iterations take less than the limit, as their programs are compiled.
    outcome = restarts.run(task._replace(time_limit=1.0), 0, callback)
    assert outcome.ended == "time" and len(outcome.trace["nelbo"]) <= 5


def test_a_run_resumed_before_the_steps_takes_all_of_them(task, whole):
    kept = []
    restarts.run(task, 0, lambda report: kept.append(report.so_far()))
    again = restarts.run(task, 0, so_far=kept[-1])
    assert_allclose(again.trace["nelbo"], whole.trace["nelbo"], rtol=1e-12)


def test_a_bound_that_is_not_finite_is_no_step(task, whole, monkeypatch):
    calls = []

    def settle(*args):
        found = settled.settle(*args)
        calls.append(found)
        return found._replace(bound=found.bound * np.nan) if len(calls) == 2 else found

    monkeypatch.setattr("motleygp.training.polish.settle", settle)
    outcome = restarts.run(task, 0)
    assert outcome.error is None and np.isfinite(outcome.trace["nelbo"]).all()
    # A shorter step follows, and others after it.
    assert outcome.score < 0.5 * (whole.trace["nelbo"][3] + whole.score)


def test_a_run_stays_if_the_bound_is_not_finite_anywhere(task, monkeypatch):
    def settle(*args):
        found = settled.settle(*args)
        return found._replace(bound=found.bound * np.nan)

    monkeypatch.setattr("motleygp.training.polish.settle", settle)
    outcome = restarts.run(task, 0)
    assert outcome.ended == "horizon" and len(outcome.trace["nelbo"]) == 4
    assert np.isfinite(outcome.score)


def test_nothing_happens_if_theta_is_fixed(exact_case):
    scheme, run, data, _ = exact_case
    model = all_fixed(run.state.model)
    state = init(jr.key(0), model, scheme, num_steps=0)
    still = Run(state, 0, None, (), "horizon")
    assert polish(scheme, still, data) is still


def test_an_unwhitened_scheme_cannot_be_polished():
    scheme = optim.fng()
    with pytest.raises(ValueError, match="`polish` needs a whitened q"):
        optim.Scheme(scheme.q, scheme.theta, whitened=False, polish=5)


# In the estimator.


@pytest.mark.parametrize(
    ("settings", "polished"),
    [
        ({}, True),
        ({"posterior": "factorised"}, False),
        ({"max_iter": 300}, False),
        ({"effort": "quick", "max_iter": 1000}, False),
        ({"validation_fraction": 0.2}, False),
        ({"optimizer": "hybrid"}, False),
        ({"optimizer": optim.fng()}, False),
        ({"prior": "convolution", "inducing": "function"}, False),
        ({"prior": "convolution", "inducing": "latent"}, True),
        ({"num_latents": 3, "num_inducing": 200}, False),
    ],
)
def test_the_estimator_polishes_where_rows_are_few(settings, polished, the_task_of):
    x, y = np.linspace(0, 1, 30)[:, None], np.linspace(0, 1, 30) ** 2
    model = mg.MotleyGP({"a": "gaussian", "b": "gaussian"}, progress=False, **settings)
    task = the_task_of(model, x, {"a": y, "b": -y})
    assert (task.scheme.polish > 0) == polished
    assert task.num_steps == (300 if polished else settings.get("max_iter", 2000))


@pytest.mark.parametrize(
    ("num_rows", "batch_size", "polished"),
    [(1000, None, True), (1000, 1000, True), (1000, 200, False), (1100, None, False)],
)
def test_more_values_are_polished_without_minibatches(
    num_rows, batch_size, polished, the_task_of
):
    """300 inducing values: 300 000 or more products with the rows."""
    x = np.linspace(0, 1, num_rows)[:, None]
    model = mg.MotleyGP(
        ["gaussian"] * 2,
        num_latents=3,
        num_inducing=100,
        batch_size=batch_size,
        progress=False,
    )
    task = the_task_of(model, x, np.stack([x[:, 0] ** 2, np.sin(5 * x[:, 0])], axis=1))
    assert (task.scheme.polish > 0) == polished
