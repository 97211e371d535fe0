"""Averages over the posterior of theta: its curvature, its draws and their weights."""

import copy
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import motleygp as mg
from motleygp import kernels, likelihoods as lik, priors
from motleygp.estimator import predictor, saving
from motleygp.files import modelfile
from motleygp.inference import (
    Model,
    from_prior,
    function_moments,
    make_dataset,
    with_fixed,
)
from motleygp.prediction import Mixture, Predictive
from motleygp.training import laplace

pytestmark = pytest.mark.usefixtures("quick_compilation")

_function_moments = eqx.filter_jit(function_moments)
SETTINGS = dict(num_inducing=8, max_iter=20, random_state=0, progress=False)
OUTPUTS = {"warm": "gaussian", "wet": "gaussian", "open": "bernoulli"}


# A model of two real outputs and one process, with Z = X, in NumPy. theta is log l, two
# weights, two offsets and two logarithms of the noise.


def known_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(size=12))
    f = np.sin(7.0 * x)
    return x, np.stack([f, -0.7 * f]) + 0.2 * rng.normal(size=(2, 12))


def covariance(theta: np.ndarray, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    square = (x[:, None] - z[None]) ** 2 * np.exp(-2.0 * theta[0])
    return np.kron(np.outer(theta[1:3], theta[1:3]), np.exp(-0.5 * square))


def evidence(theta: np.ndarray) -> float:
    """log p(y | theta) of the exact Gaussian process."""
    x, y = known_data()
    noise = np.diag(np.repeat(np.exp(2.0 * theta[5:]), len(x)))
    law = scipy.stats.multivariate_normal(
        np.repeat(theta[3:5], len(x)), covariance(theta, x, x) + noise
    )
    return float(law.logpdf(y.ravel()))


def hessian(function: Any, at: np.ndarray, h: float = 1e-3) -> np.ndarray:
    moves = h * np.eye(len(at))
    return np.array(
        [
            [
                sum(
                    s * t * function(at + s * a + t * b)
                    for s in (1, -1)
                    for t in (1, -1)
                )
                for b in moves
            ]
            for a in moves
        ]
    ) / (4.0 * h**2)


@pytest.fixture(scope="module")
def best() -> np.ndarray:
    """theta at the maximum of the evidence."""
    start = np.log([0.3, np.e, 1.0, 1.0, 1.0, 0.2, 0.2])
    found = scipy.optimize.minimize(lambda theta: -evidence(theta), start)
    return found.x


def package(theta: np.ndarray) -> tuple[Model, Any, Any]:
    x, y = known_data()
    likelihoods = tuple(lik.Gaussian(float(np.exp(s))) for s in theta[5:])
    kernel = kernels.EQ(np.exp(theta[:1])[:, None])
    prior = priors.LMC(kernel, theta[1:3, None], x[None, :, None], jitter=1e-9)
    model = Model(prior, jnp.asarray(theta[3:5]), likelihoods)
    data = make_dataset([x[:, None]] * 2, list(y), likelihoods)
    return model, from_prior(prior), data


def test_the_curvature_is_that_of_the_exact_evidence(best):
    expected = -hessian(evidence, best)
    found = laplace.curvature(*package(best))
    assert np.linalg.eigvalsh(expected).min() > 0.0
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found / scale, expected / scale, atol=5e-3)
    # A parameter that is not learned has no curvature.
    model, q, data = package(best)
    fewer = laplace.curvature(with_fixed(model, ("offset", "weights")), q, data)
    kept = np.ix_([0, 5, 6], [0, 5, 6])
    np.testing.assert_allclose(fewer, found[kept], rtol=1e-3, atol=0.01)


def test_draws_have_the_posterior_of_theta_and_their_own_functions(best):
    model, q, data = package(best)
    drawn = laplace.draws(model, q, data, 400, 0)

    def vector(model: Model) -> np.ndarray:
        noise = [np.asarray(own.log_noise) for own in model.likelihoods]
        parts = model.prior.kernel.log_lengthscale, model.prior.weights, model.offset
        return np.concatenate([np.ravel(part) for part in (*parts, noise)])

    theta = np.stack([vector(own) for own, _ in drawn])
    exact = np.linalg.inv(np.eye(7) - hessian(evidence, best))
    scaled = (theta - best) @ np.linalg.cholesky(np.linalg.inv(exact))
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=4.0 / 20.0)
    np.testing.assert_allclose(np.cov(scaled.T), np.eye(7), atol=0.3)
    # q(u) of a draw is the exact posterior of the functions at its theta.
    x, y = known_data()
    new = np.linspace(0.0, 1.0, 5)
    for (own, q), t in zip(drawn[:3], theta, strict=False):
        noise = np.diag(np.repeat(np.exp(2.0 * t[5:]), len(x)))
        gain = covariance(t, new, x) @ np.linalg.inv(covariance(t, x, x) + noise)
        mean = np.repeat(t[3:5], 5) + gain @ (y.ravel() - np.repeat(t[3:5], len(x)))
        var = np.diag(covariance(t, new, new) - gain @ covariance(t, x, new))
        found = _function_moments(own, q, jnp.asarray(new[:, None]))
        np.testing.assert_allclose(np.ravel(found[0]), mean, atol=1e-3)
        np.testing.assert_allclose(np.ravel(found[1]), var, atol=1e-3)
        np.testing.assert_array_equal(own.prior.inducing, model.prior.inducing)
    # More draws begin with the same ones.
    again = laplace.draws(model, package(best)[1], data, 2, 0)
    np.testing.assert_array_equal([vector(own) for own, _ in again], theta[:2])


# Weighted mixtures.


def test_a_mixture_weighs_its_components_row_by_row(rng):
    mean, var = rng.normal(size=(3, 1, 4)), rng.uniform(0.1, 1.0, size=(3, 1, 4))
    weights = rng.dirichlet(np.ones(3), size=4).T
    weights[:, 3] = [0.0, 1.0, 0.0]
    likelihood = lik.Gaussian(0.5)
    parts = [
        Predictive(likelihood, m, v, shift=2.0, scale=3.0)
        for m, v in zip(mean, var, strict=True)
    ]
    p = Mixture(parts, weights)
    m, s = 2.0 + 3.0 * mean[:, 0], 3.0 * np.sqrt(var[:, 0] + 0.25)
    y = rng.normal(size=4)
    density = np.sum(weights * scipy.stats.norm.pdf(y, m, s), axis=0)
    np.testing.assert_allclose(p.log_prob(y), np.log(density), rtol=1e-8)
    cdf = np.sum(weights * scipy.stats.norm.cdf(y, m, s), axis=0)
    np.testing.assert_allclose(p.cdf(y), cdf, rtol=1e-8)
    first, second = (np.sum(weights * a, axis=0) for a in (m, m**2 + s**2))
    np.testing.assert_allclose(p.mean, first)
    np.testing.assert_allclose(p.variance, second - first**2)
    np.testing.assert_allclose(p.cdf(p.quantile(0.3)[:, 0]), 0.3, atol=1e-8)
    drawn = p.sample(20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), first, atol=0.1)
    np.testing.assert_allclose(drawn.var(axis=0), second - first**2, rtol=0.05)
    for rows in (slice(1, 3), [3, 0], 2):
        np.testing.assert_allclose(p[rows].mean, np.atleast_1d(first[rows]))
    np.testing.assert_array_equal(Mixture(parts).weights, np.full((3, 4), 1.0 / 3.0))
    with pytest.raises(ValueError, match=r"`weights` must have .*\(3, 4\); got \(3,\)"):
        Mixture(parts, np.ones(3))


# The estimator.


def make_rows() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(25, 1))
    f = np.sin(6.0 * x[:, 0])
    warm, wet = 20.0 + 5.0 * f, 2.0 - f
    return x, {
        "warm": warm + rng.normal(size=25),
        "wet": wet + 0.3 * rng.normal(size=25),
        "open": (rng.random(25) < 1.0 / (1.0 + np.exp(-3.0 * f))).astype(float),
    }


@pytest.fixture(scope="module")
def fitted():
    # A factorised q(u), for the rule of `joint_moments`.
    model = mg.MotleyGP(OUTPUTS, num_latents=2, posterior="factorised", **SETTINGS)
    return model.fit(*make_rows())


def joint_moments(fitted: mg.MotleyGP, x: np.ndarray):
    """Means and covariances of all functions at each row, for each draw."""
    inside = jnp.asarray(fitted.scaling_.inputs(x))
    for model, q in fitted.fitted_.draws:
        mean, var = (np.asarray(a) for a in _function_moments(model, q, inside))
        # f = W u, and the variances of u follow from those of f by least squares.
        W = np.asarray(model.prior.weights)
        u = np.linalg.lstsq(W**2, var, rcond=None)[0]
        noise = np.array([float(own.noise) for own in model.likelihoods[:2]])
        yield mean, np.einsum("jq,qn,iq->nji", W, u, W), noise


def test_draws_are_weighed_by_their_density_of_the_given_values(fitted):
    x, Y = (make_rows()[0][:6], {name: y[:6] for name, y in make_rows()[1].items()})
    given = {"warm": np.append(Y["warm"][:5] + 4.0, np.nan), "wet": Y["wet"].copy()}
    given["wet"][4:] = np.nan
    p = fitted.predict_dist(x, given=given, bayesian=5)["open"]
    scaling = fitted.scaling_
    y = np.stack([scaling.output(d, given[n]) for d, n in enumerate(("warm", "wet"))])
    densities, f_means = np.ones((5, 6)), np.empty((5, 6))
    for s, (mean, cov, noise) in enumerate(joint_moments(fitted, x)):
        for n in range(6):
            seen = np.flatnonzero(~np.isnan(y[:, n]))
            f_means[s, n] = mean[2, n]
            if not len(seen):
                continue
            total = cov[n][np.ix_(seen, seen)] + np.diag(noise[seen] ** 2)
            error = y[seen, n] - mean[seen, n]
            law = scipy.stats.multivariate_normal(cov=total)
            densities[s, n] = law.pdf(error)
            f_means[s, n] += cov[n][2, seen] @ np.linalg.solve(total, error)
    # Bayes' rule: draws are equally probable before the values of the row are seen.
    expected = densities / densities.sum(axis=0)
    assert np.ptp(expected, axis=0)[:5].min() > 0.01
    np.testing.assert_allclose(p.weights, expected, atol=1e-5)
    np.testing.assert_allclose(p.weights[:, 5], 0.2)
    found = np.stack([own.f_mean[0] for own in p.components])
    np.testing.assert_allclose(found, f_means, atol=1e-5)


def test_values_beyond_every_draw_leave_the_weights_alone():
    log_evidence = np.array([[-1.0, -np.inf, np.nan], [-1.0 - np.log(3), 0.0, -np.inf]])
    found = mg.prediction.outputs.posterior_weights(log_evidence)
    np.testing.assert_allclose(found, [[0.75, 0.0, 0.5], [0.25, 1.0, 0.5]])


def test_any_scheme_has_a_posterior_of_theta(fitted):
    x, _ = make_rows()
    one, two = (fitted.predict_dist(x, bayesian=n)["warm"] for n in (2, 3))
    np.testing.assert_array_equal(one.components[1].mean, two.components[1].mean)
    assert np.abs(one.components[0].mean - one.components[1].mean).max() > 0.1
    other = dataclasses.replace(fitted.fitted_, scheme=mg.optim.hybrid(), draws=())
    point = copy.copy(fitted)
    point.fitted_ = other
    again = point.predict_dist(x, bayesian=2)["warm"]
    np.testing.assert_array_equal(again.mean, one.mean)


def test_draws_are_kept_in_files_and_need_the_rows_of_the_fit(fitted, tmp_path):
    x, Y = make_rows()
    bare, full = tmp_path / "bare.motley", tmp_path / "full.motley"
    plain = copy.copy(fitted)
    plain.fitted_ = dataclasses.replace(fitted.fitted_, draws=())
    plain.save(bare)
    ours = plain.predict_dist(x, bayesian=3)["wet"]
    plain.save(full)
    loaded = mg.load(full)
    theirs = loaded.predict_dist(x, bayesian=3)["wet"]
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    message = "`bayesian` needs the rows of `fit`, .* got {} draws, of which {} are"
    with pytest.raises(ValueError, match=message.format(4, 3)):
        loaded.predict_dist(x, bayesian=4)
    with pytest.raises(ValueError, match=message.format(32, 0)):
        mg.load(bare).predict(x, bayesian=True)
    # New rows change q(u), which the draws have not seen.
    plain.set_params(max_iter=1).partial_fit(x[:5], {n: y[:5] for n, y in Y.items()})
    assert plain.fitted_.draws == ()
    with pytest.raises(ValueError, match=message.format(2, 0)):
        plain.predict_dist(x, bayesian=2)


def test_many_rows_are_refused(fitted, monkeypatch):
    assert predictor.few_rows(fitted._rows) is fitted._rows
    monkeypatch.setattr(predictor, "MAX_ROWS_OF_DRAWS", 24)
    assert predictor.few_rows(fitted._rows) is None
    many = copy.copy(fitted)
    many._rows, many.fitted_ = None, dataclasses.replace(fitted.fitted_, draws=())
    with pytest.raises(ValueError, match=r"a fit to at most 24 rows; .* got 25"):
        many.predict(np.zeros((1, 1)), bayesian=True)


def test_earlier_files_without_draws_can_be_read(fitted, tmp_path):
    path = tmp_path / "m.motley"
    plain = dataclasses.replace(fitted.fitted_, draws=())
    saving.save(fitted.get_params(deep=False), plain, path)
    header, arrays = modelfile.read(path)
    del header["fitted"]["fields"]["draws"]
    header["fitted"]["fields"]["std"] = [{"array": "fitted.std.0"}]
    modelfile.write(path, header, arrays | {"fitted.std.0": np.ones(3)})
    x, _ = make_rows()
    np.testing.assert_array_equal(mg.load(path).predict(x), fitted.predict(x))


# The experiment.


def test_the_experiment_shows_means_and_goes_on_where_it_ended(experiments, tmp_path):
    bayesian = experiments("bayesian")
    cell = bayesian.Cell("mixed", 4, 20, 0, "")
    x, values = bayesian.simulate(cell)
    assert x.shape == (520, 4) and {len(y) for y in values.values()} == {520}
    scores = [
        bayesian.Score(*cell._replace(draw=d), "real", 1.0, nlpd, 0.4, 0.8, 0.5, 0.9)
        for d, nlpd in enumerate((0.8, 1.0))
    ]
    last = bayesian.table(scores).splitlines()[-1]
    assert last.startswith(
        "| mixed | 4 | real | 20 | 2 | 1.000 | 0.900 | -0.100 ± 0.100"
    )
    assert last.endswith("| 0.40 | 0.50 | 0.80 | 0.90 | +0.100 ± 0.000 |")
    for score in scores:
        bayesian.write(tmp_path / "b.csv", [score])
    assert bayesian.finished(tmp_path / "b.csv", bayesian.Score) == scores
    assert bayesian.inside_of(np.array([0.1, 0.3, 0.5, 0.96]), 0.9) == 0.75
