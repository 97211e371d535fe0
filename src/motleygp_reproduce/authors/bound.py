"""The bound of the published code, and what it takes for the bound's gradients.

With A = K_fu K_uu^-1 and q(u) = N(m, S), unwhitened, a function has the mean A m and
the variance k_ff + diag(A (S - K_uu) A^T). The gradients in the covariances are written
out and pulled back through the kernels, as the code does it: it never differentiates a
factorisation or the clipped terms of the likelihoods.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from motleygp._types import Scalar
from motleygp.numerics import linalg
from motleygp_reproduce.authors.covariances import (
    Covariances,
    Theta,
    covariances,
    mixed,
)
from motleygp_reproduce.authors.expected import expected, slopes
from motleygp_reproduce.authors.preparation import Batch, Outputs

# The convolution prior adds this to S in the variances, and not in the gradients.
_VARIANCE_JITTER = 1e-6
# Where a factorisation fails, this times the mean of the diagonal is added, then ten
# times as much, up to ten times.
_FIRST_JITTER, _MOST_TRIES = 1e-6, 10


class Q(NamedTuple):
    """q(u) = N(m, L L^T) of every group."""

    mean: Float[Array, "*G M"]
    lower: Float[Array, "*G M M"]


class Projection(NamedTuple):
    """K_uu^-1 K_uf, K_uu^-1 and log |K_uu| / 2 of every group."""

    basis: Float[Array, "*G M R"]
    inverse: Float[Array, "*G M M"]
    half_log_det: Float[Array, "*G"]


class Gradients(NamedTuple):
    """Of minus the bound, in theta and in the means and covariances of q(u)."""

    theta: Theta
    mean: Float[Array, "G M"]
    covariance: Float[Array, "G M M"]


class Point(NamedTuple):
    """One theta at the rows of one minibatch, whatever q(u) is."""

    theta: Theta
    covariances: Covariances
    projection: Projection


def at(theta: Theta, batch: Batch, outputs: Outputs) -> Point:
    """The covariances and projections of theta at the rows of a minibatch."""
    found = covariances(theta, batch.x, outputs)
    convolved = theta.smoothing is not None

    def project(uu: Array, uf: Array) -> Projection:
        lower = tried_cholesky(uu)
        half = linalg.inverse_lower(lower)
        if convolved:  # with the matrix that has no jitter
            basis = jnp.linalg.solve(uu, uf)
        else:
            basis = linalg.transposed_product(half, half @ uf)
        log_diagonal = jnp.log(jnp.abs(jnp.diagonal(lower)))
        inverse = linalg.transposed_product(half, half)
        return Projection(basis, inverse, jnp.sum(log_diagonal))

    return Point(theta, found, linalg.over_groups(project, found.uu, found.uf))


def tried_cholesky(matrix: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """The factor of a matrix, with jitter where it has none without."""
    identity = jnp.eye(matrix.shape[-1])
    scale = _FIRST_JITTER * jnp.mean(jnp.diagonal(matrix))

    def failed(carry: tuple[Array, Array]) -> Array:
        number, lower = carry
        return (number <= _MOST_TRIES) & ~jnp.isfinite(lower[-1, -1])

    def another(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        number, _ = carry
        jitter = jnp.where(number == 0, 0.0, scale * 10.0 ** (number - 1))
        return number + 1, linalg.cholesky(matrix + jitter * identity)

    untried = jnp.zeros((), int), jnp.full_like(matrix, jnp.nan)
    return jax.lax.while_loop(failed, another, untried)[1]


def inverse_of(lower: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """(L L^T)^-1."""
    inverse = linalg.inverse_lower(lower)
    return linalg.transposed_product(inverse, inverse)


def marginals(
    point: Point, q: Q, outputs: Outputs
) -> tuple[Float[Array, "J B"], Float[Array, "J B"]]:
    """The means and variances of the parameter functions at the rows of a point."""
    return mixed(point.theta, outputs, *_moments(point, q))


def _moments(point: Point, q: Q) -> tuple[Float[Array, "G R"], Float[Array, "G R"]]:
    """Those of every group."""
    basis, found = point.projection.basis, point.covariances
    mean = jnp.einsum("gmr,gm->gr", basis, q.mean)
    spread = jnp.einsum("gmk,gmr->gkr", q.lower, basis)
    var = (
        found.diagonal + jnp.sum(spread**2, axis=1) - jnp.sum(basis * found.uf, axis=1)
    )
    if point.theta.smoothing is not None:
        var += _VARIANCE_JITTER * jnp.sum(basis**2, axis=1)
    return mean, var


def negative_bound(point: Point, q: Q, batch: Batch, outputs: Outputs) -> Scalar:
    """-E[log p(y | f)], scaled to all rows, + KL(q(u) || p(u))."""
    terms = expected(outputs, batch, *marginals(point, q, outputs))
    return divergence(point.projection, q) - terms


def divergence(projection: Projection, q: Q) -> Scalar:
    """sum_g 1/2 (tr K^-1 S + m^T K^-1 m - M) + log |K|^(1/2) - log |S|^(1/2)."""
    covariance = q.lower @ q.lower.transpose(0, 2, 1)
    trace = jnp.sum(projection.inverse * covariance)
    square = jnp.einsum("gm,gmk,gk->", q.mean, projection.inverse, q.mean)
    diagonal = jnp.diagonal(q.lower, axis1=1, axis2=2)
    log_dets = jnp.sum(projection.half_log_det) - jnp.sum(jnp.log(jnp.abs(diagonal)))
    return 0.5 * (trace + square - q.mean.size) + log_dets


def gradients(point: Point, q: Q, batch: Batch, outputs: Outputs) -> Gradients:
    """What the code follows, at one theta and one minibatch."""

    def mix(weights: Array, mean: Array, var: Array) -> tuple[Array, Array]:
        return mixed(point.theta._replace(weights=weights), outputs, mean, var)

    (mean, var), unmix = jax.vjp(mix, point.theta.weights, *_moments(point, q))
    in_weights, in_mean, in_var = unmix(slopes(outputs, batch, mean, var))
    pulled, of_mean, of_covariance = linalg.over_groups(
        _of_group, point.projection, q, in_mean, in_var
    )
    _, pull = jax.vjp(lambda t: covariances(t, batch.x, outputs), point.theta)
    (theta,) = pull(pulled)
    theta = theta._replace(weights=theta.weights + in_weights)
    minus = jax.tree.map(jnp.negative, (theta, of_mean, of_covariance))
    return Gradients(*minus)


def _of_group(
    projection: Projection, q: Q, c: Float[Array, " R"], e: Float[Array, " R"]
) -> tuple[Covariances, Float[Array, " M"], Float[Array, "M M"]]:
    """The gradients of the bound in the covariances, m and S of one group.

    c and e are those of the likelihood terms in the group's means and variances.

    With R = K^-1 K_uf, a = K^-1 m and E = R diag(e) R^T: in m, R c - a; in S,
    E - (K^-1 - S^-1) / 2; in K_uf, a c^T + 2 (K^-1 S - I) R diag(e); in K, the
    symmetric part of E - 2 E S K^-1 - R c a^T, less that of the KL term,
    (K^-1 - K^-1 S K^-1 - a a^T) / 2.
    """
    basis, inverse = projection.basis, projection.inverse
    covariance = q.lower @ q.lower.T
    a, pushed = inverse @ q.mean, basis @ c
    weighted = basis * e
    curved = weighted @ basis.T
    of_covariance = curved - 0.5 * (inverse - inverse_of(q.lower))
    relative = inverse @ covariance
    crossed = curved @ relative.T
    of_uu = curved - crossed - crossed.T - jnp.outer(pushed, a)
    of_divergence = 0.5 * (inverse - relative @ inverse - jnp.outer(a, a))
    of_uf = jnp.outer(a, c) + 2.0 * (relative @ weighted - weighted)
    pulled = Covariances(0.5 * (of_uu + of_uu.T) - of_divergence, of_uf, e)
    return pulled, pushed - a, of_covariance
