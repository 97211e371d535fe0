"""Training: one pure step, scanned in chunks; all of a run is in its state."""

import functools as ft
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Int

from motleygp._types import RandomKey, Scalar
from motleygp.data import Dataset
from motleygp.model import Model, trainable
from motleygp.objective import gradients
from motleygp.optim import (
    NatGradInfo,
    NatGradState,
    NaturalGradient,
    natural_gradient,
)
from motleygp.posterior import Posterior, from_prior

# Refused steps up to this share of a run are not worth a warning.
_REFUSED_SHARE = 0.05


class TrainState(NamedTuple):
    """All that a step reads and writes; saving it is saving the run."""

    model: Model
    q: Posterior
    q_state: NatGradState
    theta_state: optax.OptState
    order: tuple[Int[Array, " N"], ...]
    key: RandomKey
    iteration: Int[Array, ""]


class StepInfo(NamedTuple):
    """What one step saw and did: minus the bound on its minibatch, and q's step."""

    nelbo: Scalar
    q: NatGradInfo


class Scheme(NamedTuple):
    """How q(u) and theta move: a natural gradient and an optax optimiser."""

    q: NaturalGradient
    theta: optax.GradientTransformation


@ft.cache
def hybrid(
    *, q_step: float = 0.1, theta_step: float = 0.01, warm_up: int = 100
) -> Scheme:
    """Natural gradients on q(u) and Adam on theta, both ramped up from a tenth."""

    def ramp(top: float) -> optax.Schedule:
        return optax.linear_schedule(0.1 * top, top, warm_up)

    return Scheme(natural_gradient(ramp(q_step)), optax.adam(ramp(theta_step)))


Step = Callable[[TrainState, Dataset], tuple[TrainState, StepInfo]]
Callback = Callable[[int, StepInfo], bool | None]


def init(key: RandomKey, model: Model, data: Dataset, scheme: Scheme) -> TrainState:
    """The state before the first step, with q(u) at the prior."""
    q = from_prior(model.prior)
    theta = eqx.filter(model, trainable(model))
    return TrainState(
        model=model,
        q=q,
        q_state=scheme.q.init(q),
        theta_state=scheme.theta.init(theta),
        order=tuple(jnp.arange(block.total) for block in data),
        key=key,
        iteration=jnp.zeros((), int),
    )


@ft.cache
def make_step(scheme: Scheme, *, batch_size: int) -> Step:
    """One step on q(u) and theta, from the same minibatch and the old state.

    The same arguments give the same function, so that a second run of the same shape
    compiles nothing.
    """

    def step(state: TrainState, data: Dataset) -> tuple[TrainState, StepInfo]:
        batch, order = minibatch(state, data, batch_size)
        terms, grads = gradients(state.model, state.q, batch)
        q, q_state, q_info = scheme.q.update(grads.q, state.q_state, state.q)
        theta, fixed = eqx.partition(state.model, trainable(state.model))
        updates, theta_state = scheme.theta.update(
            grads.theta,  # pyright: ignore[reportArgumentType]
            state.theta_state,
            theta,
        )
        model = eqx.combine(eqx.apply_updates(theta, updates), fixed)
        new = TrainState(
            model, q, q_state, theta_state, order, state.key, state.iteration + 1
        )
        return new, StepInfo(-terms.elbo, q_info)

    return step


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


class FitResult(NamedTuple):
    """The state at the end, what each step reported, and whether Ctrl-C ended it."""

    state: TrainState
    trace: StepInfo | None
    interrupted: bool


def fit(
    state: TrainState,
    data: Dataset,
    step: Step,
    *,
    num_steps: int,
    chunk: int = 50,
    callback: Callback | None = None,
) -> FitResult:
    """Run `num_steps` steps, `chunk` of them per compiled scan.

    Ctrl-C ends the run after the last whole chunk and keeps it.

    **Arguments:**

    - `state`: from `init`, or from an earlier `fit` to go on from there.
    - `callback`: called as `callback(steps_done, info)` after each chunk; a true value
      ends the run.

    **Raises:** `FloatingPointError` when the bound is not finite, naming the step.
    """
    infos: list[StepInfo] = []
    done, interrupted = 0, False
    try:
        while done < num_steps:
            length = min(chunk, num_steps - done)
            new, filled = _run_chunk(state, data, step, chunk, jnp.asarray(length))
            info = jax.tree.map(lambda a, n=length: np.asarray(a)[:n], filled)
            _check_finite(info.nelbo, done)
            state, done = new, done + length
            infos.append(info)
            if callback is not None and callback(done, info):
                break
    except KeyboardInterrupt:
        interrupted = True
    trace = (
        jax.tree.map(lambda *parts: np.concatenate(parts), *infos) if infos else None
    )
    return FitResult(state, trace, interrupted)


@eqx.filter_jit
def _run_chunk(
    state: TrainState, data: Dataset, step: Step, chunk: int, length: Int[Array, ""]
) -> tuple[TrainState, StepInfo]:
    """The first `length` of `chunk` steps; what they report fills arrays of `chunk`.

    `length` is not part of the program, so a last, shorter chunk compiles nothing.
    """
    arrays, static = eqx.partition(state, eqx.is_array)

    def one(arrays: TrainState) -> tuple[TrainState, StepInfo]:
        new, info = step(eqx.combine(arrays, static), data)
        return eqx.filter(new, eqx.is_array), info

    def body(i: Int[Array, ""], carry: tuple) -> tuple:
        arrays, infos = carry
        arrays, info = one(arrays)
        return arrays, jax.tree.map(lambda all_, a: all_.at[i].set(a), infos, info)

    shapes = jax.eval_shape(one, arrays)[1]
    empty = jax.tree.map(lambda a: jnp.zeros((chunk, *a.shape), a.dtype), shapes)
    arrays, infos = jax.lax.fori_loop(0, length, body, (arrays, empty))
    return eqx.combine(arrays, static), infos


def _check_finite(nelbo: np.ndarray, start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(nelbo))
    if len(bad):
        raise FloatingPointError(
            f"minus the bound is {nelbo[bad[0]]} at step {start + bad[0]}. Try a "
            "smaller step size, more jitter, or standardised inputs."
        )


def named_trace(info: StepInfo | None) -> dict[str, np.ndarray]:
    """What the steps reported, by name, one entry per iteration."""

    def column(pick: Callable[[StepInfo], Array]) -> np.ndarray:
        return np.zeros(0) if info is None else np.asarray(pick(info))

    trace = {
        "nelbo": column(lambda i: i.nelbo),
        "q_step": column(lambda i: i.q.step_size),
        "shrunk": column(lambda i: i.q.shrinks),
        "refused": column(lambda i: i.q.refused),
        "overshot": column(lambda i: i.q.overshot),
        "divergence": column(lambda i: i.q.divergence),
    }
    return {"iteration": np.arange(1, len(trace["nelbo"]) + 1)} | trace


def warn_if_refused(refused: np.ndarray) -> None:
    """Say so when the guard kept q(u) where it was in more than a few iterations."""
    share = float(np.mean(refused > 0)) if len(refused) else 0.0
    if share > _REFUSED_SHARE:
        warnings.warn(
            f"{share:.0%} of the natural-gradient steps were refused, so q(u) moved "
            "less than it should. Try a smaller step size or standardised inputs.",
            stacklevel=3,
        )
