"""Quasi-Newton steps of theta at the end of a run on few rows.

A scheme moves q(u) and theta side by side, by steps that are safe under the noise of
minibatches. On few rows all of them fit in a step, and L-BFGS soon finds the theta with
the highest

    L*(theta) + log p(theta),

where L* is the bound at the best q(u) for theta, and p(theta) the scheme's prior.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from motleygp.inference.data import Dataset
from motleygp.inference.posterior import Posterior
from motleygp.optim import Scheme
from motleygp.training.clock import Clock
from motleygp.training.journal import Callback, Report
from motleygp.training.one_step import StepInfo, no_reports
from motleygp.training.settled import settle
from motleygp.training.state import TrainState
from motleygp.training.trace import Run, joined

# q(u) is the best one when a step changes it by less than this, in nats.
_CHANGE = 1e-4
# The steps end when one gains less than this share of the objective.
_GAIN = 1e-7
# The number of earlier steps from which the curvature is estimated.
_MEMORY = 30
# The objective where the bound is not finite, so that a shorter step is tried.
_HIGH = 1e15


class _Point(NamedTuple):
    """A theta with its best q(u), minus the bound and the jitter there."""

    theta: np.ndarray
    q: Posterior
    nelbo: float
    jitter: float


class _Search:
    """The objective, and the best point so far."""

    def __init__(self, scheme: Scheme, state: TrainState, data: Dataset):
        self.scheme, self.state, self.data = scheme, state, data
        start, self._tree_of = ravel_pytree(state.theta.mean)
        self.start = np.asarray(start)
        self.lowest = np.inf
        self.best: _Point | None = None

        @jax.jit
        @jax.value_and_grad
        def cost(theta: Float[Array, " T"]) -> Float[Array, ""]:
            return scheme.theta.cost(state.theta, self._tree_of(theta))

        self._cost = cost

    def value(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus L* and log p(theta), and the gradient."""
        model = eqx.combine(self._tree_of(jnp.asarray(theta)), self.state.fixed)
        q = self.state.q if self.best is None else self.best.q
        found = settle(model, q, self.data, jnp.asarray(_CHANGE))
        cost, slope = self._cost(jnp.asarray(theta))
        value, gradient = float(cost - found.bound), np.asarray(slope - found.gradient)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return _HIGH, np.zeros_like(gradient)
        if value < self.lowest:
            point = _Point(
                theta.copy(), found.q, -float(found.bound), float(found.jitter)
            )
            self.lowest, self.best = value, point
        return value, gradient

    def state_after(self, num_steps: int) -> TrainState:
        """The state at the best point."""
        old, best = self.state, self.best
        if best is None:
            return old
        mean = self._tree_of(jnp.asarray(best.theta))
        iteration = old.iteration + num_steps
        return old._replace(
            theta=old.theta._replace(mean=mean, previous=mean),
            q=best.q,
            iteration=iteration,
            horizon=iteration,
        )


def polish(
    scheme: Scheme,
    run: Run,
    data: Dataset,
    *,
    callback: Callback | None = None,
    clock: Clock | None = None,
) -> Run:
    """The run after at most `scheme.polish` quasi-Newton steps, each an iteration.

    It ends as "converged" if no step gains any more. A callback, the `clock` and
    Ctrl-C end it as they end a run. Until it has ended, `so_far` of a report is
    the run before these steps.
    """
    search = _Search(scheme, run.state, data)
    if not len(search.start):
        return run
    clock = Clock() if clock is None else clock
    infos: list[StepInfo] = []
    ended = "converged"

    def after(_: np.ndarray) -> None:
        nonlocal ended
        infos.append(_info(search))
        told = None
        if callback is not None:
            # How many steps are left is not known: each may be the last.
            done = int(run.state.iteration) + len(infos)
            told = callback(Report(done, done, infos[-1], None, lambda: run))
        if told or clock.over:
            ended = "callback" if told else "time"
            raise StopIteration

    try:
        found = scipy.optimize.minimize(
            search.value,
            search.start,
            jac=True,
            method="L-BFGS-B",
            callback=after,
            options={"maxiter": scheme.polish, "maxcor": _MEMORY, "ftol": _GAIN},
        )
        if ended == "converged" and found.nit >= scheme.polish:
            ended = "horizon"
    except KeyboardInterrupt:
        ended = "interrupted"
    if search.best is None:  # not finite even at the start
        return run._replace(ended=ended if ended == "interrupted" else run.ended)
    before = [] if run.steps is None else [run.steps]
    return run._replace(
        state=search.state_after(len(infos)),
        steps=joined([*before, *infos]),
        ended=ended,
    )


def _info(search: _Search) -> StepInfo:
    """The report of a step: the best point so far."""
    best = search.best
    nelbo, jitter = (np.nan, np.nan) if best is None else (best.nelbo, best.jitter)
    blank = jax.tree.map(np.asarray, no_reports(1))
    return blank._replace(
        nelbo=np.array([nelbo]),
        q=blank.q._replace(step_size=np.ones(1)),
        jitter=np.array([jitter]),
    )
