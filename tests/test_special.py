"""The special functions, against SciPy where it is accurate and series where not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
from numpy.testing import assert_allclose

from motleygp.numerics.special import (
    stirling_remainder,
    stirling_remainder_slope,
    trigamma_excess,
)


def _elementwise(fn):
    """`fn`, a map of scalars, compiled for a vector."""
    compiled = eqx.filter_jit(jax.vmap(fn))
    return lambda x: np.asarray(compiled(jnp.asarray(x)))


remainder = _elementwise(stirling_remainder)
slope = _elementwise(jax.grad(stirling_remainder))
bend = _elementwise(jax.grad(jax.grad(stirling_remainder)))
softplus = _elementwise(jax.nn.softplus)
softplus_slope = _elementwise(jax.grad(jax.nn.softplus))
softplus_bend = _elementwise(jax.grad(jax.grad(jax.nn.softplus)))

# 8 and its neighbours: where the two ways of computing the remainder meet.
_SEAM = [np.nextafter(8.0, 0.0), 8.0, np.nextafter(8.0, 9.0)]
SMALL = np.sort(np.concatenate([np.geomspace(1e-12, 1e4, 1997), _SEAM]))
LARGE = np.geomspace(1e3, 1e15, 2000)


def test_remainder_is_that_of_log_gamma():
    log_gamma = sp.gammaln(SMALL)
    error = np.abs(remainder(SMALL) - (SMALL * np.log(SMALL) - SMALL - log_gamma))
    assert np.max(error / np.maximum(1.0, np.abs(log_gamma))) < 1e-12


def test_remainder_and_its_slope_are_the_same_in_numpy():
    for x in (SMALL, LARGE):
        assert isinstance(stirling_remainder(x), np.ndarray)
        assert_allclose(stirling_remainder(x), remainder(x), rtol=1e-12, atol=1e-13)
        assert_allclose(stirling_remainder_slope(x), slope(x), rtol=1e-12)


def test_trigamma_excess_is_that_of_the_zeta_function():
    # Beyond 1000 the difference loses digits: 1 / (2 x^2) + 1 / (6 x^3) there.
    x = SMALL[SMALL < 1e3]
    assert_allclose(trigamma_excess(x), sp.zeta(2.0, x) - 1.0 / x, rtol=2e-6)
    series = 1 / (2 * LARGE**2) + 1 / (6 * LARGE**3) - 1 / (30 * LARGE**5)
    assert_allclose(trigamma_excess(LARGE), series, rtol=2e-6)


def test_remainder_of_integers():
    factorials = np.log([1.0, 1.0, 2.0, 6.0, 24.0])
    x = np.arange(1.0, 6.0)
    assert_allclose(remainder(x), x * np.log(x) - x - factorials, rtol=1e-14)


def test_remainder_of_large_numbers_loses_no_digits():
    # log Gamma(1e15) is 3e16: its last digit is 4, so the series is the reference.
    series = (
        0.5 * np.log(LARGE / (2.0 * np.pi)) - 1 / (12 * LARGE) + 1 / (360 * LARGE**3)
    )
    assert_allclose(remainder(LARGE), series, rtol=1e-13)


def test_slope_is_log_minus_digamma():
    # Beyond 100 that difference, 1/(2x), loses digits of its own.
    x = SMALL[SMALL < 100]
    assert_allclose(slope(x), np.log(x) - sp.digamma(x), rtol=1e-12)


def test_slope_of_large_numbers():
    series = 1 / (2 * LARGE) + 1 / (12 * LARGE**2) - 1 / (120 * LARGE**4)
    assert_allclose(slope(LARGE), series, rtol=1e-13)


@pytest.mark.parametrize(
    ("fn", "derivative"), [(remainder, slope), (slope, bend)], ids=["first", "second"]
)
def test_derivatives_are_those_of_the_function(fn, derivative):
    # Chosen so that no step ends on the seam, nor begins there.
    x = np.geomspace(1e-6, 1e6, 2000)
    step = 1e-4 * x
    difference = (fn(x + step) - fn(x - step)) / (2.0 * step)
    # Truncation 1e-8; rounding 1e-16 |fn| / step.
    assert_allclose(derivative(x), difference, rtol=1e-7, atol=1e-11)


def test_bend_is_inverse_minus_trigamma():
    x = SMALL[SMALL < 100]
    assert_allclose(bend(x), 1 / x - sp.polygamma(1, x), rtol=1e-11)


def test_bend_of_large_numbers():
    series = -1 / (2 * LARGE**2) - 1 / (6 * LARGE**3) + 1 / (30 * LARGE**5)
    assert_allclose(bend(LARGE), series, rtol=1e-12)


# The likelihoods rely on JAX's own function for these.


def test_softplus():
    x = np.concatenate([np.linspace(-800.0, 800.0, 4001), [-1e300, 1e300]])
    assert_allclose(softplus(x), np.logaddexp(0.0, x), rtol=1e-15, atol=3e-16)


# 0 is where its two branches meet.
_X = np.concatenate([np.linspace(-40.0, 40.0, 1001), [-1e-12, 1e-12, -1e-300, 1e-300]])


def test_slope_of_softplus_is_the_logistic_function():
    assert_allclose(softplus_slope(_X), sp.expit(_X), rtol=1e-13, atol=1e-15)


def test_bend_of_softplus_is_that_of_the_logistic_function():
    exact = sp.expit(_X) * sp.expit(-_X)
    assert_allclose(softplus_bend(_X), exact, rtol=1e-12, atol=1e-14)
