"""Expectations under a few Gaussians by Gauss-Hermite quadrature; their second moments
are packed as in `numerics.packed`."""

import functools as ft
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp.numerics.packed import TINY_VARIANCE, covariance, factor, sqrt_above

_TRIMMED_WEIGHT = 1e-12
_DENSE_REACH = 7.0
# The search for a mode: the steps, their cap, and the multiples of a step to try.
_NUM_NEWTON = 14
_MAX_NEWTON_STEP = 20.0
_MULTIPLES = np.array([8.0, 2.5, 1.0, 0.25, 0.03])
# The outer grid of a two-dimensional integral, relative to its centre, and its reach:
# in standard deviations of q in the first pass, of the integrand in the second.
_GRID = np.linspace(-1.0, 1.0, 65)
_REACHES = np.array([14.0, 9.0])


Rule = tuple[np.ndarray, np.ndarray]


@ft.cache
def hermite_rule(num_nodes: int, *, trim: bool = False) -> Rule:
    """Nodes z_i and weights w_i with E[h(z)] = sum_i w_i h(z_i) for z ~ N(0, 1).

    Exact for polynomials of degree up to 2 num_nodes - 1. `trim` leaves out the
    outermost nodes, whose weights sum to less than 1e-11: almost half of 60 nodes.
    Nothing is lost for an h that grows no faster than a power of z.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    weights = weights / weights.sum()
    kept = weights >= (_TRIMMED_WEIGHT if trim else 0.0)
    return nodes[kept], weights[kept] / weights[kept].sum()


@ft.cache
def dense_rule(num_nodes: int) -> Rule:
    """Evenly spaced nodes and their weights for z ~ N(0, 1), for integrands with steps.

    The trapezoid rule resolves a step as wide as the spacing of its nodes, and is as
    good as Gauss-Hermite where the integrand is smooth.
    """
    nodes = np.linspace(-_DENSE_REACH, _DENSE_REACH, num_nodes)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def nodes_at(
    mean: Float[Array, "*N"], var: Float[Array, "*N"], rule: Rule
) -> Float[Array, "*N K"]:
    """The nodes of the rule for N(mean, var), along a new last axis."""
    std = sqrt_above(var, TINY_VARIANCE)
    return mean[..., None] + std[..., None] * jnp.asarray(rule[0])


def expect(
    fn: Callable[[Float[Array, "*N K"]], Float[Array, "*N K"]],
    mean: Float[Array, "*N"],
    var: Float[Array, "*N"],
    num_nodes: int,
) -> Float[Array, "*N"]:
    """E[fn(f)] for f ~ N(mean, var); `fn` is elementwise and grows like a power of f at
    most."""
    rule = hermite_rule(num_nodes, trim=True)
    return fn(nodes_at(mean, var, rule)) @ jnp.asarray(rule[1])


def tensor_weights(rules: Sequence[Rule]) -> np.ndarray:
    """Weights of the product rule, one axis per function."""
    return ft.reduce(np.multiply.outer, [rule[1] for rule in rules])


def tensor_nodes(
    mean: Float[Array, "L *N"], var: Float[Array, "V *N"], rules: Sequence[Rule]
) -> list[Float[Array, "..."]]:
    """The nodes of the product rule, one broadcastable array per function: f = m + C z,
    with C the lower Cholesky factor of the covariance."""
    size, extra = len(rules), (1,) * len(rules)
    lifted = []
    for m, row in zip(mean, factor(var, size), strict=True):
        f = m.reshape(m.shape + extra)
        for k, entry in row.items():
            axes = [1] * size
            axes[k] = -1
            z = jnp.asarray(rules[k][0]).reshape(axes)
            f = f + entry.reshape(entry.shape + extra) * z
        lifted.append(f)
    return lifted


def expect_tensor(
    fn: Callable[..., Float[Array, "..."]],
    mean: Float[Array, "L *N"],
    var: Float[Array, "V *N"],
    num_nodes: int,
) -> Float[Array, "*N"]:
    """E[fn(f_1, ..., f_L)] by the product rule; `fn` is elementwise, broadcasting."""
    rules = [hermite_rule(num_nodes)] * mean.shape[0]
    values = fn(*tensor_nodes(mean, var, rules))
    weights = jnp.asarray(tensor_weights(rules)).ravel()
    return values.reshape((*mean.shape[1:], -1)) @ weights


def expect_exps(
    fn: Callable[[Array, Array], Float[Array, "*N K K"]],
    mean: Float[Array, "2 *N"],
    var: Float[Array, "V *N"],
    num_nodes: int,
) -> Float[Array, "*N"]:
    """E[fn(exp f, exp g)] by the product rule; `fn` grows like a power of f at most.

    At the nodes g is a sum over both axes, so exp g is a product: 3 K exponentials take
    the place of K^2.
    """
    z, weights = (jnp.asarray(a) for a in hermite_rule(num_nodes, trim=True))
    upper, lower = factor(var, 2)
    first = jnp.exp(mean[0][..., None] + upper[0][..., None] * z)
    shared = lower.get(0, jnp.zeros_like(mean[1]))
    along = jnp.exp(mean[1][..., None] + shared[..., None] * z)
    second = along[..., :, None] * jnp.exp(lower[1][..., None] * z)[..., None, :]
    return (fn(first[..., None], second) @ weights) @ weights


def log_expect_exp(
    log_fn: Callable[..., Float[Array, "..."]],
    mean: Float[Array, "L *N"],
    var: Float[Array, "V *N"],
    num_nodes: int,
) -> Float[Array, "*N"]:
    """log E[exp(log_fn(f))] for Gaussian f, L <= 2.

    `log_fn` is elementwise and takes arrays with further axes at the end. A likelihood
    may be far narrower than q(f), or lie in its tail, where a rule placed on q(f) would
    miss it. So a one-dimensional rule is placed on the Gaussian that Laplace's method
    fits to exp(log_fn) q (Liu and Pierce, 1994), and the ratio is integrated. With two
    functions, the outer integral is over the minor axis of their covariance, on an even
    grid that a coarser grid has placed, and the inner one over the major axis.
    """
    if mean.shape[0] == 1:
        var = jnp.maximum(var, TINY_VARIANCE)
        return _log_expect_1d(log_fn, mean[0], var[0], num_nodes)
    if mean.shape[0] == 2:
        return _log_expect_2d(log_fn, mean, var, num_nodes)
    raise ValueError(f"`mean` must hold at most 2 functions; got {mean.shape[0]}.")


def _log_expect_1d(
    log_fn: Callable[[Array], Array], mean: Array, var: Array, num_nodes: int
) -> Array:
    mode, std = _laplace(log_fn, mean, var)
    nodes, weights = (jnp.asarray(a) for a in hermite_rule(num_nodes))
    f = mode[..., None] + std[..., None] * nodes
    # log of q(f) / N(f | mode, std^2); the factors of 2 pi cancel.
    log_q = -0.5 * (f - mean[..., None]) ** 2 / var[..., None]
    log_ratio = log_q + 0.5 * nodes**2 + jnp.log(std / jnp.sqrt(var))[..., None]
    return jax.nn.logsumexp(log_fn(f) + log_ratio + jnp.log(weights), axis=-1)


def _laplace(
    log_fn: Callable[[Array], Array], mean: Array, var: Array
) -> tuple[Array, Array]:
    """The mode of exp(log_fn) N(mean, var), and 1 / sqrt(curvature) there.

    Newton's method with a line search: without one, a likelihood with an exponential
    overshoots from one side and creeps from the other, by one unit per step.
    """
    slope = jax.grad(lambda f: jnp.sum(log_fn(f)))

    def slope_and_precision(f: Array) -> tuple[Array, Array]:
        """The slope and precision of the log of the product; one jvp gives both, since
        `log_fn` is elementwise."""
        first, second = jax.jvp(slope, (f,), (jnp.ones_like(f),))
        precision = jnp.maximum(jnp.nan_to_num(-second), 0.0) + 1.0 / var
        return first - (f - mean) / var, precision

    def height(f: Array) -> Array:
        value = log_fn(f) - 0.5 * (f - mean) ** 2 / var
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def newton(at: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        f, reached = at
        first, precision = slope_and_precision(f)
        step = jnp.nan_to_num(first / precision)
        step = jnp.clip(step, -_MAX_NEWTON_STEP, _MAX_NEWTON_STEP)
        tried = f[None] + step[None] * _MULTIPLES.reshape((-1,) + (1,) * f.ndim)
        # The current point is a candidate too, so the height never falls.
        heights = jnp.concatenate([reached[None], jax.vmap(height)(tried)])
        points = jnp.concatenate([f[None], tried])
        best = jnp.argmax(heights, axis=0)[None]
        pick = ft.partial(jnp.take_along_axis, indices=best, axis=0)
        return (pick(points)[0], pick(heights)[0]), None

    (mode, _), _ = jax.lax.scan(newton, (mean, height(mean)), None, length=_NUM_NEWTON)
    return mode, 1.0 / jnp.sqrt(slope_and_precision(mode)[1])


class _Axes(NamedTuple):
    """The principal axes of two Gaussians: the variances along the major and the minor
    axis, and the angle of the major one."""

    major: Array
    minor: Array
    cos: Array
    sin: Array


def _principal(var: Array) -> _Axes:
    v, w, c = var[0], var[1], covariance(var, 2, 0, 1)
    half = jnp.hypot(0.5 * (v - w), c)
    major = jnp.maximum(0.5 * (v + w) + half, TINY_VARIANCE)
    # The product of both is the determinant; their difference would lose digits.
    minor = jnp.maximum((v * w - c * c) / major, TINY_VARIANCE)
    angle = 0.5 * jnp.arctan2(c, 0.5 * (v - w))
    return _Axes(major, minor, jnp.cos(angle), jnp.sin(angle))


def _log_expect_2d(
    log_fn: Callable[[Array, Array], Array], mean: Array, var: Array, num_nodes: int
) -> Array:
    axes = _principal(var)

    def log_joint(outer: Array) -> Array:
        """log of q(outer) times the integral over the major axis: (..., K)."""

        def given_outer(inner: Array) -> Array:
            def lifted(a: Array) -> Array:
                return a.reshape(a.shape + (1,) * (inner.ndim - a.ndim))

            across = lifted(outer)
            m, cos, sin = lifted(mean[0]), lifted(axes.cos), lifted(axes.sin)
            first = m + cos * inner - sin * across
            second = lifted(mean[1]) + sin * inner + cos * across
            return log_fn(first, second)

        spread = jnp.broadcast_to(axes.major[..., None], outer.shape)
        inside = _log_expect_1d(given_outer, jnp.zeros_like(outer), spread, num_nodes)
        square = outer**2 / axes.minor[..., None]
        return inside - 0.5 * (square + jnp.log(2.0 * jnp.pi * axes.minor)[..., None])

    def integrate(place: tuple[Array, Array], reach: Array) -> tuple[Any, Array]:
        """The centre and width of the integrand, and its log integral on a grid."""
        centre, width = (a[..., None] for a in place)
        outer = centre + reach * width * jnp.asarray(_GRID)
        joint = log_joint(outer)
        spacing = (_GRID[1] - _GRID[0]) * reach * place[1]
        weight = jax.nn.softmax(joint, axis=-1)
        mean = jnp.sum(weight * outer, axis=-1)
        spread = jnp.sum(weight * (outer - mean[..., None]) ** 2, axis=-1)
        # A grid cannot resolve a peak narrower than its spacing.
        found = mean, jnp.maximum(jnp.sqrt(spread), 0.4 * spacing)
        return found, jax.nn.logsumexp(joint, axis=-1) + jnp.log(spacing)

    # The first pass places the grid of the second. A scan instead of two calls compiles
    # the program once; compiling takes most of the time of a short evaluation.
    start = jnp.zeros_like(axes.minor), jnp.sqrt(axes.minor)
    _, totals = jax.lax.scan(integrate, start, jnp.asarray(_REACHES))
    return totals[-1]
