"""Expectations under independent Gaussians by Gauss-Hermite quadrature."""

import functools as ft
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# A variance below this is rounding error; the floor keeps d sqrt(v)/dv finite.
_TINY_VARIANCE = 1e-18
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
    std = jnp.sqrt(jnp.maximum(var, _TINY_VARIANCE))
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
    mean: Float[Array, "L *N"], var: Float[Array, "L *N"], rules: Sequence[Rule]
) -> list[Float[Array, "..."]]:
    """The nodes of the product rule, one broadcastable array per function."""
    lifted = []
    for i, (m, v, rule) in enumerate(zip(mean, var, rules, strict=True)):
        f = nodes_at(m, v, rule)
        axes = [1] * len(rules)
        axes[i] = f.shape[-1]
        lifted.append(f.reshape(f.shape[:-1] + tuple(axes)))
    return lifted


def expect_tensor(
    fn: Callable[..., Float[Array, "..."]],
    mean: Float[Array, "L *N"],
    var: Float[Array, "L *N"],
    num_nodes: int,
    *,
    trim: bool = False,
) -> Float[Array, "*N"]:
    """E[fn(f_1, ..., f_L)] by the product rule; `fn` is elementwise, broadcasting."""
    rules = [hermite_rule(num_nodes, trim=trim)] * mean.shape[0]
    values = fn(*tensor_nodes(mean, var, rules))
    weights = jnp.asarray(tensor_weights(rules)).ravel()
    return values.reshape((*mean.shape[1:], -1)) @ weights


def log_expect_exp(
    log_fn: Callable[..., Float[Array, "..."]],
    mean: Float[Array, "L *N"],
    var: Float[Array, "L *N"],
    num_nodes: int,
) -> Float[Array, "*N"]:
    """log E[exp(log_fn(f))] for f ~ N(mean, diag var), L <= 2.

    `log_fn` is elementwise and takes arrays with further axes at the end. A likelihood
    may be far narrower than q(f), or lie in its tail, where a rule placed on q(f) would
    miss it. So a one-dimensional rule is placed on the Gaussian that Laplace's method
    fits to exp(log_fn) q (Liu and Pierce, 1994), and the ratio is integrated. With two
    functions, the outer integral is over the one of smaller variance, on an even grid
    that a coarser grid has placed.
    """
    var = jnp.maximum(var, _TINY_VARIANCE)
    if mean.shape[0] == 1:
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


def _log_expect_2d(
    log_fn: Callable[[Array, Array], Array], mean: Array, var: Array, num_nodes: int
) -> Array:
    swap = var[0] > var[1]
    outer_mean, inner_mean = _swapped(swap, *mean)
    outer_var, inner_var = _swapped(swap, *var)

    def log_joint(outer: Array) -> Array:
        """log of q(outer) times the integral over the inner function: (..., K)."""

        def given_outer(inner: Array) -> Array:
            extra = (1,) * (inner.ndim - outer.ndim)
            lifted = outer.reshape(outer.shape + extra)
            which = swap.reshape(swap.shape + (1,) * (inner.ndim - swap.ndim))
            return log_fn(*_swapped(which, *jnp.broadcast_arrays(lifted, inner)))

        spread = [jnp.broadcast_to(a[..., None], outer.shape) for a in moments]
        inside = _log_expect_1d(given_outer, spread[0], spread[1], num_nodes)
        square = (outer - outer_mean[..., None]) ** 2 / outer_var[..., None]
        return inside - 0.5 * (square + jnp.log(2.0 * jnp.pi * outer_var)[..., None])

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

    moments = inner_mean, inner_var
    # The first pass places the grid of the second. A scan instead of two calls compiles
    # the program once; compiling takes most of the time of a short evaluation.
    start = outer_mean, jnp.sqrt(outer_var)
    _, totals = jax.lax.scan(integrate, start, jnp.asarray(_REACHES))
    return totals[-1]


def _swapped(swap: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """(b, a) where `swap`, else (a, b)."""
    return jnp.where(swap, b, a), jnp.where(swap, a, b)
