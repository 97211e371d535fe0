"""The objective is a bound: it never exceeds the log evidence, which `evidence` finds
by quadrature, without the package."""

import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import evidence as ev
import paper_numpy as paper
from motleygp import kernels, likelihoods as lik, priors
from motleygp.inference.data import Dataset, gather
from motleygp.inference.model import Model

pytestmark = pytest.mark.usefixtures("quick_compilation")

# The optimisers and the library's rules stop short of this; a wrong term does not.
TOLERANCE = 1e-5
BATCH, NUM_RANDOM = 16, 20
# Outputs with one function share a program; each with two functions has its own.
ONE_FUNCTION = "gaussian+bernoulli+poisson+exponential"
TWO_FUNCTIONS = ("hetgaussian", "gamma", "beta")
PRIORS = ("lmc", "convolution", "latent")
MIXED = ("poisson+gamma", "hetgaussian+bernoulli")


# The reference alone.


def gamma_value(weights: tuple[float, float]) -> tuple[Model, Dataset]:
    """One value y = 1 of a Gamma output, with one process of unit variance."""
    return gamma_values(weights, [0.0], [1.0])


def gamma_values(
    weights: tuple[float, float], x: list[float], y: list[float]
) -> tuple[Model, Dataset]:
    rows = np.array(x)[:, None]
    prior = priors.LMC(kernels.EQ([[1.0]]), np.array(weights)[:, None], rows[None])
    model = Model(prior, jnp.array([3.0, 3.0]), (lik.Gamma(),))
    return model, gather([rows], [np.array(y)])


@pytest.mark.parametrize(
    ("weights", "one", "two"),
    [((1.0, -1.0), -1.6245, -3.43), ((1.0, 1.0), 0.70, 0.57)],
    ids=["opposite", "alike"],
)
def test_evidence_of_known_values(weights, one, two):
    np.testing.assert_allclose(ev.log_evidence(*gamma_value(weights)), one, atol=0.005)
    pair = gamma_values(weights, [0.0, 3.0], [1.0, 1.2])
    np.testing.assert_allclose(ev.log_evidence(*pair), two, atol=0.005)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("dim", [1, 2])
def test_integral_equals_gaussian_closed_form(rng, dim, noise):
    for _ in range(3):
        A = rng.normal(size=(3, dim))
        y = A @ rng.normal(size=dim) + noise * rng.normal(size=3)
        cov = A @ A.T + noise**2 * np.eye(3)
        expected = scipy.stats.multivariate_normal.logpdf(y, np.zeros(3), cov)

        def log_fn(z, A=A, y=y):
            square = np.sum((y[:, None] - A @ z) ** 2, axis=0) / noise**2
            return -0.5 * square - 3.0 * np.log(noise) - 1.5 * ev.LOG_2PI

        np.testing.assert_allclose(ev.log_integral(log_fn, dim), expected, atol=1e-8)


def hetgaussian(f: float, g: float) -> float:
    return math.exp(-0.5 * (g + (0.4 - f) ** 2 * math.exp(-g))) / math.sqrt(2 * math.pi)


def gamma(f: float, g: float) -> float:
    shape = math.exp(f)
    powers = shape * g + (shape - 1.0) * math.log(1.3) - 1.3 * math.exp(g)
    return math.exp(powers - math.lgamma(shape))


def beta(f: float, g: float) -> float:
    a, b = math.exp(f), math.exp(g)
    powers = (a - 1.0) * math.log(0.2) + (b - 1.0) * math.log(0.8)
    return math.exp(powers + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))


@pytest.mark.parametrize(
    ("density", "y"), [(hetgaussian, 0.4), (gamma, 1.3), (beta, 0.2)]
)
def test_integral_equals_brute_force(density: Callable, y):
    offset, A = np.array([0.5, 0.2]), np.array([[1.0, 0.4], [-0.5, 0.8]])

    def integrand(t: float, s: float) -> float:
        f = 0.5 + s + 0.4 * t
        g = 0.2 - 0.5 * s + 0.8 * t
        return density(f, g) * math.exp(-0.5 * (s * s + t * t)) / (2.0 * math.pi)

    brute, _ = scipy.integrate.dblquad(
        integrand, -7.5, 7.5, -7.5, 7.5, epsabs=1e-11, epsrel=1e-10
    )

    def log_fn(z):
        return ev.log_density(density.__name__, y, offset[:, None] + A @ z, 1.0)

    np.testing.assert_allclose(ev.log_integral(log_fn, 2), np.log(brute), atol=1e-8)


def test_integral_that_does_not_converge_is_an_error():
    with pytest.raises(ArithmeticError, match="did not converge"):
        ev.log_integral(lambda z: np.where(z[0] > 0.3, 0.0, -1.0), 1)


@pytest.mark.parametrize("name", paper.NUM_FUNCTIONS)
def test_log_densities_equal_those_of_scipy(rng, name):
    f = rng.normal(size=(paper.NUM_FUNCTIONS[name], 50))
    y = ev.draw(rng, name, f[:, 0], 0.7)
    expected = paper.log_density(name, np.asarray(y), f, 0.7)
    np.testing.assert_allclose(ev.log_density(name, y, f, 0.7), expected, rtol=1e-9)


# The objective against it.


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((1.0, -1.0), -1.625), ((1.0, 1.0), 0.70)],
    ids=["opposite", "alike"],
)
def test_objective_of_known_values(weights, expected):
    batch = ev.Batch([gamma_value(weights)])
    np.testing.assert_allclose(batch.values(batch.best()), expected, atol=0.005)


def test_the_papers_objective_is_no_bound():
    model, data = gamma_value((1.0, -1.0))
    batch = ev.Batch([(dataclasses.replace(model, factorised=True), data)])
    np.testing.assert_allclose(batch.values(batch.best()), -1.289, atol=0.005)


def largest_excess(rng: np.random.Generator, kind: str, prior: str) -> float:
    """The largest objective minus log evidence, over a batch of models: at the best
    q(u), at some around it, and at some from anywhere."""
    batch = ev.Batch([ev.random_model(rng, kind, prior) for _ in range(BATCH)])
    best = batch.best()
    around = [best + 0.2 * rng.normal(size=best.size) for _ in range(NUM_RANDOM // 2)]
    anywhere = [
        batch.start() + 0.7 * rng.normal(size=best.size) for _ in range(NUM_RANDOM // 2)
    ]
    values = np.stack([batch.values(q) for q in (best, *around, *anywhere)])
    assert np.isfinite(values).all()
    return float(np.max(values - batch.evidences))


def seeded(kind: str, prior: str, batch: int) -> np.random.Generator:
    return np.random.default_rng([batch, *f"{kind}-{prior}".encode()])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(
    "kind", [pytest.param(ONE_FUNCTION, id="one-function"), *TWO_FUNCTIONS]
)
def test_objective_is_below_the_evidence(kind, prior):
    assert largest_excess(seeded(kind, prior, 0), kind, prior) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", [*paper.NUM_FUNCTIONS, *MIXED])
def test_objective_is_below_the_evidence_for_many_models(kind, prior):
    found = [largest_excess(seeded(kind, prior, n), kind, prior) for n in range(1, 5)]
    assert max(found) <= TOLERANCE
