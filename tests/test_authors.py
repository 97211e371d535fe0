"""The formulas of the authors' code, each against a check of its own."""

import functools as ft
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

import paper_numpy as paper
from authors_small import settings_for
from motleygp_reproduce import authors
from motleygp_reproduce.authors import (
    bound,
    covariances,
    likelihoods,
    preparation,
    schemes,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

NODES = {"beta": 16, "gamma": 20, "bernoulli": 20, "exponential": 20, "poisson": 20}
COUNTS = paper.NUM_FUNCTIONS
KINDS = tuple(COUNTS)


# Likelihoods.


@ft.cache
def terms(kind: str):
    """E[log p], its slopes and log p, compiled together."""
    found = likelihoods.KINDS[kind]

    def of(y, mean, var, sigma):
        moments = y, mean, var, sigma
        return found.value(*moments), found.slopes(*moments), found.log_density(y, mean)

    return jax.jit(of)


def test_special_functions_are_those_of_scipy():
    x = jnp.geomspace(1e-9, 2e9, 1001)
    for found, expected in (
        (likelihoods._log_gamma(x), scipy.special.gammaln(x)),
        (likelihoods._digamma(x), scipy.special.digamma(x)),
        (likelihoods._trigamma(x), scipy.special.polygamma(1, x)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def moments_of(kind: str, scale: float = 0.3):
    rng = np.random.default_rng(1)
    shape = COUNTS[kind], 6
    y = paper.random_values(rng, kind, 6)
    return y, rng.normal(size=shape), scale * rng.uniform(0.5, 1.5, size=shape)


def sigma_of(y, value: float = 0.6):
    return np.full(np.shape(y), value)


@pytest.mark.parametrize("kind", KINDS)
def test_expected_log_densities_are_the_quadrature_of_the_densities(kind):
    y, mean, var = moments_of(kind, 1.5 if kind in NODES else 0.3)
    cov = var * np.eye(len(var))[:, :, None]
    output = paper.Output("y", kind, np.zeros((6, 1)), y)
    nodes = NODES.get(kind, 60)
    expected = paper.expected_log_density(output, mean, cov, 0.6, nodes)
    value, _, log_density = terms(kind)(y, mean, var, sigma_of(y))
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    # Only the scores of the Gaussian output forget its noise.
    noise = 1.0 if kind == "gaussian" else None
    density = paper.log_density(kind, y, mean, noise)
    np.testing.assert_allclose(log_density, density, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_are_the_derivatives_of_the_value_where_nothing_is_clipped(kind):
    y, mean, var = moments_of(kind)
    _, slopes, _ = terms(kind)(y, mean, var, sigma_of(y))
    step = 1e-5
    for j in range(len(mean)):
        shift = step * np.eye(len(mean))[j][:, None]
        for moved, slope in (((shift, 0.0), slopes[0]), ((0.0, shift), slopes[1])):
            up, down = (
                terms(kind)(y, mean + s * moved[0], var + s * moved[1], sigma_of(y))[0]
                for s in (1.0, -1.0)
            )
            difference = (np.asarray(up) - np.asarray(down)) / (2.0 * step)
            np.testing.assert_allclose(slope[j], difference, rtol=1e-5, atol=1e-6)


def test_parameters_are_clipped_in_the_value_and_not_in_its_slopes():
    y, var = np.zeros(6), np.full((1, 6), 1e-12)
    value, slopes, _ = terms("bernoulli")(y, np.full((1, 6), 60.0), var, sigma_of(y))
    np.testing.assert_allclose(value, np.log(1e-9), rtol=1e-6)
    assert np.all(np.abs(slopes[0]) < 1e-15)  # unclipped it is -1
    y = y + 0.5
    value, slopes, _ = terms("exponential")(y, np.full((1, 6), 40.0), var, sigma_of(y))
    np.testing.assert_allclose(value, np.log(1e9) - 0.5e9)
    np.testing.assert_allclose(slopes[0], 1.0 - 0.5e9 + np.zeros((1, 6)))
    mean = np.stack([np.zeros(6), np.full(6, -60.0)])
    var = np.zeros((2, 6))
    value, slopes, _ = terms("hetgaussian")(y, mean, var, sigma_of(y))
    log_normaliser = -0.5 * np.log(2.0 * np.pi) + 30.0
    np.testing.assert_allclose(value, log_normaliser - 0.5e9 * 0.25)
    np.testing.assert_allclose(slopes[1][0], -0.5e9)
    y = np.full(6, 0.3)
    _, slopes, log_density = terms("beta")(y, np.full((2, 6), 50.0), var, sigma_of(y))
    assert np.isfinite(log_density).all()
    assert np.isfinite(slopes[0]).all()


# The bound and its gradients.


class Case:
    """A model and a minibatch in the terms of both."""

    def __init__(self, kinds: tuple[str, ...], convolved: bool):
        rng = np.random.default_rng(2)
        self.parameters = paper.random_parameters(rng, kinds, jitter=1e-6)
        counts = tuple(COUNTS[kind] for kind in kinds)
        noise = self.parameters["noise"]
        sigmas = tuple(noise.get(f"y{d}", 1.0) for d in range(len(kinds)))
        labels = tuple(f"y{d}" for d in range(len(kinds)))
        self.outputs = preparation.Outputs(labels, kinds, sigmas, counts)
        J = sum(counts)
        groups = np.arange(J) % 2 if convolved else np.arange(2)
        for name in ("inducing", "q_mean", "q_cov"):
            self.parameters[name] = self.parameters[name][groups]
        jitter = np.full(len(groups), 1e-6)
        self.parameters |= {"offset": np.zeros(J), "jitter": jitter}
        self.smoothing = rng.uniform(0.05, 0.1, size=(J, 2)) if convolved else None
        xs = [rng.random((5, 2)) for _ in kinds]
        ys = [paper.random_values(rng, kind, 5) for kind in kinds]
        self.rows = [
            paper.Output(*row, total=20)
            for row in zip(labels, kinds, xs, ys, strict=True)
        ]
        # The sixth row of each output is none: its value must not matter.
        x = np.concatenate([np.stack(xs), np.ones((len(kinds), 1, 2))], axis=1)
        y = np.concatenate([np.stack(ys), np.stack(ys)[:, :1]], axis=1)
        weight = np.tile([4.0] * 5 + [0.0], (len(kinds), 1))
        self.batch = preparation.Batch(*map(jnp.asarray, (x, y, weight)))
        inverse = covariances.unconstrained
        self.theta = covariances.Theta(
            jnp.asarray(self.parameters["inducing"]),
            jnp.asarray(inverse(self.parameters["lengthscale"])),
            jnp.asarray(self.parameters["weights"]),
            None if self.smoothing is None else jnp.asarray(inverse(self.smoothing)),
        )
        lower = np.linalg.cholesky(self.parameters["q_cov"])
        mean = jnp.asarray(self.parameters["q_mean"])
        self.q = bound.Q(mean, jnp.asarray(lower))
        self.evaluate = jax.jit(self._evaluate)

    def _evaluate(self, theta, q):
        point = bound.at(theta, self.batch, self.outputs)
        value = bound.negative_bound(point, q, self.batch, self.outputs)
        return value, bound.gradients(point, q, self.batch, self.outputs)


def convolved_form(case: Case) -> paper.Form:
    """The convolution prior of the code, function by function."""
    p = case.parameters

    def own(j, x, z):
        return sum(
            weight**2 * paper.kernel(x, z, scale + 2.0 * case.smoothing[j], False)
            for weight, scale in zip(p["weights"][j], p["lengthscale"], strict=True)
        )

    def inducing_covariances(*_):
        return [own(j, z, z) for j, z in enumerate(p["inducing"])]

    def marginals(_, x, **__):
        K = inducing_covariances()
        means, variances = [], []
        for j, (z, m, V) in enumerate(
            zip(p["inducing"], p["q_mean"], p["q_cov"], strict=True)
        ):
            A = np.linalg.solve(K[j], own(j, z, x)).T
            spread = A @ (V + 1e-6 * np.eye(len(z)) - K[j]) @ A.T
            means.append(A @ m)
            variances.append(np.diag(own(j, x, x) + spread))
        return np.stack(means), np.stack(variances) * np.eye(len(K))[:, :, None]

    return paper.Form(inducing_covariances, marginals)


@ft.cache
def case_of(prior: str) -> Case:
    kinds = ("gaussian", "hetgaussian", "poisson")
    return Case(KINDS if prior == "lmc" else kinds, prior != "lmc")


@pytest.mark.parametrize("prior", authors.PRIORS)
def test_the_bound_is_that_of_the_paper_for_independent_functions(prior):
    case = case_of(prior)
    form = paper.LMC if prior == "lmc" else convolved_form(case)
    found, _ = case.evaluate(case.theta, case.q)
    expected = paper.nelbo(
        case.parameters, case.rows, form=form, factorised=True, nodes=30
    )
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("prior", authors.PRIORS)
def test_gradients_are_the_differences_of_the_bound(prior):
    case = case_of(prior)
    rng = np.random.default_rng(3)
    _, found = case.evaluate(case.theta, case.q)
    q_slope = bound.Q(found.mean, jnp.tril(2.0 * found.covariance @ case.q.lower))
    slope, value = (found.theta, q_slope), (case.theta, case.q)
    leaves, tree = jax.tree.flatten(value)
    for place, (leaf, expected) in enumerate(
        zip(leaves, jax.tree.leaves(slope), strict=True)
    ):
        direction = rng.normal(size=leaf.shape)
        if place == len(leaves) - 1:
            direction = np.tril(direction)
        ends = []
        for sign in (1.0, -1.0):
            moved = [*leaves]
            moved[place] = leaf + 1e-5 * sign * direction
            ends.append(float(case.evaluate(*jax.tree.unflatten(tree, moved))[0]))
        difference = (ends[0] - ends[1]) / 2e-5
        along = float(np.sum(np.asarray(expected) * direction))
        assert along == pytest.approx(difference, rel=2e-4, abs=1e-2)


def test_a_matrix_without_a_factor_gets_as_much_jitter_as_it_needs():
    singular = 2.0 * jnp.ones((4, 4))
    lower = jax.jit(bound.tried_cholesky)(singular - 1e-5 * jnp.eye(4))
    # 1e-6 times the mean of the diagonal is too little, ten times as much is enough.
    added = np.asarray(lower @ lower.T - singular + 1e-5 * jnp.eye(4))
    np.testing.assert_allclose(added, 2e-5 * np.eye(4), atol=1e-9)


@pytest.mark.parametrize("prior", authors.PRIORS)
def test_no_batched_factorisation_reaches_the_cpu(prior):
    case = case_of(prior)
    compiled = case.evaluate.lower(case.theta, case.q).compile().as_text()
    calls = re.findall(r"= \(?(\w+\[[\d,]*\]).*custom_call_target=\"lapack_", compiled)
    assert calls
    assert [call for call in calls if call.count(",") > 1] == []


# Schemes.


def spec_of(scheme: str) -> schemes.Spec:
    settings = settings_for(initial_precision=50.0, prior_precision=2.0)
    return schemes.Spec(scheme, settings, case_of("lmc").outputs)


def random_gradients(seed: int):
    case, rng = case_of("lmc"), np.random.default_rng(seed)
    theta, mean = jax.tree.map(
        lambda a: 20.0 * rng.normal(size=a.shape), (case.theta, case.q.mean)
    )
    half = rng.normal(size=case.q.lower.shape)
    return bound.Gradients(theta, mean, half @ half.transpose(0, 2, 1))


def state_of(scheme: str, iteration: int = 1) -> schemes.State:
    case = case_of("lmc")
    state = schemes.init(spec_of(scheme), case.theta, case.q)
    return state._replace(iteration=jnp.asarray(iteration))


def test_exploration_follows_averages_of_gradients_and_of_their_squares():
    state, case = state_of("fng"), case_of("lmc")
    step = jax.jit(schemes._step_on_theta, static_argnums=0)
    mu = start_of = np.asarray(case.theta.weights)
    p, average = np.full(mu.shape, 50.0), np.zeros(mu.shape)
    for t in (1, 2):
        found = random_gradients(t)
        g = found.theta.weights
        average = 0.9 * average + 0.1 * (g + 2.0 * mu)
        p = 0.999 * p + 0.001 * g**2
        rate = 0.005 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        mu = mu - rate * average / (np.sqrt(p) + 2.0)
        state = step(spec_of("fng"), state._replace(iteration=jnp.asarray(t)), found)
    np.testing.assert_allclose(state.theta.weights, mu, rtol=1e-10)
    np.testing.assert_allclose(state.second.weights, p)
    assert not np.allclose(mu, start_of)
    noise = jax.tree.map(jnp.ones_like, case.theta)
    drawn = schemes.evaluated_theta(spec_of("fng"), state, noise)
    np.testing.assert_allclose(drawn.weights, mu + 1.0 / np.sqrt(p + 2.0))
    assert schemes.evaluated_theta(spec_of("hybrid"), state, noise) is state.theta


def test_the_natural_step_clips_the_mean_and_resets_what_has_no_factor():
    state, found = state_of("fng"), random_gradients(4)
    # The second group's precision leaves the positive-definite cone.
    curvature = np.asarray(found.covariance) * np.array([1.0, -1e6])[:, None, None]
    V = np.asarray(case_of("lmc").parameters["q_cov"])
    state = state._replace(precision=jnp.asarray(np.linalg.inv(V)))
    moved = jax.jit(schemes._natural_step, static_argnums=0)(
        settings_for(), state, found._replace(covariance=curvature)
    )
    precision = np.linalg.inv(V[0]) + 2 * 0.005 * curvature[0]
    covariance = np.linalg.inv(precision)
    mean = state.q.mean[0] - 0.005 * covariance @ np.clip(found.mean[0], -5.0, 5.0)
    np.testing.assert_allclose(moved.precision[0], precision, rtol=1e-9)
    np.testing.assert_allclose(moved.q.mean[0], mean, rtol=1e-9)
    lower = np.asarray(moved.q.lower)
    np.testing.assert_allclose(lower[0] @ lower[0].T, covariance, atol=1e-12)
    np.testing.assert_array_equal(moved.q.mean[1], 0.0)
    eye = np.eye(lower.shape[1])
    np.testing.assert_allclose(lower[1] @ lower[1].T, 0.1 * eye, atol=1e-12)
    np.testing.assert_allclose(moved.precision[1], 10.0 * eye)


@pytest.mark.parametrize("scheme", ["hybrid", "adam"])
def test_adam_is_that_of_optax(scheme):
    state, step = state_of(scheme), schemes._step_on_theta
    if scheme == "adam":
        step = schemes._step_on_all
    step = jax.jit(step, static_argnums=0)
    adam, weights = optax.adam(0.005), state.theta.weights
    memory = adam.init(weights)
    for t in (1, 2):
        found = random_gradients(t)
        state = step(spec_of(scheme), state._replace(iteration=jnp.asarray(t)), found)
        slope = jnp.asarray(found.theta.weights)
        change, memory = adam.update(slope, memory)
        weights = optax.apply_updates(weights, change)
    np.testing.assert_allclose(state.theta.weights, weights, rtol=1e-6)
    moved = not np.allclose(state.q.mean, case_of("lmc").q.mean)
    assert moved == (scheme == "adam")
    np.testing.assert_array_equal(np.triu(state.q.lower, 1), 0.0)


def test_sgd_follows_the_gradients():
    state, found = state_of("sgd"), random_gradients(5)
    spec = spec_of("sgd")
    spec = spec._replace(settings=spec.settings._replace(sgd_step=1e-3))
    moved = schemes._step_on_all(spec, state, found)
    L = np.asarray(state.q.lower)
    lower = L - 1e-3 * np.tril(2.0 * found.covariance @ L)
    np.testing.assert_allclose(moved.q.lower, lower)
    mean = state.q.mean - 1e-3 * found.mean
    np.testing.assert_allclose(moved.q.mean, mean)
    inducing = state.theta.inducing - 1e-3 * found.theta.inducing
    np.testing.assert_allclose(moved.theta.inducing, inducing)
