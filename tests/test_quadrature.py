"""The rules, against expectations known in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from motleygp import likelihoods
from motleygp.numerics import log_integrals
from motleygp.numerics.log_integrals import log_expect_exp
from motleygp.numerics.quadrature import expect, expect_tensor, hermite_rule

MEAN = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])
VAR = np.array([[0.5, 1.5, 0.01], [1.0, 0.2, 2.0]])

# Compiled: one operation after the other is slower, even once.


@eqx.filter_jit
def _expect(fn, mean, var, num_nodes):
    return expect(fn, mean, var, num_nodes)


@eqx.filter_jit
def _expect_tensor(fn, mean, var, num_nodes):
    return expect_tensor(fn, mean, var, num_nodes)


@eqx.filter_jit
def _log_expect_exp(log_fn, mean, var):
    return log_expect_exp(log_fn, mean, var)


@pytest.mark.parametrize("num_nodes", [1, 5, 20])
def test_rule_is_exact_for_polynomials(num_nodes: int):
    nodes, weights = hermite_rule(num_nodes)
    for degree in range(2 * num_nodes):
        # E[z^k] is (k - 1)!! for even k; all moments up to degree 2K - 1 are exact.
        even = degree % 2 == 0
        exact = float(np.prod(np.arange(degree - 1.0, 0.0, -2.0))) if even else 0.0
        size = weights @ np.abs(nodes) ** degree
        assert abs(weights @ nodes**degree - exact) <= 1e-12 * size


def test_rule_is_symmetric_and_sums_to_one():
    nodes, weights = hermite_rule(60)
    assert_allclose(nodes, -nodes[::-1], atol=1e-14)
    assert_allclose(weights.sum(), 1.0, rtol=1e-15)
    assert (weights > 0).all()


def test_expect():
    # The outermost weights, 1e-11 of the whole, are left out.
    exact = MEAN**4 + 6.0 * MEAN**2 * VAR + 3.0 * VAR**2
    assert_allclose(_expect(lambda f: f**4, MEAN, VAR, 40), exact, rtol=1e-8)
    exact = np.cos(MEAN) * np.exp(-0.5 * VAR)
    assert_allclose(_expect(jnp.cos, MEAN, VAR, 40), exact, rtol=1e-9)


def test_expect_without_variance_is_the_function():
    # And its gradient is finite, although the square root has none at 0.
    zero = np.zeros_like(MEAN)
    assert_allclose(_expect(jnp.exp, MEAN, zero, 20), np.exp(MEAN), rtol=1e-10)

    @jax.jit
    @jax.grad
    def slope(var):
        return jnp.sum(expect(jnp.exp, jnp.asarray(MEAN), var, 20))

    assert np.isfinite(slope(zero)).all()


def test_expect_tensor_of_one_function():
    exact = np.exp(MEAN[0] + 0.5 * VAR[0])
    value = _expect_tensor(jnp.exp, MEAN[:1], VAR[:1], 20)
    assert_allclose(value, exact, rtol=1e-13)


def test_expect_tensor_of_two_functions():
    value = _expect_tensor(lambda f, g: f**2 * jnp.exp(g), MEAN, VAR, 30)
    exact = (MEAN[0] ** 2 + VAR[0]) * np.exp(MEAN[1] + 0.5 * VAR[1])
    assert_allclose(value, exact, rtol=1e-12)


def test_expect_tensor_of_three_functions():
    mean, var = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.5, 2.0])
    value = _expect_tensor(lambda f, g, h: (f + 2.0 * g - h) ** 2, mean, var, 5)
    assert_allclose(value, 0.2**2 + 1.0 + 4.0 * 0.5 + 2.0, rtol=1e-13)


# log E[exp(log_fn)].


@pytest.mark.parametrize("slope", [0.5, -30.0])
def test_log_expect_exp_of_a_line(slope: float):
    # The integrand is a Gaussian at mean + slope var, up to 45 away from q's mean.
    value = _log_expect_exp(eqx.Partial(jnp.multiply, slope), MEAN[:1], VAR[:1])
    assert_allclose(value, slope * MEAN[0] + 0.5 * slope**2 * VAR[0], rtol=1e-12)


def _log_gaussian_integral(distance, width, var):
    """log E[exp(-f^2 / (2 width^2))] for f ~ N(distance, var)."""
    total = width**2 + var
    return 0.5 * np.log(width**2 / total) - 0.5 * distance**2 / total


def _parabola(centre, width, f):
    return -0.5 * ((f - centre) / width) ** 2


@pytest.mark.parametrize("centre", [0.0, 40.0])
@pytest.mark.parametrize("width", [3.0, 0.1, 1e-4])
def test_log_expect_exp_of_a_parabola(centre: float, width: float):
    log_fn = eqx.Partial(_parabola, jnp.array(centre), jnp.array(width))
    value = _log_expect_exp(log_fn, MEAN[:1], VAR[:1])
    exact = _log_gaussian_integral(MEAN[0] - centre, width, VAR[0])
    assert_allclose(value, exact, rtol=1e-10)


def _valley(width, f, g):
    return -0.5 * ((f + g) / width) ** 2


@pytest.mark.parametrize("width", [2.0, 0.3, 0.03, 0.003])
def test_log_expect_exp_of_a_narrow_valley(width: float):
    # It depends on f + g alone: a ridge across q, at 45 degrees to its axes.
    value = _log_expect_exp(eqx.Partial(_valley, jnp.array(width)), MEAN, VAR)
    exact = _log_gaussian_integral(MEAN.sum(axis=0), width, VAR.sum(axis=0))
    assert_allclose(value, exact, rtol=1e-6)


def test_log_expect_exp_of_independent_functions():
    value = _log_expect_exp(
        lambda f, g: 2.0 * f - 0.5 * ((g - 5.0) / 0.1) ** 2, MEAN, VAR
    )
    exact = 2.0 * MEAN[0] + 2.0 * VAR[0]
    exact += _log_gaussian_integral(MEAN[1] - 5.0, 0.1, VAR[1])
    assert_allclose(value, exact, rtol=1e-10)


def test_log_expect_exp_where_the_log_is_convex():
    # Curvature of the wrong sign: E[exp(f^2 / 4)] = (1 - v/2)^(-1/2) exp(...).
    mean, var = np.array([[0.3, 1.0]]), np.array([[0.2, 0.5]])
    value = _log_expect_exp(lambda f: 0.25 * f**2, mean, var)
    exact = -0.5 * np.log(1.0 - 0.5 * var) + 0.25 * mean**2 / (1.0 - 0.5 * var)
    assert_allclose(value, exact[0], rtol=1e-8)


def test_log_expect_exp_without_variance_is_the_function():
    # To a few 1e-9: the smallest standard deviation that is told from none.
    value = _log_expect_exp(lambda f: -jnp.exp(f), MEAN[:1], 0.0 * VAR[:1])
    assert_allclose(value, -np.exp(MEAN[0]), rtol=1e-7)


def test_log_expect_exp_refuses_three_functions():
    three = jnp.ones((3, 2))
    with pytest.raises(ValueError, match=r"at most 2 functions; got 3\.$"):
        log_expect_exp(lambda f, g, h: f + g + h, three, three)


@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_the_search_for_the_mode_is_long_enough(name, rng, monkeypatch):
    """Likelihoods narrower than q(f), and in its tails: more steps change nothing, and
    the rule in NumPy finds the same."""
    likelihood, num_rows = likelihoods.get(name), 100
    shape = (likelihood.num_functions, num_rows)
    mean, var = rng.uniform(-6, 6, size=shape), 10 ** rng.uniform(-4, 1.3, size=shape)
    far = mean + 3.0 * np.sqrt(var) * rng.normal(size=shape)
    y = likelihood.sample(rng, far)

    def density() -> np.ndarray:
        def log_prob(f, g):
            own = y.reshape(y.shape + (1,) * (f.ndim - 1))
            return likelihood.log_prob(own, jnp.stack(jnp.broadcast_arrays(f, g)))

        return np.asarray(
            jax.jit(lambda m, v: log_expect_exp(log_prob, m, v))(mean, var)
        )

    found = density()
    own = likelihood.log_predictive(y, mean, var)
    np.testing.assert_allclose(own, found, rtol=1e-7, atol=1e-7)
    monkeypatch.setattr(log_integrals, "_NUM_NEWTON", 40)
    np.testing.assert_allclose(found, density(), rtol=1e-7, atol=1e-7)
