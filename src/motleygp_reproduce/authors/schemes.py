"""One iteration of each scheme of the published code.

- "fng": theta is drawn from N(mu, 1 / (p + lambda)), and mu follows Adam's averages of
  g + lambda mu and of g^2 at that draw, with its correction of the bias, although p
  does not start at 0; q(u) takes a natural step from the same draw and minibatch.
- "hybrid": the same natural step, and Adam for theta, which is not drawn.
- "adam" and "sgd": everything by Adam or by plain gradients, q(u) by its mean and
  factor.

The momentum of the natural step is left out: the code shifts the mean that it remembers
twice, so the difference which the momentum multiplies is always 0.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from motleygp._types import RandomKey, Scalar
from motleygp.numerics import linalg
from motleygp_reproduce.authors.bound import (
    Gradients,
    Q,
    at,
    gradients,
    negative_bound,
)
from motleygp_reproduce.authors.covariances import Theta
from motleygp_reproduce.authors.preparation import Batch, Outputs
from motleygp_reproduce.authors.settings import Settings

# The gradient in the mean of q(u) is clipped at this.
_STEEPEST = 5.0
# The covariance of q(u), times the identity, after a step that has no factor.
_RESET = 0.1


class Spec(NamedTuple):
    """What stays the same in a run."""

    scheme: str
    settings: Settings
    outputs: Outputs


class State(NamedTuple):
    """What a run changes.

    `theta` is mu for "fng". `precision` is the inverse covariance of q(u), which the
    natural step moves. `first` and `second` are the averages of the gradients and their
    squares: of theta, or of theta and q(u).
    """

    theta: Theta
    q: Q
    precision: Float[Array, "G M M"]
    first: Any
    second: Any
    iteration: Int[Array, ""]


def init(spec: Spec, theta: Theta, q: Q) -> State:
    """The state before the first iteration."""
    moved = (theta, q) if spec.scheme in ("adam", "sgd") else theta
    start = spec.settings.initial_precision if spec.scheme == "fng" else 0.0
    first = jax.tree.map(jnp.zeros_like, moved)
    second = jax.tree.map(lambda a: jnp.full_like(a, start), moved)
    # q(u) starts with a multiple of the identity, L = c I.
    eye = jnp.eye(q.mean.shape[1])
    precision = eye / jnp.diagonal(q.lower, axis1=1, axis2=2)[:, :, None] ** 2
    return State(theta, q, precision, first, second, jnp.zeros((), int))


def step(spec: Spec, state: State, batch: Batch, noise: Theta) -> tuple[State, Scalar]:
    """The next state and the reported minus bound: on this minibatch alone, at the
    theta of this iteration, after the natural step where there is one."""
    state = state._replace(iteration=state.iteration + 1)
    theta = evaluated_theta(spec, state, noise)
    point = at(theta, batch, spec.outputs)
    found = gradients(point, state.q, batch, spec.outputs)
    if spec.scheme in ("adam", "sgd"):
        bound = negative_bound(point, state.q, batch, spec.outputs)
        return _step_on_all(spec, state, found), bound
    state = _natural_step(spec.settings, _step_on_theta(spec, state, found), found)
    return state, negative_bound(point, state.q, batch, spec.outputs)


def noise_of(key: RandomKey, iteration: Int[Array, ""], theta: Theta) -> Theta:
    """Standard normal noise for an iteration, in the form of theta."""
    flat, tree_of = ravel_pytree(theta)
    return tree_of(jr.normal(jr.fold_in(key, iteration), flat.shape))


def evaluated_theta(spec: Spec, state: State, noise: Theta) -> Theta:
    """theta at which the model is evaluated: a draw for "fng"."""
    if spec.scheme != "fng":
        return state.theta
    extra = spec.settings.prior_precision
    return jax.tree.map(
        lambda mu, p, e: mu + e / jnp.sqrt(p + extra), state.theta, state.second, noise
    )


def variances(spec: Spec, state: State) -> Float[np.ndarray, " T"]:
    """sigma^2 = 1 / (p + lambda) of every entry of theta, where theta is drawn."""
    if spec.scheme != "fng":
        return np.zeros(0)
    precision, _ = ravel_pytree(state.second)
    return 1.0 / (np.asarray(precision) + spec.settings.prior_precision)


def _step_on_theta(spec: Spec, state: State, found: Gradients) -> State:
    if spec.scheme == "hybrid":
        theta, first, second = _adam(spec.settings, state, state.theta, found.theta)
        return state._replace(theta=theta, first=first, second=second)
    extra = spec.settings.prior_precision
    pulled = jax.tree.map(lambda g, mu: g + extra * mu, found.theta, state.theta)
    first, second = _averages(spec.settings, state, pulled, found.theta)
    theta = _moved(spec.settings, state, state.theta, first, second, extra)
    return state._replace(theta=theta, first=first, second=second)


def _natural_step(settings: Settings, state: State, found: Gradients) -> State:
    """S^-1 + 2 beta G_S and m - beta S' clip(G_m); where S' has no factor, the mean
    becomes 0 and S' 0.1 I."""

    def move(q: Q, precision: Array, in_mean: Array, in_cov: Array) -> tuple[Q, Array]:
        precision = precision + 2.0 * settings.covariance_step * in_cov
        covariance = jnp.linalg.inv(precision)
        covariance = 0.5 * (covariance + covariance.T)
        lower = linalg.cholesky(covariance)
        clipped = jnp.clip(in_mean, -_STEEPEST, _STEEPEST)
        mean = q.mean - settings.step * covariance @ clipped
        good, eye = jnp.isfinite(lower[-1, -1]), jnp.eye(len(lower))
        # 0 m: a mean that is not a number stays so.
        mean = jnp.where(good, mean, 0.0 * q.mean)
        lower = jnp.where(good, lower, jnp.sqrt(_RESET) * eye)
        return Q(mean, lower), jnp.where(good, precision, eye / _RESET)

    q, precision = linalg.over_groups(
        move, state.q, state.precision, found.mean, found.covariance
    )
    return state._replace(q=q, precision=precision)


def _step_on_all(spec: Spec, state: State, found: Gradients) -> State:
    """Of theta and of the mean and factor of q(u): G_L = 2 G_S L, its lower half."""
    lower = jnp.tril(2.0 * found.covariance @ state.q.lower)
    moved, slope = (state.theta, state.q), (found.theta, Q(found.mean, lower))
    if spec.scheme == "sgd":
        rate = spec.settings.sgd_step
        theta, q = jax.tree.map(lambda a, g: a - rate * g, moved, slope)
        return state._replace(theta=theta, q=q)
    (theta, q), first, second = _adam(spec.settings, state, moved, slope)
    return state._replace(theta=theta, q=q, first=first, second=second)


def _adam(settings: Settings, state: State, value: Any, slope: Any) -> tuple:
    first, second = _averages(settings, state, slope, slope)
    moved = _moved(settings, state, value, first, second, settings.offset)
    return moved, first, second


def _averages(settings: Settings, state: State, first: Any, second: Any) -> tuple:
    """The averages of `first` and of the squares of `second`."""
    a, b = settings.first_rate, settings.second_rate
    return (
        jax.tree.map(lambda old, g: a * g + (1 - a) * old, state.first, first),
        jax.tree.map(lambda old, g: b * g**2 + (1 - b) * old, state.second, second),
    )


def _moved(
    settings: Settings, state: State, value: Any, first: Any, second: Any, extra: float
) -> Any:
    """value - rate first / (sqrt(second) + extra), with Adam's rate by now."""
    t = state.iteration
    unbiased = 1.0 - (1.0 - settings.second_rate) ** t
    rate = settings.step * jnp.sqrt(unbiased) / (1.0 - (1.0 - settings.first_rate) ** t)
    return jax.tree.map(
        lambda v, m, s: v - rate * m / (jnp.sqrt(s) + extra), value, first, second
    )
