"""q(u) by any optax optimiser, on its mean and its covariance's Cholesky factor."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from motleygp._types import Scalar
from motleygp.inference.objective import NaturalTerms
from motleygp.inference.posterior import Posterior, from_factor
from motleygp.numerics.linalg import cholesky
from motleygp.optim._natgrad import NatGradInfo, NaturalGradient


class FactorState(NamedTuple):
    """The lower factors C of V = C C^T, and the optimiser's own state."""

    factor: Float[Array, "G M M"]
    inner: Any


def factor_descent(optimiser: optax.GradientTransformation) -> NaturalGradient:
    """Descent on (m, C) with V = C C^T, F being minus the bound:

    dF/dC = 2 dF/dV C = (T - V^-1) C = T C - C^-T, its lower half, T the target.
    """

    def init(q: Posterior) -> FactorState:
        factor = jnp.stack([cholesky(cov) for cov in q.cov()])
        return FactorState(factor, optimiser.init((q.mean, factor)))

    def update(
        terms: NaturalTerms,
        state: FactorState,
        q: Posterior,
        pace: Scalar | float = 1.0,
    ) -> tuple[Posterior, FactorState, NatGradInfo]:
        factor = state.factor
        diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
        # The lower half of C^-T is its diagonal.
        log_det = jnp.eye(factor.shape[-1]) / diagonal[:, None, :]
        in_factor = jnp.tril(terms.target @ factor) - log_det
        moves, inner = optimiser.update(
            (terms.gradient, in_factor), state.inner, (q.mean, factor)
        )
        mean, factor = jax.tree.map(
            lambda a, move: a + pace * move, (q.mean, factor), moves
        )
        return from_factor(mean, factor), FactorState(factor, inner), _info(pace)

    return NaturalGradient(init, update)


def _info(pace: Scalar | float) -> NatGradInfo:
    """Nothing guards these steps, so there is nothing to count."""
    none: Int[Array, ""] = jnp.zeros((), int)
    return NatGradInfo(
        step_size=jnp.asarray(pace, float),
        shrinks=none,
        refused=none,
        overshot=jnp.zeros((), bool),
        divergence=jnp.zeros(()),
    )
