"""The posterior of theta by Laplace's method, and draws from it.

Let L*(theta) be the bound at the best q(u) for theta; it stands for the log evidence.
Around the learned mu, with p(theta) = N(mu, I),

    q(theta) = N(mu, (H + I)^-1),    H = - d^2 L* / d theta d theta^T at mu,

where eigenvalues of H below 0 count by their size: training ended beside a maximum, and
a draw stays where L* changes little. The curvature at a fixed q(u) would be far larger,
because q(u) fits the data under mu and under no other theta. The gradient of L* is that
of the bound at the best q(u), so that differences of gradients give H.

theta has the logarithms of length-scales and of the noise, weights and offsets, as far
as they are learned. The inducing points stay: they belong to q(u), not to the model.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from motleygp.files.trees import not_finite
from motleygp.inference.data import Dataset
from motleygp.inference.model import Model, trainable, with_fixed
from motleygp.inference.posterior import Posterior
from motleygp.training.settled import settle

# The move of one parameter for a difference of gradients.
_MOVE = 2e-2
# q(u) is the best one when a step changes it by less than this, in nats: little for
# differences of gradients, more for predictions.
_EXACT, _ENOUGH = 1e-8, 1e-4

Watch = Callable[[list[Any]], Iterable[Any]]


def curvature(
    model: Model, q: Posterior, data: Dataset, watch: Watch = iter
) -> Float[np.ndarray, "T T"]:
    """H at the model's theta without its inducing points; q is a start for q(u)."""
    mu, at = _along_theta(model)
    exact = jnp.asarray(_EXACT)
    best = settle(at(mu), q, data, exact).q
    rows = []
    for move in watch([*(_MOVE * np.eye(len(mu)))]):
        ahead, behind = (settle(at(mu + s), best, data, exact) for s in (move, -move))
        rows.append(np.asarray(behind.gradient - ahead.gradient) / (2.0 * _MOVE))
    found = np.reshape(rows, (len(mu), len(mu)))
    if not np.isfinite(found).all():
        raise FloatingPointError(
            "the curvature of the bound is not finite at the learned parameters."
        )
    return 0.5 * (found + found.T)


def draws(
    model: Model,
    q: Posterior,
    data: Dataset,
    num: int,
    seed: int,
    watch: Watch = iter,
) -> tuple[tuple[Model, Posterior], ...]:
    """Models at draws from q(theta), each with the best whitened q(u) for it.

    A draw at which the bound is not finite is taken half as far from mu. More draws
    with the same seed begin with the same ones. `watch` sees what is left to do.
    """
    mu, at = _along_theta(model)
    values, vectors = np.linalg.eigh(curvature(model, q, data, watch))
    spread = vectors / np.sqrt(np.abs(values) + 1.0)
    rng, enough = np.random.default_rng(seed), jnp.asarray(_ENOUGH)
    found = []
    for _ in watch([*range(num)]):
        move = spread @ rng.standard_normal(len(mu))
        best = settle(at(mu + move), q, data, enough)
        while not_finite(best, "") is not None:
            move = 0.5 * move
            best = settle(at(mu + move), q, data, enough)
        drawn = dataclasses.replace(at(mu + move), fixed=model.fixed)
        found.append((drawn, best.q))
    return tuple(found)


def _along_theta(
    model: Model,
) -> tuple[Float[np.ndarray, " T"], Callable[[np.ndarray], Model]]:
    """theta as one vector, and the model at any such vector."""
    still = with_fixed(model, (*model.fixed, "inducing"))
    theta, rest = eqx.partition(still, trainable(still))
    mu, tree_of = ravel_pytree(theta)

    def at(vector: np.ndarray) -> Model:
        return eqx.combine(tree_of(jnp.asarray(vector, mu.dtype)), rest)

    return np.asarray(mu), at
