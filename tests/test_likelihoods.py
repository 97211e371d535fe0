"""Every likelihood: its density, the expectations of it, and the constant fit."""

import decimal
import importlib.util
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special as sp
import scipy.stats as st
from jaxtyping import Array
from numpy.testing import assert_allclose

from motleygp import likelihoods
from motleygp.likelihoods import (
    AbstractLikelihood,
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    HetGaussian,
    Poisson,
)

# References.

# Sixty digits: the largest terms below are 1e15, and cancel.
_DIGITS = decimal.Context(prec=60)
_LOG_2PI = _DIGITS.ln(
    Decimal("6.28318530717958647692528676655900576839433879875021164")
)


def _stirling_coefficients(number: int) -> list[Decimal]:
    """B_2k / (2k (2k - 1)), the Bernoulli numbers by their recursion."""
    bernoulli = [Fraction(1)]
    for m in range(1, 2 * number + 1):
        total = sum((math.comb(m + 1, k) * bernoulli[k] for k in range(m)), Fraction(0))
        bernoulli.append(-total / (m + 1))
    exact = [bernoulli[2 * k] / (2 * k * (2 * k - 1)) for k in range(1, number + 1)]
    return [Decimal(c.numerator) / Decimal(c.denominator) for c in exact]


_COEFFICIENTS = _stirling_coefficients(20)


def _log_gamma(x: Decimal) -> Decimal:
    """log Gamma to 50 digits: shifted to 40 and more, where the series has them."""
    product = Decimal(1)
    while x < 40:
        product, x = product * x, x + 1
    series = sum(c / x ** (2 * k + 1) for k, c in enumerate(_COEFFICIENTS))
    return (x - Decimal("0.5")) * x.ln() - x + _LOG_2PI / 2 + series - product.ln()


def _exact_normal(y: Decimal, mean: Decimal, log_variance: Decimal) -> Decimal:
    return -(_LOG_2PI + log_variance + (y - mean) ** 2 * (-log_variance).exp()) / 2


def _exact_beta(y: Decimal, f: Decimal, g: Decimal) -> Decimal:
    a, b = f.exp(), g.exp()
    log_norm = _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)
    return (a - 1) * y.ln() + (b - 1) * (1 - y).ln() - log_norm


def _exact_gamma(y: Decimal, f: Decimal, g: Decimal) -> Decimal:
    a = f.exp()
    return a * g + (a - 1) * y.ln() - g.exp() * y - _log_gamma(a)


class Case(NamedTuple):
    """A likelihood, values of y, and two references that share no code with it."""

    likelihood: AbstractLikelihood
    ordinary: Sequence[float]
    edges: Sequence[float]
    """Values at, or next to, the ends of the support."""
    twin: Callable[..., Any]
    """SciPy's distribution, for the arrays f_1, ..., f_L."""
    exact: Callable[..., Decimal]
    """log p(y | f_1, ..., f_L) as in a textbook, in sixty digits."""
    closed_form: bool
    """Whether E[log p] has one."""


_NOISE = 0.3
CASES: dict[type[AbstractLikelihood], Case] = {
    Gaussian: Case(
        Gaussian(_NOISE),
        [-2.0, 0.1, 1.5],
        [-1e9, 1e-300, 1e9],
        lambda f: st.norm(f, _NOISE),
        lambda y, f: _exact_normal(y, f, 2 * Decimal(_NOISE).ln()),
        closed_form=True,
    ),
    HetGaussian: Case(
        HetGaussian(),
        [-2.0, 0.1, 1.5],
        [-1e9, 1e-300, 1e9],
        lambda f, g: st.norm(f, np.exp(0.5 * g)),
        _exact_normal,
        closed_form=True,
    ),
    Bernoulli: Case(
        Bernoulli(),
        [0.0, 1.0],
        [0.0, 1.0],
        lambda f: st.bernoulli(sp.expit(f)),
        lambda y, f: -(1 + ((1 - 2 * y) * f).exp()).ln(),
        closed_form=False,
    ),
    Beta: Case(
        Beta(),
        [0.02, 0.3, 0.9],
        [1e-300, 1e-9, 1.0 - 1e-9, float(np.nextafter(1.0, 0.0))],
        lambda f, g: st.beta(np.exp(f), np.exp(g)),
        _exact_beta,
        closed_form=False,
    ),
    Gamma: Case(
        Gamma(),
        [0.05, 0.7, 4.0],
        [1e-300, 1e-9, 1e9],
        lambda f, g: st.gamma(np.exp(f), scale=np.exp(-g)),
        _exact_gamma,
        closed_form=False,
    ),
    Exponential: Case(
        Exponential(),
        [0.05, 0.7, 4.0],
        [0.0, 1e-300, 1e9],
        lambda f: st.expon(scale=np.exp(-f)),
        lambda y, f: f - y * f.exp(),
        closed_form=True,
    ),
    Poisson: Case(
        Poisson(),
        [0.0, 2.0, 30.0],
        [0.0, 1.0, 1e6],
        lambda f: st.poisson(np.exp(f)),
        lambda y, f: y * f - f.exp() - _log_gamma(y + 1),
        closed_form=True,
    ),
}


def _parametrise(*, closed_form: bool | None = None) -> Callable:
    kept = [c for c in CASES.values() if closed_form in (None, c.closed_form)]
    return pytest.mark.parametrize("case", kept, ids=lambda c: c.likelihood.name)


every_case = _parametrise()

# Compiled once for a likelihood and a shape, for all tests; NumPy in, NumPy out.


def _compiled(fn: Callable) -> Callable[..., Any]:
    jitted = eqx.filter_jit(fn)

    def call(lik: AbstractLikelihood, *arrays: np.ndarray) -> Any:
        return jax.tree.map(np.asarray, jitted(lik, *map(jnp.asarray, arrays)))

    return call


def _slope(lik: AbstractLikelihood, y: Array, f: Array) -> Array:
    return jax.grad(lambda f: jnp.sum(lik.log_prob(y, f)))(f)


def _gradients(lik: AbstractLikelihood, y: Array, m: Array, v: Array) -> tuple:
    def loss(m: Array, v: Array) -> Array:
        return -jnp.sum(lik.expected_log_prob(y, m, v))

    return jax.grad(loss, argnums=(0, 1))(m, v)


log_prob = _compiled(lambda lik, y, f: lik.log_prob(y, f))
expected = _compiled(lambda lik, y, m, v: lik.expected_log_prob(y, m, v))
default_expected = _compiled(AbstractLikelihood.expected_log_prob)
slope, gradients = _compiled(_slope), _compiled(_gradients)


def _crossed(
    case: Case, ys: Sequence[float], points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Every y with every f whose parts are `points`: y of shape (N,), f of (L, N)."""
    axes = [np.asarray(ys), *[points] * case.likelihood.num_functions]
    y, *f = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    return y, np.stack(f)


def _standard(case: Case) -> tuple[np.ndarray, np.ndarray, slice]:
    """One y and f for several tests, to compile once; and where y is ordinary."""
    points = np.array([-2.0, 0.0, 1.3])
    y, f = _crossed(case, [*case.ordinary, *case.edges], points)
    return y, f, slice(len(case.ordinary) * len(points) ** len(f))


def _twin_log_prob(case: Case, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    twin = case.twin(*f)
    return (twin.logpmf if case.likelihood.discrete else twin.logpdf)(y)


# The table is complete.


def _concrete_subclasses(cls: type) -> set[type]:
    below = {c for s in cls.__subclasses__() for c in _concrete_subclasses(s)}
    return below if cls.__abstractmethods__ else below | {cls}


def test_every_likelihood_is_tested_and_has_a_name():
    known = {
        cls
        for cls in _concrete_subclasses(AbstractLikelihood)
        if cls.__module__.startswith("motleygp.")
    }
    assert known == set(CASES)
    assert known == set(likelihoods.BY_NAME.values())


@every_case
def test_get(case: Case):
    kind = type(case.likelihood)
    assert likelihoods.get(case.likelihood) is case.likelihood
    assert type(likelihoods.get(kind.name.upper())) is kind


@pytest.mark.parametrize("name", ["gauss", None])
def test_get_refuses_what_it_does_not_know(name: Any):
    with pytest.raises(ValueError, match=r"^no likelihood is named .*gaussian, .*\.$"):
        # Called without the type check, as a user's program calls it.
        getattr(likelihoods.get, "__wrapped__", likelihoods.get)(name)


# The density.


@every_case
def test_log_prob_is_that_of_scipy(case: Case):
    y, f = _crossed(case, case.ordinary, np.linspace(-4.0, 4.0, 9))
    value = log_prob(case.likelihood, y, f)
    exact = _twin_log_prob(case, y, f)
    assert_allclose(value, exact, rtol=1e-10, atol=1e-13)


@every_case
def test_log_prob_of_extreme_parameters_at_the_edges_of_the_support(case: Case):
    """Against decimal arithmetic of 60 digits, in which no cancellation matters."""
    ys = [*case.edges, case.ordinary[1]]
    y, f = _crossed(case, ys, np.linspace(-30.0, 30.0, 13))
    with decimal.localcontext(_DIGITS):
        exact = [
            float(case.exact(*map(Decimal, point)))
            for point in np.concatenate([y[None], f]).T.tolist()
        ]
    value = log_prob(case.likelihood, y, f)
    error = np.abs(value - exact) / np.maximum(1.0, np.abs(exact))
    assert np.max(error) < 1e-10
    assert np.isfinite(slope(case.likelihood, y, f)).all()


@every_case
def test_conditional_moments_and_cdf_are_those_of_scipy(case: Case):
    lik = case.likelihood
    y, f = _crossed(case, case.ordinary, np.linspace(-4.0, 4.0, 5))
    twin, jax_f = case.twin(*f), jnp.asarray(f)
    assert_allclose(lik.conditional_mean(jax_f), twin.mean(), rtol=1e-12)
    assert_allclose(lik.conditional_variance(jax_f), twin.var(), rtol=1e-10)
    assert_allclose(lik.cdf(y, f), twin.cdf(y), rtol=1e-10, atol=1e-14)


@every_case
def test_numpy_gives_what_jax_gives(case: Case):
    lik = case.likelihood
    assert lik.in_numpy
    y, f = _crossed(case, [*case.ordinary, *case.edges], np.linspace(-4.0, 4.0, 5))
    own: Any = lik
    value, mean = own.log_prob(y, f), own.conditional_mean(f)
    assert isinstance(value, np.ndarray) and isinstance(mean, np.ndarray)
    assert_allclose(value, log_prob(lik, y, f), rtol=1e-11, atol=1e-12)
    jax_f = jnp.asarray(f)
    assert_allclose(mean, lik.conditional_mean(jax_f), rtol=1e-13)
    variance = np.broadcast_to(np.asarray(own.conditional_variance(f)), y.shape)
    assert_allclose(variance, lik.conditional_variance(jax_f), rtol=1e-13)


@every_case
def test_slopes_in_numpy_are_those_of_jax(case: Case):
    lik = case.likelihood
    y, f = _crossed(case, case.ordinary, np.linspace(-4.0, 4.0, 5))
    found = lik.log_prob_slopes(y, f)
    if found is None:
        assert type(lik).constant_fit is not AbstractLikelihood.constant_fit
        return
    assert_allclose(found, slope(lik, y, f), rtol=1e-9, atol=1e-9)


@every_case
def test_the_start_moves_each_function_by_the_slope_of_the_mean(case: Case):
    lik, y = case.likelihood, np.array([0.0, 0.1])
    f = np.linspace(0.3, 1.1, lik.num_functions)
    slope = np.abs(jax.jacobian(lik.conditional_mean)(jnp.asarray(f)))
    most = 0.05 / np.maximum(slope, 1e-300)
    expected = np.where(slope > 0.05, most, 1.0)
    assert_allclose(lik.reach(y, f), expected, rtol=1e-12)


@every_case
def test_support(case: Case):
    lik = case.likelihood
    assert lik.in_support(np.array([*case.ordinary, *case.edges])).all()
    assert not lik.in_support(np.array([np.nan, np.inf, -np.inf])).any()
    line = lik.from_line(np.linspace(-5.0, 5.0, 11))
    assert (np.diff(line) >= 0).all()
    assert lik.discrete or lik.in_support(line).all()


@every_case
def test_samples_lie_in_the_support(case: Case, rng: np.random.Generator):
    _, f = _crossed(case, [0.0] * 20, np.linspace(-30.0, 30.0, 13))
    assert case.likelihood.in_support(case.likelihood.sample(rng, f)).all()


# Its expectation.


@_parametrise(closed_form=True)
@pytest.mark.parametrize("sd", [0.1, 1.0, 2.0])
def test_closed_forms_agree_with_a_fine_rule(case: Case, sd: float):
    """200 nodes per function, on SciPy's log density."""
    z, w = sp.roots_hermitenorm(200)
    y, mean = _crossed(case, case.ordinary, np.array([-1.5, 0.0, 2.0]))
    value = expected(case.likelihood, y, mean, np.full_like(mean, sd**2))
    for i in range(len(y)):
        one_by_one = [m + sd * z for m in mean[:, i]]
        f = np.stack(np.meshgrid(*one_by_one, indexing="ij"))
        rule = _twin_log_prob(case, y[i], f)
        for _ in f:
            rule = rule @ w / w.sum()
        assert_allclose(value[i], rule, rtol=1e-8)


@every_case
def test_expectation_agrees_with_monte_carlo(case: Case, rng: np.random.Generator):
    lik, number = case.likelihood, 1_000_000
    y, mean, ordinary = _standard(case)
    # The same q(f) for all y, so that one sample of f serves them.
    mean = np.broadcast_to(np.array([[0.4], [-0.6]])[: len(mean)], mean.shape)
    var = np.broadcast_to(np.array([[0.64], [0.25]])[: len(mean)], mean.shape)
    value = expected(lik, y, mean, var)
    noise = rng.standard_normal((len(mean), number))
    f = mean[:, :1] + np.sqrt(var[:, :1]) * noise
    for i in range(0, ordinary.stop, ordinary.stop // len(case.ordinary)):
        draws = log_prob(lik, np.full(number, y[i]), f)
        standard_error = np.std(draws) / np.sqrt(number)
        assert abs(np.mean(draws) - value[i]) < 4.0 * standard_error


@every_case
def test_gradients_are_those_of_the_value(case: Case):
    lik, step = case.likelihood, 1e-4
    y, mean, ordinary = _standard(case)
    var = np.broadcast_to(np.array([[0.7], [1.2]])[: len(mean)], mean.shape)
    g_m, g_v = gradients(lik, y, mean, var)
    for i in range(len(mean)):
        by = np.zeros_like(mean)
        by[i] = step
        in_mean = expected(lik, y, mean - by, var) - expected(lik, y, mean + by, var)
        in_var = expected(lik, y, mean, var - by) - expected(lik, y, mean, var + by)
        for gradient, change in ((g_m[i], in_mean), (g_v[i], in_var)):
            exact = (change / (2.0 * step))[ordinary]
            assert_allclose(gradient[ordinary], exact, rtol=1e-6, atol=1e-8)


@every_case
def test_expectation_without_variance_is_the_density(case: Case):
    y, f, _ = _standard(case)
    zero = np.zeros_like(f)
    value = expected(case.likelihood, y, f, zero)
    assert_allclose(value, log_prob(case.likelihood, y, f), rtol=1e-10, atol=1e-10)
    g_m, g_v = gradients(case.likelihood, y, f, zero)
    assert np.isfinite(g_m).all()
    assert np.isfinite(g_v).all()


@every_case
def test_base_class_expectation_serves_every_likelihood(case: Case):
    """A likelihood that defines only `log_prob` gets the same, by the product rule."""
    y, mean, ordinary = _standard(case)
    var = np.full_like(mean, 0.25)
    default = default_expected(case.likelihood, y, mean, var)[ordinary]
    value = expected(case.likelihood, y, mean, var)[ordinary]
    assert_allclose(default, value, rtol=1e-8, atol=1e-8)


# The accuracy of quadrature: the numbers are those of the table in the documentation.


def _load_table() -> Any:
    path = Path(__file__).parents[1] / "docs" / "tables" / "quadrature_error.py"
    spec = importlib.util.spec_from_file_location("quadrature_error", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _load_table()


def test_table_holds_the_likelihoods_without_closed_form():
    kinds = {type(lik) for lik in TABLE.LIKELIHOODS}
    assert kinds == {kind for kind, case in CASES.items() if not case.closed_form}


@pytest.mark.parametrize("sd", [0.1, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("lik", TABLE.LIKELIHOODS, ids=lambda lik: lik.name)
def test_quadrature_is_accurate(lik: AbstractLikelihood, sd: float):
    value, g_m, g_v = TABLE.worst_errors(lik, sd)
    assert value < 1e-5
    assert g_m < 1e-4
    assert g_v < 1e-4


@pytest.mark.parametrize("lik", TABLE.LIKELIHOODS, ids=lambda lik: lik.name)
def test_the_reference_of_that_has_converged(lik: AbstractLikelihood):
    # At the largest standard deviation that is tested; smaller ones converge faster.
    gaps = TABLE.largest_gaps(
        TABLE.reference(lik, 2.0, num_nodes=150), TABLE.reference(lik, 2.0)
    )
    assert max(gaps) < 1e-9


# The constant fit.

_FITS = {
    Gaussian: (st.norm(2.0, 0.7), [0.0, 0.0]),
    HetGaussian: (st.norm(-1.0, 3.0), [0.0, 0.0]),
    Bernoulli: (st.bernoulli(0.2), [0.0]),
    Beta: (st.beta(0.6, 2.5), [0.0, 0.0]),
    Gamma: (st.gamma(0.4, scale=5.0), [0.0, 0.0]),
    Exponential: (st.expon(scale=0.3), [0.0]),
    Poisson: (st.poisson(3.0), [0.0]),
}


def _maximum(case: Case, y: np.ndarray, start: Sequence[float]) -> np.ndarray:
    """The constant f that is likeliest for SciPy's density, by direct search.

    A Gaussian's noise is found too, as the second number, on the logarithmic scale.
    """

    def loss(f: np.ndarray) -> float:
        if isinstance(case.likelihood, Gaussian):
            return -float(np.mean(st.norm.logpdf(y, f[0], np.exp(f[1]))))
        return -float(np.mean(_twin_log_prob(case, y, f)))

    options = {"xatol": 1e-7, "fatol": 1e-13}
    found = scipy.optimize.minimize(loss, start, method="Nelder-Mead", options=options)
    return found.x


def _check_constant_fit(case: Case, y: np.ndarray, start: Sequence[float]) -> None:
    fitted, f = case.likelihood.constant_fit(y)
    assert f.shape == (case.likelihood.num_functions,)
    found = f
    if isinstance(fitted, Gaussian):
        found = np.array([f[0], float(fitted.log_noise)])
    assert_allclose(found, _maximum(case, y, start), rtol=1e-5, atol=1e-5)
    constant = np.broadcast_to(f[:, None], (len(f), len(y)))
    score = np.mean(slope(fitted, y, constant), axis=1)
    assert_allclose(score, 0.0, atol=1e-5)


@every_case
def test_constant_fit_is_the_maximum(case: Case, rng: np.random.Generator):
    distribution, start = _FITS[type(case.likelihood)]
    y = np.asarray(distribution.rvs(200, random_state=rng), dtype=float)
    _check_constant_fit(case, y, start)


@pytest.mark.parametrize(
    ("kind", "distribution", "start"),
    [
        (Beta, st.beta(3000.0, 6000.0), [8.0, 8.7]),
        (Gamma, st.gamma(0.05, scale=1e6), [-3.0, -13.8]),
    ],
    ids=["narrow beta", "gamma with a spike"],
)
def test_constant_fit_of_extreme_data(kind, distribution, start, rng):
    case = CASES[kind]
    y = np.clip(distribution.rvs(200, random_state=rng), 1e-300, None)
    y = np.minimum(y, np.nextafter(1.0, 0.0)) if kind is Beta else y
    _check_constant_fit(case, y, start)


# What Gaussians have beside.


def test_gaussian_noise_is_learned_unless_fixed(rng: np.random.Generator):
    y = 2.0 + rng.standard_normal(50)
    free, fixed = Gaussian(0.5), Gaussian(0.5, fixed=True)
    assert jax.tree.leaves(free.trainable()) == [True]
    assert jax.tree.leaves(fixed.trainable()) == [False]
    assert_allclose(free.constant_fit(y)[0].noise, np.std(y), rtol=1e-12)
    kept, f = fixed.constant_fit(y)
    assert_allclose(kept.noise, 0.5, rtol=1e-15)
    assert_allclose(f, [np.mean(y)], rtol=1e-12)
    assert kept.fixed


def test_gaussian_noise_does_not_depend_on_being_fixed():
    y, f = np.array([0.3, -4.0]), np.array([[0.1, 2.0]])
    free, fixed = Gaussian(0.5), Gaussian(0.5, fixed=True)
    assert_allclose(log_prob(free, y, f), log_prob(fixed, y, f), rtol=1e-15)


def test_gaussian_changes_units():
    y, f = np.array([0.3, -4.0]), np.array([[0.1, 2.0]])
    lik = Gaussian(0.5)
    inside = log_prob(lik.in_units(4.0), y / 4.0, f / 4.0)
    assert_allclose(log_prob(lik, y, f), inside - np.log(4.0), rtol=1e-13)


@every_case
def test_only_real_outputs_have_units(case: Case):
    assert case.likelihood.real == isinstance(case.likelihood, Gaussian | HetGaussian)
    if not isinstance(case.likelihood, Gaussian):
        assert case.likelihood.in_units(3.0) is case.likelihood
        assert jax.tree.leaves(case.likelihood.trainable()) == []


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
def test_gaussian_refuses_noise_that_is_not_positive(noise: float):
    with pytest.raises(ValueError, match=r"^`noise` must be a positive number; got"):
        Gaussian(noise)


def test_beta_stays_a_density_where_its_parameters_overflow_the_digits():
    # A log density with a + b = n is at most about half of log n; at n = e^60, rounding
    # alone would be of the order of 1e10.
    beta = Beta()
    f = jnp.asarray(np.random.default_rng(0).uniform(20.0, 60.0, size=(2, 2000)))
    y = jnp.asarray(np.random.default_rng(1).uniform(0.01, 0.99, size=2000))
    assert float(jnp.max(beta.log_prob(y, f))) < 0.5 * 61.0 + 5.0
    wide = beta.log_predictive(
        np.array([0.41]), np.array([[-1.1], [-1.36]]), np.array([[30.3], [16.0]])
    )
    assert -20.0 < float(wide[0]) < 3.0
