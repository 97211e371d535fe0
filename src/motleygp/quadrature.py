"""Expectations under independent Gaussians by Gauss-Hermite quadrature."""

import functools as ft
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Below this a variance is rounding error; the floor keeps d sqrt(v)/dv finite.
_TINY_VARIANCE = 1e-18
_TRIMMED_WEIGHT = 1e-12


Rule = tuple[np.ndarray, np.ndarray]


@ft.cache
def hermite_rule(num_nodes: int, *, trim: bool = False) -> Rule:
    """Nodes z_i and weights w_i with E[h(z)] = sum_i w_i h(z_i) for z ~ N(0, 1).

    Exact for polynomials of degree up to 2 num_nodes - 1. With `trim` the outermost
    nodes, whose weights add up to less than 1e-11, are left out: almost half of 60
    nodes. For an h that grows no faster than a power of z nothing is lost.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    weights = weights / weights.sum()
    kept = weights >= (_TRIMMED_WEIGHT if trim else 0.0)
    return nodes[kept], weights[kept]


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
    """E[fn(f)] for f ~ N(mean, var); `fn` is elementwise, of at most power growth."""
    rule = hermite_rule(num_nodes, trim=True)
    return fn(nodes_at(mean, var, rule)) @ jnp.asarray(rule[1])


def tensor_weights(num_functions: int, rule: Rule) -> np.ndarray:
    """Weights of the product rule, of shape (K,) * num_functions."""
    return ft.reduce(np.multiply.outer, [rule[1]] * num_functions)


def tensor_nodes(
    mean: Float[Array, "L *N"], var: Float[Array, "L *N"], rule: Rule
) -> list[Float[Array, "..."]]:
    """The nodes of the product rule, one broadcastable array per function."""
    num_functions, lifted = mean.shape[0], []
    for i, (m, v) in enumerate(zip(mean, var, strict=True)):
        f = nodes_at(m, v, rule)
        axes = [1] * num_functions
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
    rule = hermite_rule(num_nodes, trim=trim)
    values = fn(*tensor_nodes(mean, var, rule))
    weights = jnp.asarray(tensor_weights(mean.shape[0], rule)).ravel()
    return values.reshape((*mean.shape[1:], -1)) @ weights


def log_expect_exp(
    log_fn: Callable[..., Float[Array, "*N"]],
    mean: Float[Array, "L *N"],
    var: Float[Array, "L *N"],
    num_nodes: int,
    *,
    num_newton: int = 25,
) -> Float[Array, "*N"]:
    """log E[exp(log_fn(f))] for f ~ N(mean, diag var), L <= 2, `log_fn` elementwise.

    A likelihood may be far narrower than q(f), or lie in its tail, where a rule placed
    on q(f) sees nothing of it. So the rule is placed on the Gaussian that Laplace's
    method fits to exp(log_fn) q (Liu and Pierce, 1994), and the ratio is integrated.
    Where the fit is poor the result is still that of a valid rule.
    """
    num_functions = mean.shape[0]
    if num_functions > 2:
        raise ValueError(f"`mean` must hold at most 2 functions; got {num_functions}.")
    var = jnp.maximum(var, _TINY_VARIANCE)

    def total(f: Float[Array, "L *N"]) -> Float[Array, ""]:
        return jnp.sum(log_fn(*f))

    # `log_fn` is elementwise, so one gradient of the sum serves all observations, and
    # row i of the Hessian is the gradient of the sum of the i-th partial derivatives.
    gradient = jax.grad(total)

    def curvature(f: Float[Array, "L *N"]) -> list[list[Array]]:
        rows = [
            -jax.grad(lambda g, i=i: jnp.sum(gradient(g)[i]))(f)
            for i in range(num_functions)
        ]
        return _made_positive([[row[j] for j in range(num_functions)] for row in rows])

    def precision_factor(f: Float[Array, "L *N"]) -> list[list[Array]]:
        h = curvature(f)
        for i in range(num_functions):
            h[i][i] = h[i][i] + 1.0 / var[i]
        return _small_cholesky(h)

    def newton(f: Float[Array, "L *N"], _: None) -> tuple[Array, None]:
        slope = gradient(f) - (f - mean) / var
        half = _small_solve(precision_factor(f), list(slope))
        step = jnp.stack(_small_solve_transpose(precision_factor(f), half))
        # A likelihood with an exponential in it overshoots without a cap.
        return f + jnp.clip(step, -2.0, 2.0), None

    mode, _ = jax.lax.scan(newton, mean, None, length=num_newton)
    mode = jnp.where(jnp.isfinite(mode), mode, mean)
    factor = precision_factor(mode)
    rule = hermite_rule(num_nodes)
    grid = [
        jnp.asarray(z) for z in np.meshgrid(*[rule[0]] * num_functions, indexing="ij")
    ]
    # f = mode + R^-T z with R R^T the precision; z the nodes, along new last axes.
    ones = (1,) * num_functions
    lifted = [[r.reshape(r.shape + ones) for r in row] for row in factor]
    spread = _small_solve_transpose(lifted, grid)
    f = [m.reshape(m.shape + ones) + s for m, s in zip(mode, spread, strict=True)]
    log_ratio = log_fn(*f)
    for i in range(num_functions):
        m, v = (a[i].reshape(a[i].shape + ones) for a in (mean, var))
        # The 2 pi of q and of the rule cancel; so do their other constants but these.
        log_ratio += -0.5 * (f[i] - m) ** 2 / v - 0.5 * jnp.log(v) + 0.5 * grid[i] ** 2
        log_ratio -= jnp.log(lifted[i][i])
    log_weights = jnp.asarray(np.log(tensor_weights(num_functions, rule)))
    axes = tuple(range(-num_functions, 0))
    return jax.nn.logsumexp(log_ratio + log_weights, axis=axes)


def _made_positive(h: list[list[Array]]) -> list[list[Array]]:
    """The nearest-looking positive semi-definite matrix, elementwise, L <= 2."""
    diagonal = [jnp.maximum(h[i][i], 0.0) for i in range(len(h))]
    if len(h) == 1:
        return [diagonal]
    bound = 0.99 * jnp.sqrt(diagonal[0] * diagonal[1])
    off = jnp.clip(h[0][1], -bound, bound)
    return [[diagonal[0], off], [off, diagonal[1]]]


def _small_cholesky(a: list[list[Array]]) -> list[list[Array]]:
    """The factor of an L x L matrix of arrays, written out: no LAPACK on a batch."""
    size = len(a)
    lower = [[jnp.zeros_like(a[0][0]) for _ in range(size)] for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = a[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = jnp.sqrt(rest) if i == j else rest / lower[j][j]
    return lower


def _small_solve(lower: list[list[Array]], b: list[Array]) -> list[Array]:
    x: list[Array] = []
    for i in range(len(b)):
        x.append((b[i] - sum(lower[i][k] * x[k] for k in range(i))) / lower[i][i])
    return x


def _small_solve_transpose(lower: list[list[Array]], b: list[Array]) -> list[Array]:
    size = len(b)
    x = [jnp.zeros(())] * size
    for i in reversed(range(size)):
        later = sum(lower[k][i] * x[k] for k in range(i + 1, size))
        x[i] = (b[i] - later) / lower[i][i]
    return x
