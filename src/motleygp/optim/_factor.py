"""Optax optimisers of q(u), on its mean and the Cholesky factor of its covariance."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from motleygp._types import Scalar
from motleygp.inference.posterior import NaturalTerms, Posterior, from_factor
from motleygp.numerics.linalg import cholesky
from motleygp.optim._descents import Descent
from motleygp.optim._q import AbstractQOptimiser, Pace, QInfo


class FactorState(NamedTuple):
    """The lower factors C of V = C C^T, and optax's own state."""

    factor: Float[Array, "K S S"]
    inner: Any


class FactorDescent(AbstractQOptimiser):
    """Descent on (m, C) with V = C C^T, by the lower half of the gradient

        dF/dC = 2 dF/dV C = (T - V^-1) C = T C - C^-T,

    where F is minus the bound and T is the target of `NaturalTerms`.

    **Arguments:**

    - `descent`: the optimiser, such as `descent("adam", 0.01)`.
    """

    name: ClassVar[str] = "factor_descent"

    descent: Descent

    def init(self, q: Posterior) -> FactorState:
        factor = jnp.stack([cholesky(cov) for cov in q.cov()])
        inner = self.descent.transformation().init((q.mean, factor))
        return FactorState(factor, inner)

    def update(
        self, terms: NaturalTerms, state: FactorState, q: Posterior, pace: Pace = 1.0
    ) -> tuple[Posterior, FactorState, QInfo]:
        factor = state.factor
        diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
        # The lower half of C^-T is its diagonal.
        log_det = jnp.eye(factor.shape[-1]) / diagonal[:, None, :]
        in_factor = jnp.tril(terms.target @ factor) - log_det
        moves, inner = self.descent.transformation().update(
            (terms.gradient, in_factor), state.inner, (q.mean, factor)
        )
        mean, factor = jax.tree.map(
            lambda a, move: a + pace * move, (q.mean, factor), moves
        )
        return from_factor(mean, factor), FactorState(factor, inner), _info(pace)


def _info(pace: Scalar | float) -> QInfo:
    """A report without counts: no guard limits these steps."""
    none: Int[Array, ""] = jnp.zeros((), int)
    return QInfo(
        step_size=jnp.asarray(pace, float),
        shrinks=none,
        refused=none,
        overshot=jnp.zeros((), bool),
        divergence=jnp.zeros(()),
    )
