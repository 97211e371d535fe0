"""Variational optimisation with a full covariance, for small problems."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer
from jax.custom_batching import sequential_vmap
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.numerics.linalg import cholesky, inverse_lower
from motleygp.optim import _checks
from motleygp.optim._schedules import Rate, rates
from motleygp.optim._theta import (
    AbstractThetaOptimiser,
    PriorMean,
    ThetaState,
    as_floats,
    centre_of,
    first_state,
    next_state,
)


class GaussianGradients(NamedTuple):
    """The gradients of E_q[loss] in the mean and the covariance of q.

    `mean` is a tree like theta; `cov` is for the leaves of theta, laid end to end.
    """

    mean: PyTree
    cov: Float[Array, "D D"]


class Full(NamedTuple):
    """The spread of q(theta) = N(mean, precision^-1), and a count of refused steps.

    `half` is the inverse of the precision's lower factor, so Sigma = half^T half.
    `refused` counts the steps that were not taken in full: see `FullVariational`.
    """

    precision: Float[Array, "D D"]
    half: Float[Array, "D D"]
    refused: Int[Array, ""]

    @property
    def cov(self) -> Float[Array, "D D"]:
        """Sigma."""
        return self.half.T @ self.half


class FullVariational(AbstractThetaOptimiser):
    """Mirror descent on q(theta) = N(mu, Sigma) with F = E_q[loss] + KL[q || p].

        Sigma'^-1 = Sigma^-1 + 2 alpha_Sigma dF/dSigma
        mu' = mu - alpha_mu Sigma' dF/dmu + gamma Sigma' Sigma^-1 (mu - mu_previous)

    The KL from p = N(c, I / lambda) adds lambda (mu - c) to dF/dmu and
    1/2 (lambda I - Sigma^-1) to dF/dSigma. `update` takes the gradients of E_q[loss]
    as `GaussianGradients`: exact if they are known, otherwise estimates from draws by
    `gauss_newton` or `exact_hessian`.

    Negative curvature can carry the precision out of the positive-definite cone. Then
    the precision keeps its old value, with which the mean moves, and
    `state.inner.refused` grows by one. A step whose gradients are not finite leaves q
    unchanged and is counted too.

    **Arguments:**

    - `step_size`, `momentum`: alpha_mu and gamma, numbers or schedules.
    - `precision_step`: alpha_Sigma; alpha_mu by default.
    - `prior_precision`: lambda; `None` leaves the KL out, and 0 is a flat prior, which
      keeps the entropy of q in the objective.
    - `prior_mean`: c, "zero", or "initial" for the theta passed to `init`.
    - `initial_precision`: Sigma^-1 at the start, a matrix, or a number that scales I.
    """

    name: ClassVar[str] = "full_variational"

    step_size: Rate
    momentum: Rate = 0.0
    precision_step: Rate | None = None
    prior_precision: float | None = 1.0
    prior_mean: PriorMean = "zero"
    initial_precision: float | Float[Array, "D D"] = 1.0

    def __check_init__(self) -> None:
        _checks.check_positive("step_size", self.step_size)
        _checks.check_not_negative("precision_step", self.precision_step)
        _checks.check_momentum(self.momentum)
        _checks.check_not_negative("prior_precision", self.prior_precision)
        _checks.check_prior_mean(self.prior_mean)
        _checks.check_positive("initial_precision", self.initial_precision)

    def init(self, theta: PyTree) -> ThetaState:
        theta = as_floats(theta)
        size = ravel_pytree(theta)[0].size
        precision = _matrix(self.initial_precision, size)
        inner = Full(precision, _inverse_factor(precision), jnp.zeros((), int))
        return first_state(theta, centre_of(theta, self.prior_mean), inner)

    def cost(self, state: ThetaState, theta: PyTree) -> Scalar:
        """lambda / 2 |theta - c|^2."""
        away = ravel_pytree(theta)[0] - ravel_pytree(state.centre)[0]
        return 0.5 * (self.prior_precision or 0.0) * jnp.sum(away**2)

    def sample(self, key: RandomKey, state: ThetaState, num_samples: int = 1) -> PyTree:
        _checks.check_positive("num_samples", num_samples)
        mean, unravel = ravel_pytree(state.mean)
        noise = jr.normal(key, (num_samples, mean.size), mean.dtype)
        return jax.vmap(unravel)(mean + noise @ state.inner.half)

    def update(
        self,
        gradients: GaussianGradients,
        state: ThetaState,
        pace: Scalar | float = 1.0,
    ) -> ThetaState:
        alpha, rho, gamma = rates(self, state.num_steps)
        mean, unravel = ravel_pytree(state.mean)
        old: Full = state.inner
        travelled = mean - ravel_pytree(state.previous)[0]
        in_mean, in_cov = ravel_pytree(gradients.mean)[0], gradients.cov
        if self.prior_precision is not None:
            lam = self.prior_precision
            in_mean = in_mean + lam * (mean - ravel_pytree(state.centre)[0])
            in_cov = in_cov + 0.5 * (lam * jnp.eye(mean.size) - old.precision)

        # Rounding must not make the precision drift away from symmetry.
        wanted = old.precision + rho * (in_cov + in_cov.T)
        half = _inverse_factor(wanted)
        inside = jnp.all(jnp.isfinite(half))
        precision = jnp.where(inside, wanted, old.precision)
        half = jnp.where(inside, half, old.half)

        push = gamma * (old.precision @ travelled) - pace * alpha * in_mean
        moved = mean + state.length * ((half @ push) @ half)
        finite = jnp.all(jnp.isfinite(moved)) & jnp.all(jnp.isfinite(in_cov))
        inner = Full(
            jnp.where(finite, precision, old.precision),
            jnp.where(finite, half, old.half),
            old.refused + ~(inside & finite),
        )
        return next_state(state, unravel(jnp.where(finite, moved, mean)), inner)


def gauss_newton(gradients: PyTree) -> GaussianGradients:
    """E[g] and 1/2 E[g g^T], from the loss's gradients at draws from q(theta).

    The Gauss-Newton curvature takes the place of the Hessian. It is never negative, but
    it does not estimate the Hessian: even with exact expectations the two differ.

    **Arguments:**

    - `gradients`: a tree like theta with the draws on a leading axis, such as
      `jax.vmap(jax.grad(loss))(draws)`.
    """
    flat = _stacked(gradients)
    return GaussianGradients(_means(gradients), 0.5 * (flat.T @ flat) / flat.shape[0])


def exact_hessian(gradients: PyTree, hessians: PyTree) -> GaussianGradients:
    """E[g] and 1/2 E[H], from the gradients and Hessians at draws from q(theta).

    Both are unbiased (the theorems of Bonnet and Price), but the curvature may have any
    sign.

    **Arguments:**

    - `gradients`: as in `gauss_newton`.
    - `hessians`: a tree of trees, such as `jax.vmap(jax.hessian(loss))(draws)`.
    """
    leaves = jax.tree.leaves(gradients)
    sizes = [leaf[0].size for leaf in leaves]
    blocks = iter(jax.tree.leaves(hessians))
    rows = [[jnp.mean(next(blocks), 0).reshape(n, m) for m in sizes] for n in sizes]
    return GaussianGradients(_means(gradients), 0.5 * jnp.block(rows))


def _matrix(value: Any, size: int) -> Float[Array, "D D"]:
    """The initial precision, refused unless it is symmetric positive definite."""
    precision = jnp.asarray(value, dtype=float)
    if precision.ndim == 0:
        precision = precision * jnp.eye(size)
    if precision.shape != (size, size):
        raise ValueError(
            f"`initial_precision` must be a number or {size} x {size}, as theta has "
            f"{size} entries; got shape {precision.shape}."
        )
    if isinstance(precision, Tracer):
        return precision
    known = np.asarray(precision)
    if not (np.allclose(known, known.T) and np.linalg.eigvalsh(known).min() > 0.0):
        raise ValueError("`initial_precision` must be symmetric positive definite.")
    return precision


def _means(stacked: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), stacked)


def _stacked(tree: PyTree) -> Float[Array, "S D"]:
    leaves = jax.tree.leaves(tree)
    return jnp.concatenate([jnp.reshape(a, (a.shape[0], -1)) for a in leaves], axis=1)


def _inverse_factor(precision: Float[Array, "D D"]) -> Float[Array, "D D"]:
    """L^-1 with L L^T the precision; not finite where it is not positive definite."""
    if precision.shape[0] == 1:
        return 1.0 / jnp.sqrt(precision)
    return _one_at_a_time(precision)


@sequential_vmap
def _one_at_a_time(precision: Any) -> Any:
    # Even under vmap: a batch of LAPACK calls can deadlock a CPU (see `linalg`).
    return inverse_lower(cholesky(precision))
