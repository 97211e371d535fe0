"""Expectations under a few Gaussians by Gauss-Hermite quadrature; their second moments
are packed as in `numerics.packed`."""

import functools as ft
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp.numerics.packed import TINY_VARIANCE, factor, sqrt_above

_TRIMMED_WEIGHT = 1e-12
_DENSE_REACH = 7.0


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
    fn: Callable[[Array], Array],
    mean: Float[Array, "2 *N"],
    var: Float[Array, "V *N"],
    num_nodes: int,
) -> tuple[Float[Array, "*N"], Float[Array, "*N"], Float[Array, "*N"]]:
    """E[fn(exp f)], E[fn(exp g)] and E[fn(exp f + exp g)]; `fn` is elementwise and
    grows like a power of f at most.

    For the last, g is a sum over both axes of the product rule, so exp g is a product:
    3 K exponentials take the place of K^2. One call of `fn` serves all, which makes the
    program small.
    """
    rule = hermite_rule(num_nodes, trim=True)
    z, weights = (jnp.asarray(a) for a in rule)
    upper, lower = factor(var, 2)
    first = jnp.exp(mean[0][..., None] + upper[0][..., None] * z)
    alone = jnp.exp(nodes_at(mean[1], var[1], rule))
    shared = lower.get(0, jnp.zeros_like(mean[1]))
    along = jnp.exp(mean[1][..., None] + shared[..., None] * z)
    second = along[..., :, None] * jnp.exp(lower[1][..., None] * z)[..., None, :]
    both = (first[..., None] + second).reshape(*first.shape[:-1], -1)
    values = fn(jnp.concatenate([first, alone, both], axis=-1))
    size = len(weights)
    of_first, of_second, of_sum = jnp.split(values, [size, 2 * size], axis=-1)
    grid = of_sum.reshape(*first.shape, size)
    return of_first @ weights, of_second @ weights, (grid @ weights) @ weights
