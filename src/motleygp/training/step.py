"""Training: one pure step, for every scheme and prior; all of a run is in its state."""

import functools as ft
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Int, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.inference.data import Dataset
from motleygp.inference.model import Model, trainable
from motleygp.inference.objective import (
    Gradients,
    Terms,
    gradients,
    unwhitened_gradients,
)
from motleygp.inference.posterior import (
    Posterior,
    from_precision,
    from_prior,
    unwhiten,
    whiten,
)
from motleygp.numerics.linalg import over_groups
from motleygp.optim import NatGradInfo, Scheme, retract

# Convergence is judged on the mean of the bound over so many iterations.
_WINDOW = 200


class Progress(NamedTuple):
    """Sums of minus the bound and of its square over the window so far, of how many
    draws, the best window's mean, and how many windows ago it was bettered."""

    total: Scalar
    square: Scalar
    accepted: Scalar
    best: Scalar
    stale: Int[Array, ""]


class TrainState(NamedTuple):
    """All that a step reads and writes; saving it is saving the run.

    `theta` is the state of theta's optimiser, mu being its `mean`; `fixed` is the rest
    of the model. `q` is the whitened q(v) or q(u) itself, as the scheme has it.
    The run ends at iteration `horizon`, which comes nearer when the bound has stopped
    improving; over the last `cool_down` iterations the steps go to zero. `base` takes
    the place of p(u) where earlier rows have been absorbed already.
    """

    theta: Any
    fixed: Model
    q: Posterior
    q_state: Any
    order: tuple[Int[Array, " N"], ...]
    key: RandomKey
    iteration: Int[Array, ""]
    horizon: Int[Array, ""]
    cool_down: Int[Array, ""]
    progress: Progress
    base: Posterior | None = None

    @property
    def model(self) -> Model:
        """The model at theta = mu."""
        return eqx.combine(self.theta.mean, self.fixed)


class StepInfo(NamedTuple):
    """What one step saw and did: minus the bound on its minibatch and its draw of
    theta, q's step, and whether the draw was refused."""

    nelbo: Scalar
    q: NatGradInfo
    refused: Bool[Array, ""]


Step = Callable[[TrainState, Dataset], tuple[TrainState, StepInfo]]


def init(
    key: RandomKey,
    model: Model,
    data: Dataset,
    scheme: Scheme,
    *,
    num_steps: int,
    q: Posterior | None = None,
    base: Posterior | None = None,
) -> TrainState:
    """The state before the first step.

    q(u) is as given, of the inducing values themselves, or at the prior; or at `base`,
    the whitened q of earlier rows, which then takes the prior's place.
    """
    if base is not None:
        carried = base
    elif q is None:
        whitened = from_prior(model.prior)
        carried = whitened if scheme.whitened else _unwhitened(model, whitened)
    else:
        carried = whiten(model.prior, q.mean, q.cov()) if scheme.whitened else q
    theta, fixed = eqx.partition(model, trainable(model))
    return TrainState(
        theta=scheme.theta.init(theta),
        fixed=fixed,
        q=carried,
        q_state=scheme.q.init(carried),
        order=tuple(jnp.arange(block.total) for block in data),
        key=key,
        iteration=jnp.zeros((), int),
        # Typed: an untyped number would change its type in the loop, and the second
        # chunk of a run would compile anew.
        horizon=jnp.asarray(num_steps, dtype=int),
        cool_down=jnp.asarray(int(scheme.cool_down * num_steps), dtype=int),
        progress=Progress(
            jnp.zeros(()),
            jnp.zeros(()),
            jnp.zeros(()),
            jnp.asarray(jnp.inf, dtype=float),
            jnp.zeros((), int),
        ),
        base=base,
    )


def _unwhitened(model: Model, q: Posterior) -> Posterior:
    mean, cov = unwhiten(model.prior, q)
    return from_precision(mean, jnp.stack([jnp.linalg.inv(v) for v in cov]))


def posterior(scheme: Scheme, state: TrainState) -> Posterior:
    """The whitened q at theta = mu."""
    if scheme.whitened:
        return state.q
    return whiten(state.model.prior, state.q.mean, state.q.cov())


@ft.cache
def make_step(scheme: Scheme, *, batch_size: int) -> Step:
    """One step on q(u) and theta, from the same minibatch, draws and old state.

    A draw of theta at which the bound or a gradient is not finite is refused: q(u)
    stays, theta goes back to where it was one step ago, and its next steps are shorter.

    The same arguments give the same function, so that a second run of the same shape
    compiles nothing.
    """

    def step(state: TrainState, data: Dataset) -> tuple[TrainState, StepInfo]:
        batch, order = minibatch(state, data, batch_size)
        key = jr.fold_in(jr.fold_in(state.key, state.iteration), len(data))
        draws = scheme.theta.sample(key, state.theta, scheme.num_samples)

        def at(theta: PyTree) -> tuple[Terms, Gradients]:
            model = eqx.combine(theta, state.fixed)
            if scheme.whitened:
                return gradients(model, state.q, batch, state.base)
            return unwhitened_gradients(model, state.q, batch)

        terms, grads = _of_draws(at, draws, scheme.num_samples)
        nelbo = -jnp.mean(terms)
        mean_q = jax.tree.map(lambda a: jnp.mean(a, axis=0), grads.q)
        pace = _pace(scheme, state)
        q, q_state, q_info = scheme.q.update(mean_q, state.q_state, state.q, pace)
        theta = state.theta
        if jax.tree.leaves(theta.mean):  # all of theta may be held fixed
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
            order=order,
            iteration=state.iteration + 1,
            progress=_followed(state, nelbo, good),
        )
        return _nearer(scheme, new), StepInfo(nelbo, q_info, ~good)

    return step


def _of_draws(
    at: Callable[[PyTree], tuple[Terms, Gradients]], draws: PyTree, num_samples: int
) -> tuple[Array, Gradients]:
    """The bounds and gradients at the draws of theta, stacked."""
    if num_samples == 1:
        terms, grads = at(jax.tree.map(lambda leaf: leaf[0], draws))
        return terms.elbo[None], jax.tree.map(lambda leaf: leaf[None], grads)

    def one(draw: PyTree) -> tuple[Array, Gradients]:
        terms, grads = at(draw)
        return terms.elbo, grads

    return over_groups(one, draws)


def _pace(scheme: Scheme, state: TrainState) -> Scalar:
    """What the step sizes are multiplied by: up to 1, and down to 0 at the end."""
    up = (state.iteration + 1.0) / (scheme.warm_up + 1.0)
    left = (state.horizon - state.iteration) / jnp.maximum(state.cool_down, 1)
    down = jnp.where(state.cool_down > 0, left, 1.0)
    return jnp.minimum(1.0, jnp.minimum(up, down))


def _followed(state: TrainState, nelbo: Scalar, good: Bool[Array, ""]) -> Progress:
    """The progress after one more iteration.

    A window betters the best one when its mean is lower by more than its standard
    error: what is less cannot be told from the noise of the minibatches. Refused draws
    do not count.
    """
    old = state.progress
    nelbo = jnp.where(good, nelbo, 0.0)
    total, square, count = old.total + nelbo, old.square + nelbo**2, old.accepted + good
    mean = total / count  # NaN, and no better, where every draw was refused
    error = jnp.sqrt(jnp.maximum(square / count - mean**2, 0.0) / count)
    bettered = mean < old.best - error
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
    """Begin the cool-down when the bound has been stale for too long."""
    if scheme.patience is None:
        return state
    stale = state.progress.stale >= scheme.patience
    soon = jnp.minimum(state.horizon, state.iteration + state.cool_down)
    return state._replace(horizon=jnp.where(stale, soon, state.horizon))


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    return jnp.all(
        jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)])
    )


def minibatch(
    state: TrainState, data: Dataset, batch_size: int
) -> tuple[Dataset, tuple[Int[Array, " N"], ...]]:
    """The rows of this iteration, without replacement within an epoch.

    Each block is shuffled anew when its rows are used up; rows that do not fill a last
    batch wait for the next shuffle.
    """
    blocks, orders = [], []
    for number, (block, order) in enumerate(zip(data, state.order, strict=True)):
        size = min(batch_size, block.total)
        place = state.iteration % (block.total // size)
        key = jr.fold_in(jr.fold_in(state.key, state.iteration), number)
        order = jax.lax.cond(
            place == 0, ft.partial(jr.permutation, key), lambda rows: rows, order
        )
        rows = jax.lax.dynamic_slice_in_dim(order, place * size, size)
        blocks.append(block.take(rows))
        orders.append(order)
    return tuple(blocks), tuple(orders)
