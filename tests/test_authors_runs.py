"""Runs of the authors' code: rows, starts, settings, scores.

`experiments/authors.py --rows code --seeds 101` gives the scores that the code itself
gave.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from authors_small import settings_for
from motleygp import datasets, likelihoods as lik
from motleygp_reproduce import authors
from motleygp_reproduce.authors import (
    bound,
    covariances,
    preparation,
    running,
    schemes,
    scoring,
)
from motleygp_reproduce.authors.start import literal_noise, start

pytestmark = pytest.mark.usefixtures("quick_compilation")


# Rows and starts.


def problem_of(num_rows: int = 36, num_inputs: int = 2) -> datasets.Problem:
    rng = np.random.default_rng(6)
    x = rng.random((num_rows, num_inputs))
    y = np.stack([np.sin(4.0 * x[:, 0]), x[:, 0] > 0.5], axis=1) * 1.0
    y[:3, 1] = np.nan
    cut = num_rows * 3 // 4
    parts = x[:cut], y[:cut], x[cut:], y[cut:]
    both = lik.Gaussian(0.3, fixed=True), lik.Bernoulli()
    return datasets.Problem(*parts, both, ("real", "binary"))


def test_minibatches_are_consecutive_slices_again_and_again():
    problem = problem_of()
    data = preparation.prepared(problem, settings_for(inputs="raw"), shuffled=False)
    # 27 rows and 24: three slices each, the last ones of 7 and 4.
    np.testing.assert_array_equal(data.train.lengths, [3, 3])
    for iteration in range(5):
        batch = data.train.slice_at(jnp.asarray(iteration))
        for d, skipped in enumerate((0, 3)):
            begin = 10 * (iteration % 3)
            expected = problem.y_train[skipped:, d][begin : begin + 10]
            held = np.asarray(batch.weight[d]) > 0.0
            np.testing.assert_array_equal(batch.y[d][held], expected)
            scale = (27 - skipped) / len(expected)
            np.testing.assert_allclose(batch.weight[d][held], scale)
    shuffled = preparation.prepared(problem, settings_for(inputs="raw"))
    order = np.random.RandomState(101).permutation(27)
    first = shuffled.train.y[0].ravel()[:27]
    np.testing.assert_array_equal(first, problem.y_train[order, 0])
    np.testing.assert_array_equal(data.test.y[0], problem.y_test[:, 0])


def test_inputs_are_scaled_as_the_code_scales_them():
    places = np.array([[51.2871, -0.5105], [51.6925, 0.3336]])
    first, _ = preparation.PREPARATIONS["london"](places, places)
    np.testing.assert_allclose(first, [[0.0, 0.0], [1.0, 1.0]], atol=1e-12)
    x = np.array([[1.0, 5.0], [3.0, 5.0]])
    first, second = preparation.PREPARATIONS["standardised"](
        x, x + np.array([2.0, 0.0])
    )
    np.testing.assert_allclose(np.concatenate([first, second]).mean(axis=0), [0, 1])
    assert np.concatenate([first, second])[:, 0].std() == pytest.approx(1.0)
    first, _ = preparation.PREPARATIONS["tenfold"](x, x)
    np.testing.assert_allclose(first, [[5.0, 45.0], [25.0, 45.0]])


@pytest.mark.parametrize("prior", authors.PRIORS)
def test_starts_are_those_of_the_code(prior):
    settings = settings_for(prior, lengthscale_factor=0.5, smoothing_factor=0.2)
    problem = problem_of()
    data = preparation.prepared(problem, settings._replace(inputs="raw"))
    found = start(data, settings, 7)
    groups = 2
    assert found.theta.inducing.shape == (groups, 6, 2)
    low, high = problem.x_train.min(axis=0), problem.x_train.max(axis=0)
    grid = np.linspace(low, high, 6)
    for z in found.theta.inducing:
        np.testing.assert_allclose(z[:, 0], grid[:, 0])
        np.testing.assert_allclose(np.sort(z[:, 1]), grid[:, 1])
    rng = np.random.RandomState(7)
    lengthscale = 0.5 * np.sqrt(2) * (rng.rand(2) + 0.001)
    stored = covariances.positive(found.theta.lengthscale)
    np.testing.assert_allclose(stored, np.tile(lengthscale[:, None], (1, 2)))
    scale = 1.0 if prior == "lmc" else 3.0
    np.testing.assert_array_equal(found.q.lower[1], scale * np.eye(6))
    if prior == "convolution":
        smoothing = 0.2 * np.sqrt(2) * rng.rand(2) * rng.rand(2)
        stored = covariances.positive(found.theta.smoothing)
        np.testing.assert_allclose(stored[:, 0], smoothing)
    spec = schemes.Spec("fng", settings, data.outputs)
    state = schemes.init(spec, found.theta, found.q)
    np.testing.assert_allclose(state.precision[0], np.eye(6) / scale**2)
    assert float(state.second.weights[0, 0]) == 10_000.0


def test_means_of_q_share_a_part_in_every_group():
    problem, settings = problem_of(), settings_for(num_inducing=100)
    data = preparation.prepared(problem, settings)
    mean = np.concatenate([start(data, settings, s).q.mean for s in range(20)])
    assert mean.std(axis=1).mean() == pytest.approx(0.2, rel=0.05)
    assert 0.1 < mean.mean(axis=1).std() < 0.3


def test_literal_noise_is_in_the_order_of_the_parameters():
    settings = settings_for("convolution")
    data = preparation.prepared(problem_of(), settings)
    theta = start(data, settings, 0).theta
    noise = literal_noise(np.random.RandomState(3), theta, 2)
    assert jax.tree.map(jnp.shape, noise) == jax.tree.map(
        lambda a: (2, *a.shape), theta
    )
    (G, M, P), (J, Q) = theta.inducing.shape, theta.weights.shape
    rng = np.random.RandomState(3)
    for iteration in range(2):
        inducing, lengthscale = rng.randn(M, G, P), rng.randn(Q, P)
        weights, smoothing = rng.randn(Q, J).T, rng.randn(J, P)
        of_one = jax.tree.map(lambda a, i=iteration: a[i], noise)
        np.testing.assert_array_equal(of_one.inducing, inducing.transpose(1, 0, 2))
        np.testing.assert_array_equal(of_one.lengthscale, lengthscale)
        np.testing.assert_array_equal(of_one.weights, weights)
        np.testing.assert_array_equal(of_one.smoothing, smoothing)


# Settings, scores and runs.


def test_settings_are_those_of_the_experiments():
    london = authors.settings_of("london")
    assert (london.num_latents, london.num_inducing, london.batch_size) == (3, 80, 50)
    assert (london.initial_precision, london.prior_precision) == (1000.0, 50.0)
    naval = authors.settings_of("naval", prior="convolution")
    assert (naval.lengthscale_factor, naval.smoothing_factor) == (1.0, 1.0)
    initial = [
        authors.settings_of("t2", num_inputs=p).initial_precision
        for p in (1, 2, 3, 4, 5, 10)
    ]
    assert initial == [1e4, 1e3, 500.0, 100.0, 50.0, 10.0]
    with pytest.raises(ValueError, match="no set 'jura'"):
        authors.settings_of("jura")
    with pytest.raises(ValueError, match="`prior` must be"):
        authors.settings_of("london", prior="icm")


def test_scores_are_log_averages_of_densities_over_draws():
    data = preparation.prepared(problem_of(), settings_for(inputs="raw"))
    settings = settings_for(num_samples=4000)
    theta, q, _ = start(data, settings, 0)
    spec = schemes.Spec("fng", settings, data.outputs)
    found = scoring.nlpd(spec, theta, q, data.test, jax.random.key(0))
    point = bound.at(theta, data.test, data.outputs)
    mean, var = bound.marginals(point, q, data.outputs)
    y = data.test.y
    # The noise of 0.3 is forgotten.
    real = scipy.stats.norm.logpdf(y[0], mean[0], np.sqrt(1.0 + var[0]))
    t, w = np.polynomial.hermite_e.hermegauss(60)
    f = np.asarray(mean[1])[:, None] + np.sqrt(np.asarray(var[1]))[:, None] * t
    success = (1.0 / (1.0 + np.exp(-f))) @ w / w.sum()
    binary = np.log(np.where(np.asarray(y[1]) == 1.0, success, 1.0 - success))
    expected = [-real.mean(), -binary.mean()]
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize(
    ("scheme", "prior"),
    [("fng", "lmc"), ("hybrid", "convolution"), ("adam", "lmc"), ("sgd", "lmc")],
)
def test_runs_report_a_bound_per_iteration_and_scores(scheme, prior):
    settings = settings_for(prior, inputs="raw", num_samples=50)
    run = authors.fit(
        problem_of(), settings, scheme=scheme, iterations=4, score_at=(2, 4)
    )
    assert run.nelbo.shape == (4,)
    assert not run.diverged
    assert run.seconds > 0.0
    assert list(run.scores) == [2, 4]
    assert list(run.scores[4]) == ["real", "binary"]
    assert np.isfinite(list(run.scores[4].values())).all()


def test_seeds_are_independent_and_literal_runs_follow_numpy():
    settings = settings_for(inputs="raw", num_samples=50)
    problem = problem_of()
    arguments = {"iterations": 4, "score_at": (2, 4)}
    alone = authors.fit(problem, settings, seed=1, **arguments)
    runs = authors.fit_seeds(problem, settings, seeds=(0, 1), **arguments)
    np.testing.assert_array_equal(runs[1].nelbo, alone.nelbo)
    assert runs[1].scores == alone.scores
    assert not np.allclose(runs[0].nelbo, alone.nelbo)
    assert authors.fit_seeds(problem, settings, seeds=()) == []
    literal = authors.fit(problem, settings, seed=1, literal=True, **arguments)
    data = preparation.prepared(problem, settings, shuffled=False)
    begun = start(data, settings, 1)
    spec = schemes.Spec("fng", settings, data.outputs)
    state = schemes.init(spec, begun.theta, begun.q)
    step = jax.jit(schemes.step, static_argnums=0)
    for number in range(1, 5):
        noise = literal_noise(begun.rng, begun.theta, 1)
        noise = jax.tree.map(lambda a: a[0], noise)
        batch = data.train.slice_at(jnp.asarray(number))
        state, value = step(spec, state, batch, noise)
        assert float(value) == pytest.approx(literal.nelbo[number - 1], rel=1e-8)
    assert set(literal.scores) == {2, 4}


def test_seeds_run_together_have_the_shapes_of_those_alone():
    # Only traced: such a batch is for accelerators.
    settings = settings_for(inputs="raw")
    data = preparation.prepared(problem_of(), settings)
    spec = schemes.Spec("fng", settings, data.outputs)
    begun = start(data, settings, 0)
    alone = schemes.init(spec, begun.theta, begun.q)
    states = jax.tree.map(lambda a: jnp.stack([a, a]), alone)
    keys = jax.random.split(jax.random.key(0), 2)
    moved, found = jax.eval_shape(
        lambda s, k: running._run_chunk(spec, s, data.train, k, None, 3), states, keys
    )
    assert found.shape == (2, 3)
    shapes = jax.tree.map(lambda a: (a.shape, a.dtype), states)
    assert jax.tree.map(lambda a: (a.shape, a.dtype), moved) == shapes


def test_a_run_that_meets_no_number_goes_on_and_says_so():
    settings = settings_for(inputs="raw", num_samples=50, step=1e200)
    run = authors.fit(problem_of(), settings, iterations=4)
    assert run.diverged


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scheme": "newton"}, "`scheme` must be one of"),
        ({"iterations": 0}, "`iterations` must be 1 or more"),
        ({"iterations": 5, "score_at": (6,)}, "`score_at` must lie between"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        authors.fit(problem_of(), settings_for(), **arguments)


def test_chunks_end_where_scores_are_due():
    assert running._chunk_length(2000, (100, 500, 2000)) == 100
    assert running._chunk_length(2000, ()) == 500
    assert running._chunk_length(7, (0,)) == 7


def test_the_experiment_gives_each_output_the_rows_of_the_code(experiments):
    script = experiments("authors")
    problem = problem_of()
    x, y = np.arange(20.0).reshape(10, 2), np.arange(20.0).reshape(10, 2) + 100.0
    found = script.in_code_order(problem, x, y)
    rng = np.random.RandomState(101)
    for d in range(2):
        order = rng.permutation(10)
        for values, rows, part in (
            (found.y_train, found.x_train, order[:7]),
            (found.y_test, found.x_test, order[7:]),
        ):
            held = ~np.isnan(values[:, d])
            np.testing.assert_array_equal(values[held, d], y[part, d])
            np.testing.assert_array_equal(rows[held], x[part])


def test_the_experiment_averages_over_outputs_and_then_over_seeds(experiments):
    script = experiments("authors")
    cell = script.Cell("t1", 1, "lmc", "fng", "library")
    scores = [
        script.Score(*cell, seed, 5, output, nlpd, 0.0, 1.0, 0)
        for seed, output, nlpd in ((0, "a", 1.0), (0, "b", 3.0), (1, "a", 4.0))
    ]
    row = script.table(scores).splitlines()[-1]
    assert row == "| t1 | 1 | lmc | fng | library | 5 | 2 | 3.000 | 1.000 | 3.000 |"
