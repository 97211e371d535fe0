"""theta, and the covariances of the two priors as functions of it.

Both have groups of inducing values: the latent processes of the linear model, and the
parameter functions of the convolution prior. All kernels have unit variance. The
convolution prior adds length-scales, l_q + 2 nu_j, where squared ones would add, and
both weights of a covariance are those of the same function: cov[f_j, f_j] =
sum_q W_jq^2 k(.; l_q + 2 nu_j).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motleygp.kernels import EQ
from motleygp_reproduce.authors.preparation import Outputs

# What the code adds to the diagonal of the linear model's covariances.
JITTER = 1e-6
# Beyond it, the code takes log(1 + exp(x)) for x.
_LINEAR = 36.0


class Theta(NamedTuple):
    """The parameters as the optimisers move them; `lengthscale` and `smoothing` hold x
    of log(1 + exp(x)). Without `smoothing` the prior is the linear model."""

    inducing: Float[Array, "G M P"]
    lengthscale: Float[Array, "Q P"]
    weights: Float[Array, "J Q"]
    smoothing: Float[Array, "J P"] | None


class Covariances(NamedTuple):
    """Of one group, or of all: K_uu, K_uf and the diagonal of K_ff at its rows."""

    uu: Float[Array, "*G M M"]
    uf: Float[Array, "*G M R"]
    diagonal: Float[Array, "*G R"]


def positive(x: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """log(1 + exp(x))."""
    return jnp.where(x > _LINEAR, x, jnp.log1p(jnp.exp(jnp.minimum(x, _LINEAR))))


def unconstrained(value: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
    """The inverse of `positive`, in NumPy."""
    return np.where(value > _LINEAR, value, np.log(np.expm1(value)))


def covariances(
    theta: Theta, x: Float[Array, "D B P"], outputs: Outputs
) -> Covariances:
    """The covariances of every group: at the rows of all outputs, one after another, in
    the linear model; at the rows of the function's own output in the other."""
    if theta.smoothing is None:
        return _of_latents(theta, x.reshape(-1, x.shape[-1]))
    return _of_functions(theta, x[outputs.owners])


def _of_latents(theta: Theta, x: Float[Array, "R P"]) -> Covariances:
    def of_one(z: Array, lengthscale: Array) -> Covariances:
        kernel = EQ(lengthscale)
        uu = kernel(z, z) + JITTER * jnp.eye(len(z))
        return Covariances(uu, kernel(z, x), kernel.diagonal(x))

    return jax.vmap(of_one)(theta.inducing, positive(theta.lengthscale))


def _of_functions(theta: Theta, x: Float[Array, "J B P"]) -> Covariances:
    assert theta.smoothing is not None
    lengthscale = positive(theta.lengthscale)

    def of_one(z: Array, w: Array, nu: Array, x: Array) -> Covariances:
        def of_latent(w: Array, lengthscale: Array) -> Covariances:
            kernel = EQ(lengthscale + 2.0 * nu)
            values = kernel(z, z), kernel(z, x), kernel.diagonal(x)
            return Covariances(*(w**2 * value for value in values))

        each = jax.vmap(of_latent)(w, lengthscale)
        return Covariances(*(jnp.sum(value, axis=0) for value in each))

    nu = positive(theta.smoothing)
    return jax.vmap(of_one)(theta.inducing, theta.weights, nu, x)


def mixed(
    theta: Theta,
    outputs: Outputs,
    mean: Float[Array, "G R"],
    var: Float[Array, "G R"],
) -> tuple[Float[Array, "J B"], Float[Array, "J B"]]:
    """The means and variances of the parameter functions at their output's rows: those
    of the groups, which the linear model mixes by its weights."""
    if theta.smoothing is not None:
        return mean, var
    num_outputs, owners = len(outputs.counts), outputs.owners
    by_output = (a.reshape(len(a), num_outputs, -1)[:, owners] for a in (mean, var))
    mean, var = by_output
    first = jnp.einsum("jq,qjb->jb", theta.weights, mean)
    return first, jnp.einsum("jq,qjb->jb", theta.weights**2, var)
