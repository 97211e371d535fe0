"""The start of a run, drawn in the order of the published code.

Its stream of random numbers is that of NumPy's `RandomState`, so a seed gives the
start that the code has with the seed, on the same rows.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from motleygp_reproduce.authors.bound import Q
from motleygp_reproduce.authors.covariances import Theta, unconstrained
from motleygp_reproduce.authors.preparation import Prepared
from motleygp_reproduce.authors.settings import Settings

# The least length-scale, in units of its factor and of sqrt(P).
_LEAST = 0.001
_MEAN_SCALE = 0.2
# L of q(u), times the identity.
_LOWER = {False: 1.0, True: 3.0}


class Start(NamedTuple):
    """theta and q(u) before the first iteration, and the stream behind them."""

    theta: Theta
    q: Q
    rng: np.random.RandomState


def start(data: Prepared, settings: Settings, seed: int) -> Start:
    """The start of a seed.

    Length-scales c sqrt(P) (U + 0.001), the same along all inputs; smoothing
    length-scales c' sqrt(P) U U'; weights N(0, 1); means 0.2 (N(0, 1) + one N(0, 1) per
    group); covariances I, or 9 I with the convolution prior.
    """
    num_inputs, num_functions = len(data.low), data.outputs.num_functions
    num_latents, size = settings.num_latents, settings.num_inducing
    convolved = settings.convolved
    num_groups = num_functions if convolved else num_latents
    grid = _grid(np.random.RandomState(seed), data, size)
    rng, root = np.random.RandomState(seed), np.sqrt(num_inputs)
    lengthscale = root * settings.lengthscale_factor * (rng.rand(num_latents) + _LEAST)
    smoothing = None
    if convolved:
        drawn = rng.rand(num_functions) * rng.rand(num_functions)
        smoothing = _along_inputs(root * settings.smoothing_factor * drawn, num_inputs)
    _skip_first_weights(rng, num_latents, num_functions)
    own = rng.randn(size, num_groups)
    mean = _MEAN_SCALE * (own + rng.randn(1, num_groups)).T
    weights = np.stack([rng.randn(num_functions) for _ in range(num_latents)], axis=1)
    theta = Theta(
        jnp.tile(jnp.asarray(grid), (num_groups, 1, 1)),
        _along_inputs(lengthscale, num_inputs),
        jnp.asarray(weights),
        smoothing,
    )
    lower = jnp.tile(_LOWER[convolved] * jnp.eye(size), (num_groups, 1, 1))
    return Start(theta, Q(jnp.asarray(mean), lower), rng)


def literal_noise(rng: np.random.RandomState, theta: Theta, length: int) -> Theta:
    """The noise of theta in the code's next iterations, along a leading axis.

    The code's order: inducing points row by row, those of all groups side by side; the
    length-scales, process by process; the weights of each process; the smoothing
    length-scales, function by function.
    """
    (G, M, P), (J, Q) = theta.inducing.shape, theta.weights.shape
    sizes = [M * G * P, Q * P, Q * J, 0 if theta.smoothing is None else J * P]
    noise = rng.randn(length, sum(sizes))
    inducing, lengthscale, weights, smoothing = np.split(
        noise, np.cumsum(sizes)[:-1], axis=1
    )
    return Theta(
        jnp.asarray(inducing.reshape(length, M, G, P).transpose(0, 2, 1, 3)),
        jnp.asarray(lengthscale.reshape(length, Q, P)),
        jnp.asarray(weights.reshape(length, Q, J).transpose(0, 2, 1)),
        None if not sizes[3] else jnp.asarray(smoothing.reshape(length, J, P)),
    )


def _grid(
    rng: np.random.RandomState, data: Prepared, size: int
) -> Float[np.ndarray, "M P"]:
    """An even grid along each input, in random order along all but the first."""
    columns = [
        np.linspace(low, high, size)
        for low, high in zip(data.low, data.high, strict=True)
    ]
    rest = [column[rng.permutation(size)] for column in columns[1:]]
    return np.stack([columns[0], *rest], axis=1)


def _along_inputs(values: Float[np.ndarray, " N"], num_inputs: int) -> jnp.ndarray:
    """One length-scale for each input, unconstrained."""
    return jnp.asarray(np.tile(unconstrained(values)[:, None], (1, num_inputs)))


def _skip_first_weights(
    rng: np.random.RandomState, num_latents: int, num_functions: int
) -> None:
    """The code draws weights near +-0.5, and replaces them before it trains."""
    for _ in range(num_latents):
        rng.binomial(n=1, p=0.5 * np.ones((num_functions, 1)))
        rng.normal(loc=0.5, scale=0.5, size=(num_functions, 1))
        rng.normal(loc=-0.5, scale=0.5, size=(num_functions, 1))
