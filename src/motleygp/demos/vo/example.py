"""The paper's example: the function g, its minima, and the settings of the runs."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from motleygp import optim

START_MEAN, START_STD = -3.0, 3.0
PRIOR_PRECISION = 1.5
# The minima of g, and how far from a minimum a run may end to be counted there.
MINIMA = (-4.499, -3.114, -1.730, -0.346)
REACH = 0.2
# The end of the run with exact expectations and the KL term. A sampled run agrees with
# it when it ends within the tolerance.
PENALISED, TOLERANCE = -0.331, 0.03

_WIDTH, _RATE = 0.09, 4.5

Curvature = Literal["gauss-newton", "hessian"]


class Setting(NamedTuple):
    """One way to run the example: the steps of mu and of sigma^-2, and lambda."""

    name: str
    step: float
    precision_step: float
    prior_precision: float | None
    curvature: Curvature = "gauss-newton"

    def optimiser(self) -> optim.FullVariational:
        """The library's optimiser with these settings."""
        return optim.FullVariational(
            self.step,
            precision_step=self.precision_step,
            prior_precision=self.prior_precision,
            initial_precision=1.0 / START_STD**2,
        )


NO_KL = Setting("no KL", 1.0, 0.1, None)
KL = Setting("KL", 0.1, 0.01, PRIOR_PRECISION)
EQUAL_STEPS = Setting("KL, equal steps", 0.1, 0.1, PRIOR_PRECISION)
NO_KL_HESSIAN = NO_KL._replace(curvature="hessian")
KL_HESSIAN = KL._replace(curvature="hessian")
SAMPLED = (NO_KL, KL, NO_KL_HESSIAN, KL_HESSIAN)
EXACT = (NO_KL, KL, EQUAL_STEPS, NO_KL_HESSIAN, KL_HESSIAN)


@jax.jit
def objective(theta: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """g(theta) = 2 exp(-0.09 theta^2) sin(4.5 theta)."""
    return 2.0 * jnp.exp(-_WIDTH * theta**2) * jnp.sin(_RATE * theta)


@jax.jit
def expected(mean: Float[Array, "*N"], var: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """E_q[g] for q = N(mean, var), in closed form.

    The integrand is a Gaussian times a Gaussian times exp(i b theta). With
    c = 1 + 2 a var the integral is
    2 c^-1/2 exp(-(a mean^2 + b^2 var / 2) / c) sin(b mean / c).
    """
    c = 1.0 + 2.0 * _WIDTH * var
    damping = jnp.exp(-(_WIDTH * mean**2 + 0.5 * _RATE**2 * var) / c)
    return 2.0 / jnp.sqrt(c) * damping * jnp.sin(_RATE * mean / c)
