"""Programs for likelihoods whose density is written in JAX alone: what the base class
answers by quadrature. Each compiles once for outputs of one kind."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from motleygp.numerics.compiled import compiled
from motleygp.numerics.log_integrals import log_expect_exp
from motleygp.numerics.quadrature import expect_tensor

# Nodes for prediction, where time matters less, by the number of functions.
_MOMENT_NODES = {1: 64, 2: 32}


def stack(f: tuple[Array, ...]) -> Array:
    return jnp.stack(jnp.broadcast_arrays(*f))


# For a few calls on few numbers.
log_prob = compiled(lambda lik, y, f: lik.log_prob(y, f)).quick
mean_slope = compiled(lambda lik, f: jax.jacobian(lik.conditional_mean)(f)).quick


@compiled
def moments(
    likelihood: Any, mean: Float[Array, "L *N"], var: Float[Array, "V *N"]
) -> tuple[Array, Array]:
    """E[y] and var[y] = E[var[y | f]] + var[E[y | f]]."""

    def expectation(fn: Callable[[Array], Array]) -> Array:
        nodes = _MOMENT_NODES[likelihood.num_functions]
        return expect_tensor(lambda *f: fn(stack(f)), mean, var, nodes)

    first = expectation(likelihood.conditional_mean)
    centre = first.reshape(first.shape + (1,) * likelihood.num_functions)
    within = expectation(likelihood.conditional_variance)
    between = expectation(lambda f: (likelihood.conditional_mean(f) - centre) ** 2)
    return first, within + between


@compiled
def log_predictive(
    likelihood: Any,
    y: Float[Array, "*N"],
    mean: Float[Array, "L *N"],
    var: Float[Array, "V *N"],
) -> Float[Array, "*N"]:
    """log E[p(y | f)]."""

    def log_prob(*f: Array) -> Array:
        extra = f[0].ndim - y.ndim
        return likelihood.log_prob(y.reshape(y.shape + (1,) * extra), stack(f))

    return log_expect_exp(log_prob, mean, var)


@compiled
def constant_loss_and_gradient(
    likelihood: Any, f: Array, y: Array, share: Array
) -> tuple[Array, Array]:
    """Minus the average of log p(y_n | f), of shares that sum to 1."""

    def mean_nll(f: Array) -> Array:
        constant = jnp.broadcast_to(f[:, None], (f.shape[0], *y.shape))
        return -jnp.sum(share * likelihood.log_prob(y, constant))

    return jax.value_and_grad(mean_nll)(f)
