"""One pure step of training, for every scheme and prior."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, PyTree

from motleygp._types import Scalar
from motleygp.inference.data import Dataset
from motleygp.inference.derivatives import (
    Gradients,
    gradients,
    unwhitened_gradients,
)
from motleygp.inference.objective import Terms
from motleygp.numerics.linalg import over_groups
from motleygp.numerics.shuffling import shuffled
from motleygp.optim import QInfo, Scheme, retract
from motleygp.training.state import Progress, TrainState

# Convergence is judged by the mean of the bound over this many iterations.
_WINDOW = 50
# A cool-down that begins early lasts for this share of the iterations before it.
_EARLY = 0.25


class StepInfo(NamedTuple):
    """A report of one step: minus the bound on its minibatch, the mean over its draws
    of theta; the report of q(u); whether the draws were refused; and the largest jitter
    of a group, relative to the diagonal of its K_uu."""

    nelbo: Scalar
    q: QInfo
    refused: Bool[Array, ""]
    jitter: Scalar


def no_reports(length: int) -> StepInfo:
    """The arrays of so many reports, all zero."""
    real, whole, flag = (jnp.zeros(length, kind) for kind in (float, int, bool))
    return StepInfo(real, QInfo(real, whole, whole, flag, real), flag, real)


def step(
    scheme: Scheme, state: TrainState, data: Dataset, *, batch_size: int
) -> tuple[TrainState, StepInfo]:
    """One step on q(u) and theta, from the same minibatch, draws and old state.

    With `scheme.refuse`, draws of theta at which the bound or a gradient is not finite
    are refused: q(u) stays, theta goes back one step, and its next steps are shorter.
    """
    batch = minibatch(state, data, batch_size)
    key = jr.fold_in(jr.fold_in(state.key, state.iteration), len(data))
    draws = scheme.theta.sample(key, state.theta, scheme.num_samples)

    def at(theta: PyTree) -> tuple[Terms, Gradients]:
        model = eqx.combine(theta, state.fixed)
        if scheme.whitened:
            return gradients(model, state.q, batch, state.base)
        return unwhitened_gradients(model, state.q, batch)

    elbos, jitters, grads = _of_draws(at, draws, scheme.num_samples)
    nelbo = -jnp.mean(elbos)
    mean_q = jax.tree.map(lambda a: jnp.mean(a, axis=0), grads.q)
    pace = _pace(scheme, state)
    q, q_state, q_info = scheme.q.update(mean_q, state.q_state, state.q, pace)
    theta = state.theta
    if jax.tree.leaves(theta.mean):  # theta is empty if every parameter is fixed
        theta = scheme.theta.update(grads.theta, theta, pace)
    good = _all_finite((nelbo, grads)) | (not scheme.refuse)
    theta, q, q_state = jax.tree.map(
        lambda new, old: jnp.where(good, new, old),
        (theta, q, q_state),
        (retract(state.theta), state.q, state.q_state),
    )
    new = state._replace(
        theta=theta,
        q=q,
        q_state=q_state,
        iteration=state.iteration + 1,
        progress=_followed(state, nelbo, good, scheme.tolerance * _num_places(data)),
    )
    return _nearer(scheme, new), StepInfo(nelbo, q_info, ~good, jnp.max(jitters))


def _of_draws(
    at: Callable[[PyTree], tuple[Terms, Gradients]], draws: PyTree, num_samples: int
) -> tuple[Array, Array, Gradients]:
    """The bounds, jitters and gradients at the draws of theta, stacked."""

    def one(draw: PyTree) -> tuple[Array, Array, Gradients]:
        terms, grads = at(draw)
        return terms.elbo, terms.jitter, grads

    if num_samples == 1:
        found = one(jax.tree.map(lambda leaf: leaf[0], draws))
        return jax.tree.map(lambda leaf: leaf[None], found)
    return over_groups(one, draws)


def _pace(scheme: Scheme, state: TrainState) -> Scalar:
    """The factor on the step sizes: it rises to 1, and falls to 0 at the end."""
    up = (state.iteration + 1.0) / (scheme.warm_up + 1.0)
    return jnp.minimum(up, pace_down(state))


def pace_down(state: TrainState) -> Scalar:
    """The factor of the cool-down, 1 before it."""
    left = (state.horizon - state.iteration) / jnp.maximum(state.cool_down, 1)
    return jnp.where(state.cool_down > 0, jnp.minimum(left, 1.0), 1.0)


def _num_places(data: Dataset) -> int:
    """The number of values if none were missing."""
    return sum(block.total * len(block.outputs) for block in data)


def _followed(
    state: TrainState, nelbo: Scalar, good: Bool[Array, ""], least: float
) -> Progress:
    """The progress after one more iteration.

    A window is better than the best one if its mean is lower by more than `least` and
    its standard error; a smaller difference may be noise of the minibatches. Refused
    draws do not count.
    """
    old = state.progress
    nelbo = jnp.where(good, nelbo, 0.0)
    total, square, count = old.total + nelbo, old.square + nelbo**2, old.accepted + good
    mean = total / count  # NaN, so not better, if every draw was refused
    error = jnp.sqrt(jnp.maximum(square / count - mean**2, 0.0) / count)
    bettered = mean < old.best - jnp.maximum(error, least)
    full = (state.iteration + 1) % _WINDOW == 0
    closed = Progress(
        jnp.zeros(()),
        jnp.zeros(()),
        jnp.zeros(()),
        jnp.fmin(mean, old.best),
        jnp.where(bettered | jnp.isinf(old.best), 0, old.stale + 1),
    )
    running = old._replace(total=total, square=square, accepted=count)
    return jax.tree.map(lambda a, b: jnp.where(full, a, b), closed, running)


def _nearer(scheme: Scheme, state: TrainState) -> TrainState:
    """Begin the cool-down, or shorten it, when the bound has not improved for too long.
    The steps go on from their present size."""
    if scheme.patience is None:
        return state
    stale = has_settled(scheme, state)
    short = jnp.ceil(_EARLY * state.iteration).astype(int)
    cool_down = jnp.minimum(state.cool_down, short)
    left = jnp.ceil(pace_down(state) * cool_down).astype(int)
    soon = jnp.minimum(state.horizon, state.iteration + left)
    return state._replace(
        horizon=jnp.where(stale, soon, state.horizon),
        cool_down=jnp.where(stale, cool_down, state.cool_down),
    )


def has_settled(scheme: Scheme, state: TrainState) -> Bool[Array, ""]:
    """Whether the bound has not improved for too long."""
    if scheme.patience is None:
        return jnp.zeros((), bool)
    return state.progress.stale >= scheme.patience


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    return jnp.all(
        jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)])
    )


def minibatch(state: TrainState, data: Dataset, batch_size: int) -> Dataset:
    """The rows of this iteration, without replacement within an epoch.

    Each block is shuffled anew when its rows are used up; rows that do not fill a last
    batch are skipped until the next shuffle.
    """
    blocks = []
    for number, block in enumerate(data):
        size = min(batch_size, block.total)
        if size == block.total:
            blocks.append(block)
            continue
        epoch, place = jnp.divmod(state.iteration, block.total // size)
        key = jr.fold_in(jr.fold_in(state.key, epoch), number)
        places = place * size + jnp.arange(size)
        blocks.append(block.take(shuffled(key, places, block.total)))
    return tuple(blocks)
