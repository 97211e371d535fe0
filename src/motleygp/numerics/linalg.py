"""Factorisations and solves in JAX, which call LAPACK on a CPU.

On a CPU, XLA splits a *batch* of LAPACK calls over the thread pool that it blocks at
the same time; two batches in flight then wait for each other for ever. So nothing here
is batched on a CPU: `over_groups` takes the groups one after the other there, and all
at once on any other device.
"""

import functools as ft
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import linalg as lax_linalg
from jaxtyping import Array, Float, PyTree

from motleygp._types import Scalar

# A covariance that needs more jitter than this, relative to its diagonal, is broken.
_MAX_JITTER = 1e-2
# The first jitter after none.
_MIN_JITTER = 1e-15
# Triangular matrices up to this size are inverted by one solve.
_LEAF = 40


def over_groups(fn: Callable[..., Any], *stacked: PyTree) -> Any:
    """Apply `fn` to each group: by vmap, or one group at a time on a CPU.

    Groups run along the leading axis. Beside an accelerator, the choice is made when
    the program is lowered for a device, so it fits the device that holds the arrays;
    without one, half of the work of tracing is spared.
    """

    def one_at_a_time(*args: PyTree) -> Any:
        return jax.lax.map(lambda group: fn(*group), args)

    if jax.default_backend() == "cpu":
        return one_at_a_time(*stacked)
    return jax.lax.platform_dependent(*stacked, cpu=one_at_a_time, default=jax.vmap(fn))


@jax.custom_vjp
def product(a: Float[Array, "N K"], b: Float[Array, "K M"]) -> Float[Array, "N M"]:
    """a b, with a fast derivative."""
    return a @ b


def transposed_product(
    a: Float[Array, "K N"], b: Float[Array, "K M"]
) -> Float[Array, "N M"]:
    """a^T b.

    On a CPU, XLA does not use its fast matrix product when the left side is transposed.
    The barrier keeps the compiler from folding the transposition into the product
    (three times faster at 80 x 80).
    """
    return jax.lax.optimization_barrier(a.T) @ b


def _product_forward(a: Array, b: Array) -> tuple[Array, tuple[Array, Array]]:
    return a @ b, (a, b)


def _product_backward(saved: tuple[Array, Array], c: Array) -> tuple[Array, Array]:
    a, b = saved
    return c @ b.T, transposed_product(a, c)


product.defvjp(_product_forward, _product_backward)


def solve_lower(
    factor: Float[Array, "M M"], b: Float[Array, "M N"]
) -> Float[Array, "M N"]:
    """L^-1 b for a lower-triangular L."""
    return lax_linalg.triangular_solve(factor, b, left_side=True, lower=True)


def inverse_lower(factor: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """L^-1 for a lower-triangular L, by halves.

    [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]: matrix products do most
    of the work, at several times the speed of a triangular solve.
    """
    size = factor.shape[0]
    if size <= _LEAF:
        return solve_lower(factor, jnp.eye(size, dtype=factor.dtype))
    cut = size // 2
    upper = inverse_lower(factor[:cut, :cut])
    lower = inverse_lower(factor[cut:, cut:])
    corner = -(lower @ factor[cut:, :cut]) @ upper
    top = jnp.concatenate([upper, jnp.zeros_like(corner.T)], axis=1)
    return jnp.concatenate([top, jnp.concatenate([corner, lower], axis=1)])


def cholesky(matrix: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """The lower factor; NaN where the matrix is not positive definite."""
    return lax_linalg.cholesky(matrix, symmetrize_input=False)


def jittered_cholesky(
    matrix: Float[Array, "M M"], base: float
) -> tuple[Float[Array, "M M"], Scalar]:
    """The factor of `matrix` + jitter I, and the jitter.

    The jitter is `base` times the mean of the diagonal. If that does not suffice, it
    grows tenfold until it does, up to about 1e-2 times the mean. If that is not enough
    either, the factor is NaN.
    """
    return _jittered(matrix, base)


@ft.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _jittered(
    matrix: Float[Array, "M M"], base: float
) -> tuple[Float[Array, "M M"], Scalar]:
    identity = jnp.eye(matrix.shape[-1], dtype=matrix.dtype)
    scale = jnp.mean(jnp.diagonal(matrix))

    def factor(relative: Scalar) -> Float[Array, "M M"]:
        return cholesky(matrix + relative * scale * identity)

    def failed(carry: tuple[Scalar, Float[Array, "M M"]]) -> Array:
        relative, lower = carry
        # A failed factorisation is NaN in its whole lower half: one entry is enough.
        # The next step is tenfold, so it starts from a tenth of the limit at most, with
        # room for rounding.
        return (relative < 0.2 * _MAX_JITTER) & ~jnp.isfinite(lower[-1, -1])

    def raise_tenfold(
        carry: tuple[Scalar, Float[Array, "M M"]],
    ) -> tuple[Scalar, Float[Array, "M M"]]:
        # A jitter of 0 would stay 0 for ever. Before the first try it is negative.
        raised = jnp.maximum(10.0 * carry[0], _MIN_JITTER)
        relative = jnp.where(carry[0] < 0.0, base, raised)
        return relative, factor(relative)

    # The first try is in the loop too, so that the program has one factorisation.
    untried = -jnp.ones((), matrix.dtype), jnp.full_like(matrix, jnp.nan)
    relative, lower = jax.lax.while_loop(failed, raise_tenfold, untried)
    return lower, relative * scale


@_jittered.defjvp
def _jittered_jvp(base: float, primals: tuple, tangents: tuple) -> tuple:
    """dL = L Phi(L^-1 dK L^-T), where Phi takes the lower half with half the diagonal.

    The jitter moves with the mean of the diagonal; the tenfold steps are constants.
    """
    (matrix,), (tangent,) = primals, tangents
    lower, jitter = _jittered(matrix, base)
    relative = jitter / jnp.mean(jnp.diagonal(matrix))
    jitter_tangent = relative * jnp.mean(jnp.diagonal(tangent))
    tangent = tangent + jitter_tangent * jnp.eye(matrix.shape[-1], dtype=matrix.dtype)
    half = solve_lower(lower, tangent)
    inner = solve_lower(lower, half.T)
    return (lower, jitter), (lower @ lower_half(inner), jitter_tangent)


def lower_half(matrix: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """Phi: the lower half, with half the diagonal."""
    size = matrix.shape[0]
    return matrix * (np.tril(np.ones((size, size))) - 0.5 * np.eye(size))


def whitened_columns(
    uu: Float[Array, "M M"], ug: Float[Array, "M C"], base: float
) -> tuple[Float[Array, "M C"], Scalar]:
    """L^-1 `ug` with L the jittered factor of `uu`, and the jitter.

    The derivative is written out: composing the derivatives of the factor and of the
    solve costs half as much again.
    """
    return _whitened(uu, ug, base)


@ft.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _whitened(uu: Array, ug: Array, base: float) -> Any:
    return _whitened_forward(uu, ug, base)[0]


def _whitened_forward(uu: Array, ug: Array, base: float) -> tuple:
    inverse, jitter = inverse_factor(uu, base)
    basis = inverse @ ug
    relative = jitter / jnp.mean(jnp.diagonal(uu))
    return (basis, jitter), (inverse, basis, relative)


def _whitened_backward(base: float, saved: tuple, cotangents: tuple) -> tuple:
    """ug' = L^-T B' and uu' from B' B^T, where a prime marks a cotangent."""
    del base
    inverse, basis, relative = saved
    in_basis, in_jitter = cotangents
    num_columns = basis.shape[1]
    phi = lower_half(in_basis @ basis.T)
    both = transposed_product(inverse, jnp.concatenate([in_basis, phi], axis=1))
    in_uu = through_factor(both[:, num_columns:], inverse, relative, in_jitter)
    return in_uu, both[:, :num_columns]


_whitened.defvjp(_whitened_forward, _whitened_backward)


def inverse_factor(
    uu: Float[Array, "M M"], base: float
) -> tuple[Float[Array, "M M"], Scalar]:
    """L^-1 of the jittered factor of `uu`, and the jitter."""
    lower, jitter = jittered_cholesky(uu, base)
    return inverse_lower(lower), jitter


def through_factor(
    upper: Float[Array, "M M"],
    inverse: Float[Array, "M M"],
    relative: Scalar,
    in_jitter: Scalar | float = 0.0,
) -> Float[Array, "M M"]:
    """The cotangent of K from that of B = L^-1 C: -L^-T Phi(B' B^T) L^-1, of which
    `upper` is L^-T Phi(B' B^T).

    This follows from L' = -tril(C' B^T) and the rule K' = L^-T Phi(L^T L') L^-1: the
    upper half that tril drops stays upper under L^T, so Phi ignores it.
    """
    in_uu, size = -upper @ inverse, len(inverse)
    # The jitter is `relative` times the mean of the diagonal.
    through_jitter = relative * (jnp.trace(in_uu) + in_jitter) / size
    return in_uu + through_jitter * jnp.eye(size, dtype=inverse.dtype)
