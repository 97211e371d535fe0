"""log E[exp(log_fn(f))] under one or two Gaussians, wherever the integrand may lie.

A likelihood may be far narrower than q(f), or lie in its tail, where a rule placed on
q(f) would miss it. So the integrand is searched for first, by its values on grids.
"""

import functools as ft
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp.numerics.packed import TINY_VARIANCE, covariance, sqrt_above

# Nothing is left of an integrand that is this far below its top, in nats.
_FALL = 36.0
_LOG_2PI = math.log(2.0 * math.pi)
# The search for the mode of an inner integrand: the steps, their cap, and the multiples
# of a step to try.
_NUM_NEWTON = 14
_MAX_NEWTON_STEP = 20.0
_MULTIPLES = np.array([8.0, 2.5, 1.0, 0.25, 0.03])
# The lengths to try for each half of its window, and the nodes inside.
_NUM_LENGTHS = 12
_LEGENDRE = np.polynomial.legendre.leggauss(32)


class _Passes(NamedTuple):
    """Grids on a stretch [-1, 1]: one of its whole, with nodes that are dense in its
    middle; `zooms` even ones, each on what matters of the one before; and `parts` that
    make up the even grid of the integral."""

    half: int
    """The nodes on each side."""
    reach: float
    """The half of the first stretch, in standard deviations."""
    zooms: int
    parts: int

    def grids(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of each pass, and whether they belong to the integral."""
        steps = np.arange(-self.half, self.half + 1) / self.half
        first = np.sinh(math.asinh(self.reach) * steps) / self.reach
        size = self.parts * len(steps)
        final = np.linspace(-1.0, 1.0, size).reshape(-1, self.parts).T
        kept = [False] * (1 + self.zooms) + [True] * self.parts
        return np.array([first, *[steps] * self.zooms, *final]), np.array(kept)

    @property
    def share(self) -> float:
        """The spacing of the integral's grid, as a share of the stretch."""
        return 1.0 / (self.parts * (2 * self.half + 1) - 1)


# In one dimension a node costs little; the outer integral of two has an inner one.
_ONE = _Passes(half=16, reach=1e4, zooms=8, parts=4)
_OUTER = _Passes(half=16, reach=300.0, zooms=2, parts=3)


def log_expect_exp(
    log_fn: Callable[..., Float[Array, "..."]],
    mean: Float[Array, "L *N"],
    var: Float[Array, "V *N"],
) -> Float[Array, "*N"]:
    """log E[exp(log_fn(f))] for Gaussian f, L <= 2.

    `log_fn` is elementwise and takes arrays with further axes at the end. With two
    functions, the inner integral is over the second given the first, on a window about
    its mode that Newton's method finds; it should have one mode.
    """
    if mean.shape[0] > 2:
        raise ValueError(f"`mean` must hold at most 2 functions; got {mean.shape[0]}.")
    v = jnp.maximum(var[0], TINY_VARIANCE)
    inner = log_fn if len(mean) == 1 else _given_first(log_fn, mean, var)

    def log_joint(f: Array) -> Array:
        square = (f - mean[0][..., None]) ** 2 / v[..., None]
        return inner(f) - 0.5 * (square + _LOG_2PI + jnp.log(v)[..., None])

    passes = _ONE if len(mean) == 1 else _OUTER
    return _log_integral(log_joint, mean[0], jnp.sqrt(v), passes)


def _log_integral(
    log_fn: Callable[[Array], Array], centre: Array, scale: Array, passes: _Passes
) -> Array:
    """log of the integral of exp(log_fn), whose tails are those of a Gaussian of this
    scale, or lighter."""

    def visit(at: tuple, given: tuple) -> tuple[tuple, None]:
        low, high, total = at
        grid, kept = given
        f = low[..., None] + (0.5 * (high - low))[..., None] * (1.0 + grid)
        value = log_fn(f)
        value = jnp.where(jnp.isnan(value), -jnp.inf, value)
        first, last = _stretch(f, value)
        here = jnp.logaddexp(total, jax.nn.logsumexp(value, axis=-1))
        zoomed = first, last, total
        return jax.tree.map(
            lambda a, b: jnp.where(kept, a, b), (low, high, here), zoomed
        ), None

    reach = passes.reach * scale
    start = centre - reach, centre + reach, jnp.full_like(centre, -jnp.inf)
    grids = tuple(jnp.asarray(a) for a in passes.grids())
    # A scan compiles the integrand once; that takes most of a short evaluation.
    (low, high, total), _ = jax.lax.scan(visit, start, grids)
    return total + jnp.log((high - low) * passes.share)


def _stretch(f: Array, value: Array) -> tuple[Array, Array]:
    """The ends of what matters: from the node before the first that is not far below
    the top, to the node after the last."""
    matters = value >= jnp.max(value, axis=-1, keepdims=True) - _FALL
    size = f.shape[-1]
    first = jnp.maximum(jnp.argmax(matters, axis=-1) - 1, 0)
    last = jnp.minimum(size - jnp.argmax(matters[..., ::-1], axis=-1), size - 1)
    pick = ft.partial(jnp.take_along_axis, f, axis=-1)
    return pick(first[..., None])[..., 0], pick(last[..., None])[..., 0]


def _given_first(
    log_fn: Callable[[Array, Array], Array], mean: Array, var: Array
) -> Callable[[Array], Array]:
    """log E[exp(log_fn(f, g)) | f] as a function of f."""
    v, c = jnp.maximum(var[0], TINY_VARIANCE), covariance(var, 2, 0, 1)
    slope = c / v
    rest = sqrt_above(var[1] - slope * c, 1e-14 * var[1] + TINY_VARIANCE) ** 2

    def given(f: Array) -> Array:
        def along(g: Array) -> Array:
            return log_fn(f.reshape(f.shape + (1,) * (g.ndim - f.ndim)), g)

        shift = slope[..., None] * (f - mean[0][..., None])
        spread = jnp.broadcast_to(rest[..., None], f.shape)
        return _log_expect_inner(along, mean[1][..., None] + shift, spread)

    return given


def _log_expect_inner(
    log_fn: Callable[[Array], Array], mean: Array, var: Array
) -> Array:
    """log E[exp(log_fn)] for an integrand with one mode."""
    mode, std = _laplace(log_fn, mean, var)

    def height(f: Array) -> Array:
        extra = (1,) * (f.ndim - mean.ndim)
        m, v = (a.reshape(a.shape + extra) for a in (mean, var))
        value = log_fn(f) - 0.5 * (f - m) ** 2 / v
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    # Each half of the window is the shortest at whose end nothing is left; none need be
    # longer than that of q.
    tops, longest = height(mode), math.sqrt(2.0 * _FALL) * jnp.sqrt(var)
    share = jnp.linspace(0.0, 1.0, _NUM_LENGTHS)
    lengths = std[..., None] * (longest / std)[..., None] ** share
    signs = jnp.array([-1.0, 1.0])[:, None]
    ends = mode[..., None, None] + signs * lengths[..., None, :]
    empty = height(ends) < tops[..., None, None] - _FALL
    chosen = jnp.argmax(empty.at[..., -1].set(True), axis=-1)[..., None]
    half = jnp.take_along_axis(signs * lengths[..., None, :], chosen, axis=-1)
    # The nodes are dense at the mode and at the ends, where likelihoods turn.
    nodes, weights = _LEGENDRE
    f = mode[..., None, None] + half * jnp.asarray(0.5 * (1.0 + nodes))
    log_weights = jnp.log(0.5 * jnp.abs(half)) + jnp.log(jnp.asarray(weights))
    total = jax.nn.logsumexp(height(f) + log_weights, axis=(-2, -1))
    return total - 0.5 * (_LOG_2PI + jnp.log(var))


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
