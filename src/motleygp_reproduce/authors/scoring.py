"""The scores of the published code: predictive log densities by Monte Carlo.

p(y* | y) is the average of p(y* | f) over draws of f from q(f) at one theta, the
functions of an output drawn independently. For the Gaussian output, p(y* | f) is
N(y* | f, 1), whatever its noise is.
"""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.special as jss
from jaxtyping import Array, Float

from motleygp._types import RandomKey
from motleygp.numerics.compiled import compiled
from motleygp_reproduce.authors.bound import Q, at, marginals
from motleygp_reproduce.authors.covariances import Theta
from motleygp_reproduce.authors.expected import Group, groups
from motleygp_reproduce.authors.preparation import Batch
from motleygp_reproduce.authors.schemes import Spec

# The rows whose draws are held at a time.
_CHUNK_ROWS = 256


@compiled
def nlpd(
    spec: Spec, theta: Theta, q: Q, test: Batch, key: RandomKey
) -> Float[Array, " D"]:
    """Minus the mean log predictive density of every output."""
    mean, var = marginals(at(theta, test, spec.outputs), q, spec.outputs)
    found = jnp.zeros(len(spec.outputs.kinds))
    for k, group in enumerate(groups(spec.outputs)):
        held = test.weight[group.places] > 0.0
        values = _log_predictive(
            group,
            test.y[group.places].ravel(),
            mean[group.functions].reshape(len(group.functions), -1),
            var[group.functions].reshape(len(group.functions), -1),
            jr.fold_in(key, k),
            spec.settings.num_samples,
        ).reshape(held.shape)
        total = jnp.sum(jnp.where(held, values, 0.0), axis=1)
        found = found.at[group.places].set(-total / jnp.sum(held, axis=1))
    return found


def _log_predictive(
    group: Group,
    y: Float[Array, " N"],
    mean: Float[Array, "L N"],
    var: Float[Array, "L N"],
    key: RandomKey,
    num_samples: int,
) -> Float[Array, " N"]:
    """log 1/S sum_s p(y | f_s), some rows at a time."""
    number = y.shape[0]
    num_chunks = -(-number // _CHUNK_ROWS)
    extra = num_chunks * _CHUNK_ROWS - number

    def chunks(a: Float[Array, "*L N"]) -> Float[Array, "C *L R"]:
        padded = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, extra)], mode="edge")
        return jnp.moveaxis(padded.reshape(*a.shape[:-1], num_chunks, -1), -2, 0)

    def of_chunk(chunk: tuple) -> Float[Array, " R"]:
        y, mean, var, key = chunk
        noise = jr.normal(key, (*mean.shape, num_samples))
        f = mean[..., None] + jnp.sqrt(var)[..., None] * noise
        return jss.logsumexp(group.kind.log_density(y[:, None], f), axis=-1)

    keys = jr.split(key, num_chunks)
    values = jax.lax.map(of_chunk, (chunks(y), chunks(mean), chunks(var), keys))
    return values.ravel()[:number] - math.log(num_samples)
