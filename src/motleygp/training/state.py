"""The state of a run."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.inference.model import Model, trainable
from motleygp.inference.posterior import (
    Posterior,
    from_factor,
    from_prior,
    unwhiten,
    whiten,
)
from motleygp.numerics.compiled import compiled
from motleygp.numerics.linalg import cholesky
from motleygp.optim import Scheme, ThetaState


class Progress(NamedTuple):
    """The record of convergence: the sums of minus the bound and of its square over the
    current window, the number of their terms, the lowest mean of a window, and the
    number of windows without improvement."""

    total: Scalar
    square: Scalar
    accepted: Scalar
    best: Scalar
    stale: Int[Array, ""]


class TrainState(NamedTuple):
    """Everything that a step reads and writes; to save it is to save the run.

    `theta` is the state of theta's optimiser, whose `mean` is mu; `fixed` is the rest
    of the model. `q` is the whitened q(v) or, if the scheme is not whitened, q(u).
    The run ends at iteration `horizon`, which moves closer once the bound has stopped
    improving; over the last `cool_down` iterations the steps go to zero. `base`, if not
    `None`, is the q of earlier rows and takes the place of p(u).
    """

    theta: ThetaState
    fixed: Model
    q: Posterior
    q_state: Any
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


def init(
    key: RandomKey,
    model: Model,
    scheme: Scheme,
    *,
    num_steps: int,
    q: Posterior | None = None,
    base: Posterior | None = None,
    precision: float = 1.0,
) -> TrainState:
    """The state before the first step.

    `q` is the initial q(u), over the inducing values themselves; by default the prior,
    with this times its precision. `base`, the whitened q of earlier rows, is the
    initial q instead and takes the place of the prior.
    """
    steps, narrower = jnp.asarray(num_steps, int), jnp.asarray(precision, float)
    return _first(key, model, q, base, scheme, steps, narrower)


def _first_state(
    key: RandomKey,
    model: Model,
    q: Posterior | None,
    base: Posterior | None,
    scheme: Scheme,
    num_steps: Int[Array, ""],
    precision: Scalar,
) -> TrainState:
    if base is not None:
        carried = base
    elif q is None:
        joint = model.joint_q
        whitened = from_prior(model.prior, joint=joint, precision=precision)
        carried = whitened if scheme.whitened else _unwhitened(model, whitened)
    else:
        carried = whiten(model.prior, q.mean, q.cov()) if scheme.whitened else q
    theta, fixed = eqx.partition(model, trainable(model))
    return TrainState(
        theta=scheme.theta.init(theta),
        fixed=fixed,
        q=carried,
        q_state=scheme.q.init(carried),
        key=key,
        iteration=jnp.zeros((), int),
        horizon=num_steps,
        cool_down=jnp.floor(scheme.cool_down * num_steps).astype(int),
        progress=Progress(
            jnp.zeros(()),
            jnp.zeros(()),
            jnp.zeros(()),
            # With a type: an untyped number would change its type in the loop, and the
            # second chunk of a run would compile anew.
            jnp.asarray(jnp.inf, dtype=float),
            jnp.zeros((), int),
        ),
        base=base,
    )


_first = compiled(_first_state).quick


def _unwhitened(model: Model, q: Posterior) -> Posterior:
    mean, cov = unwhiten(model.prior, q)
    return from_factor(mean, jnp.stack([cholesky(v) for v in cov]))


def posterior(scheme: Scheme, state: TrainState) -> Posterior:
    """The whitened q at theta = mu."""
    if scheme.whitened:
        return state.q
    return whiten(state.model.prior, state.q.mean, state.q.cov())


class Solution(NamedTuple):
    """The model at theta = mu, its whitened q, and the standard deviations of q(theta),
    a tree like theta, if the scheme has any."""

    model: Model
    q: Posterior
    std: PyTree | None


def solution(scheme: Scheme, state: TrainState) -> Solution:
    """The result of a run in this state."""
    return Solution(state.model, *_posteriors(scheme, state))


def _both_posteriors(
    scheme: Scheme, state: TrainState
) -> tuple[Posterior, PyTree | None]:
    std = scheme.theta.std(state.theta)
    if std is not None:
        # A precision may overflow, but no parameter is known for certain.
        std = jax.tree.map(lambda a: jnp.maximum(a, np.finfo(a.dtype).tiny), std)
    return posterior(scheme, state), std


_posteriors = compiled(_both_posteriors).quick
