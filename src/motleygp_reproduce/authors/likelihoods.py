"""Expected log densities of one observation as the published code has them.

Functions of one output are independent: only the means and variances of q(f) enter.
The parameters are clipped in the integrand, and the derivatives are expectations of
derivatives of the log density that forget the clipping; so where it is in force, they
are not the derivatives of the value. Gauss-Hermite rules have 20 nodes per function,
but 16 for the Beta output: it asks for 16 first and 20 then, and the first rule stays.
The special functions at the nodes are the library's series, which are faster than JAX's
own.
"""

import functools as ft
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import jax.scipy.special as jss
import numpy as np
from jaxtyping import Array, Float

from motleygp.numerics.special import stirling_remainder, stirling_remainder_slope

_LOG_2PI = math.log(2.0 * math.pi)
_MOST_EXPONENT = math.log(np.finfo(np.float64).max)
_LEAST, _MOST = 1e-9, 1e9
_NODES, _BETA_NODES = 20, 16
# The series of trigamma holds to 1e-12 from 8 on; B_2k, highest order first.
_SHIFT = 8
_BERNOULLI_NUMBERS = (-691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)

Values: TypeAlias = Float[Array, "*N"]
Moments: TypeAlias = Float[Array, "L *N"]
Slopes: TypeAlias = tuple[Float[Array, "L *N"], Float[Array, "L *N"]]


class Kind(NamedTuple):
    """A likelihood.

    **Attributes:**

    - `value(y, mean, var, sigma)`: E[log p(y | f)] for independent f ~ N(mean, var).
    - `slopes(y, mean, var, sigma)`: E[d log p / df] and 1/2 E[d^2 log p / df^2], which
      the code takes for the derivatives of the value in the mean and the variance.
    - `log_density(y, f)`: log p(y | f), for scores.
    """

    value: Callable[[Values, Moments, Moments, Values], Values]
    slopes: Callable[[Values, Moments, Moments, Values], Slopes]
    log_density: Callable[[Values, Moments], Values]


def _exp(f: Array) -> Array:
    """exp(f), of the largest exponent that is finite at most."""
    return jnp.exp(jnp.minimum(f, _MOST_EXPONENT))


def _positive(f: Array) -> Array:
    """exp(f) between 1e-9 and 1e9."""
    return jnp.clip(_exp(f), _LEAST, _MOST)


def _log_gamma(x: Array) -> Array:
    return x * jnp.log(x) - x - stirling_remainder(x)


def _digamma(x: Array) -> Array:
    return jnp.log(x) - stirling_remainder_slope(x)


def _trigamma(x: Array) -> Array:
    """By the recurrence to x + 8, and the asymptotic series there."""
    inverse = 1.0 / (x + _SHIFT)
    square = inverse * inverse
    series = jnp.polyval(jnp.asarray(_BERNOULLI_NUMBERS), square)
    below = sum(1.0 / (x + k) ** 2 for k in range(_SHIFT))
    return below + inverse + 0.5 * square + inverse * square * series


@ft.cache
def _rule(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights with E[h(f)] = sum_i w_i h(m + sqrt(2 v) x_i)."""
    nodes, weights = np.polynomial.hermite.hermgauss(num_nodes)
    return nodes, weights / math.sqrt(math.pi)


def _nodes(mean: Values, var: Values, num_nodes: int) -> Float[Array, "*N K"]:
    return mean[..., None] + jnp.sqrt(2.0 * var)[..., None] * _rule(num_nodes)[0]


def _pair(mean: Moments, var: Moments, num_nodes: int) -> list[Float[Array, "*N K"]]:
    """The parameters of both functions at the nodes of each."""
    each = zip(mean, var, strict=True)
    return [_positive(_nodes(m, v, num_nodes)) for m, v in each]


def _over(values: Float[Array, "*N K"]) -> Float[Array, "*N"]:
    """The expectation over the nodes of one function, the last axis."""
    return jnp.sum(values * _rule(values.shape[-1])[1], axis=-1)


# One function, by quadrature: log p, d log p / df and d^2 log p / df^2 at (y, f).
_Curve: TypeAlias = tuple[Callable[[Array, Array], Array], ...]


def _by_quadrature(curve: _Curve) -> Kind:
    log_density, first, second = curve

    def expect(fn: Callable, y: Array, mean: Array, var: Array) -> Array:
        f = _nodes(mean[0], var[0], _NODES)
        return fn(y[..., None], f) @ _rule(_NODES)[1]

    def slopes(y: Array, mean: Array, var: Array, sigma: Array) -> Slopes:
        del sigma
        in_mean = expect(first, y, mean, var)
        return in_mean[None], 0.5 * expect(second, y, mean, var)[None]

    return Kind(
        lambda y, mean, var, sigma: expect(log_density, y, mean, var),
        slopes,
        lambda y, f: log_density(y, f[0]),
    )


def _probability(f: Array) -> tuple[Array, Array]:
    """p = exp(f) / (1 + exp(f)), clipped, and 1 / (1 + exp(f))."""
    odds = _exp(f)
    return jnp.clip(odds / (1.0 + odds), _LEAST, 1.0 - _LEAST), 1.0 / (1.0 + odds)


def _bernoulli_log_density(y: Array, f: Array) -> Array:
    p, _ = _probability(f)
    return y * jnp.log(p) + (1.0 - y) * jnp.log(1.0 - p)


def _bernoulli_first(y: Array, f: Array) -> Array:
    p, rest = _probability(f)
    return (y - p) / (1.0 - p) * rest


def _bernoulli_second(y: Array, f: Array) -> Array:
    p, rest = _probability(f)
    return jnp.broadcast_to(-p * rest, jnp.broadcast_shapes(y.shape, f.shape))


# The Exponential output of rate exp(f), by its mean exp(-f).
_BERNOULLI = _bernoulli_log_density, _bernoulli_first, _bernoulli_second
_EXPONENTIAL = (
    lambda y, f: -jnp.log(_positive(-f)) - y / _positive(-f),
    lambda y, f: 1.0 - y / _positive(-f),
    lambda y, f: -y / _positive(-f),
)
_POISSON = (
    lambda y, f: y * f - _exp(f) - jss.gammaln(y + 1.0),
    lambda y, f: y - _exp(f),
    lambda y, f: jnp.broadcast_to(-_exp(f), jnp.broadcast_shapes(y.shape, f.shape)),
)


def _gaussian_value(y: Array, mean: Array, var: Array, sigma: Array) -> Array:
    square = (y - mean[0]) ** 2 + var[0]
    return -0.5 * (_LOG_2PI + 2.0 * jnp.log(sigma) + square / sigma**2)


def _gaussian_slopes(y: Array, mean: Array, var: Array, sigma: Array) -> Slopes:
    del var
    in_mean = (y - mean[0]) / sigma**2
    in_var = jnp.broadcast_to(-0.5 / sigma**2, in_mean.shape)
    return in_mean[None], in_var[None]


def _gaussian_log_density(y: Array, f: Array) -> Array:
    """log N(y | f, 1): the code's scores forget sigma."""
    return -0.5 * (_LOG_2PI + (y - f[0]) ** 2)


def _het_parts(y: Array, mean: Array, var: Array) -> tuple[Array, Array]:
    """E[exp(-f_2)] and E[(y - f_1)^2], both clipped at 1e9."""
    precision = jnp.minimum(_exp(-mean[1] + 0.5 * var[1]), _MOST)
    square = y**2 + mean[0] ** 2 + var[0] - 2.0 * mean[0] * y
    return precision, jnp.clip(square, -_MOST, _MOST)


def _het_value(y: Array, mean: Array, var: Array, sigma: Array) -> Array:
    del sigma
    precision, square = _het_parts(y, mean, var)
    return -0.5 * (_LOG_2PI + mean[1] + precision * square)


def _het_slopes(y: Array, mean: Array, var: Array, sigma: Array) -> Slopes:
    del sigma
    precision, square = _het_parts(y, mean, var)
    in_mean = precision * (y - mean[0]), 0.5 * (precision * square - 1.0)
    in_var = -0.5 * precision, -0.25 * precision * square
    return jnp.stack(in_mean), jnp.stack(in_var)


def _het_log_density(y: Array, f: Array) -> Array:
    return -0.5 * (_LOG_2PI + f[1] + (y - f[0]) ** 2 / _exp(f[1]))


# Under the product rule, a product of a term in a and one in b has the product of their
# expectations; only terms in a + b need the nodes of both.


def _beta_log_density(y: Array, f: Array) -> Array:
    a, b = _positive(f[0]), _positive(f[1])
    log_beta = _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)
    return (a - 1.0) * jnp.log(y) + (b - 1.0) * jnp.log1p(-y) - log_beta


def _sums(a: Array, b: Array) -> Float[Array, "*N K K"]:
    """a + b at all pairs of nodes."""
    return a[..., :, None] + b[..., None, :]


def _beta_value(y: Array, mean: Array, var: Array, sigma: Array) -> Array:
    del sigma
    a, b = _pair(mean, var, _BETA_NODES)
    log_beta = _over(_log_gamma(a) + _log_gamma(b)) - _over(
        _over(_log_gamma(_sums(a, b)))
    )
    return _over(a - 1.0) * jnp.log(y) + _over(b - 1.0) * jnp.log1p(-y) - log_beta


def _beta_slopes(y: Array, mean: Array, var: Array, sigma: Array) -> Slopes:
    del sigma
    a, b = _pair(mean, var, _BETA_NODES)
    both = _sums(a, b)
    digamma, trigamma = _digamma(both), _trigamma(both)
    in_mean, in_var = [], []
    for c, log_y, axis in ((a, jnp.log(y), -2), (b, jnp.log1p(-y), -1)):
        # The terms in a + b, as functions of c.
        shared, slope = (_over(jnp.moveaxis(h, axis, -2)) for h in (digamma, trigamma))
        first = _over(c * (shared - _digamma(c))) + log_y * _over(c)
        in_mean.append(first)
        in_var.append(0.5 * (first + _over(c * c * (slope - _trigamma(c)))))
    return jnp.stack(in_mean), jnp.stack(in_var)


def _gamma_log_density(y: Array, f: Array) -> Array:
    a, b = _positive(f[0]), _positive(f[1])
    return a * jnp.log(b) - _log_gamma(a) + (a - 1.0) * jnp.log(y) - b * y


def _gamma_value(y: Array, mean: Array, var: Array, sigma: Array) -> Array:
    del sigma
    a, b = _pair(mean, var, _NODES)
    in_rate = _over(a) * _over(jnp.log(b)) - _over(b) * y
    return in_rate - _over(_log_gamma(a)) + _over(a - 1.0) * jnp.log(y)


def _gamma_slopes(y: Array, mean: Array, var: Array, sigma: Array) -> Slopes:
    del sigma
    a, b = _pair(mean, var, _NODES)
    shape, rate = _over(a), _over(b) * y
    first = shape * (_over(jnp.log(b)) + jnp.log(y)) - _over(a * _digamma(a))
    in_mean = first, shape - rate
    in_var = first - _over(a * a * _trigamma(a)), -rate
    return jnp.stack(in_mean), 0.5 * jnp.stack(in_var)


KINDS = {
    "gaussian": Kind(_gaussian_value, _gaussian_slopes, _gaussian_log_density),
    "hetgaussian": Kind(_het_value, _het_slopes, _het_log_density),
    "bernoulli": _by_quadrature(_BERNOULLI),
    "beta": Kind(_beta_value, _beta_slopes, _beta_log_density),
    "gamma": Kind(_gamma_value, _gamma_slopes, _gamma_log_density),
    "exponential": _by_quadrature(_EXPONENTIAL),
    "poisson": _by_quadrature(_POISSON),
}
