"""Training schemes: how q(u) and theta move, together."""

import functools as ft
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from motleygp._types import Scalar
from motleygp.inference.model import Model
from motleygp.optim._factor import factor_descent
from motleygp.optim._natgrad import Guard, NaturalGradient, natural_gradient
from motleygp.optim._point import point
from motleygp.optim._schedule import Schedule
from motleygp.optim._variational import Leaves, VariationalOptimiser, variational

_GUARD = Guard()


class Scheme(NamedTuple):
    """How q(u) and theta move.

    - `q`, `theta`: their optimisers.
    - `num_samples`: draws of theta per iteration.
    - `whitened`: carry the whitened q(v), v = L^-1 u, from one theta to the next, or
      q(u) itself.
    - `warm_up`: iterations over which the steps ramp up.
    - `cool_down`: the share of the run, at its end, over which they go to zero.
    - `patience`: windows of 200 iterations without a better bound after which the
      cool-down begins; `None` for never.
    - `refuse`: refuse draws of theta at which the bound or a gradient is not finite;
      without it such a draw ends the run.
    """

    q: NaturalGradient
    theta: VariationalOptimiser
    num_samples: int = 1
    whitened: bool = True
    warm_up: int = 0
    cool_down: float = 0.0
    patience: int | None = None
    refuse: bool = True


@ft.cache
def fng(
    *,
    alpha: float | Schedule = 0.002,
    beta: float | Schedule = 0.1,
    gamma: float | Schedule = 0.9,
    upsilon: float | Schedule = 0.0,
    lambda_1: float = 1.0,
    max_std: float | None = 0.003,
    num_samples: int = 1,
    guard: Guard | None = _GUARD,
    warm_up: int = 100,
    cool_down: float = 0.6,
    patience: int | None = 5,
) -> Scheme:
    """Fully natural gradients: on q(u) by mirror descent, on theta through q(theta).

    **Arguments:**

    - `alpha`, `gamma`: step and momentum of theta; `beta`, `upsilon`: of q(u). Numbers
      or functions of the iteration.
    - `lambda_1`: the precision of p(theta), which is centred at the initial theta.
      Offsets and noise are not penalised.
    - `max_std`: the most that a draw of theta may stray, in standard deviations.
    - `num_samples`: draws of theta per iteration.
    - `guard`: what a step on q(u) may do.
    - `warm_up`, `cool_down`, `patience`: see `Scheme`.
    """
    return Scheme(
        q=natural_gradient(beta, momentum=upsilon, guard=guard),
        theta=variational(
            alpha,
            momentum=gamma,
            # p starts as the mean of the first squared gradients, and goes on as the
            # paper's average with rate alpha.
            precision_step=_running_mean_until(alpha),
            prior_precision=_penalty(lambda_1),
            prior_mean="initial",
            max_std=max_std,
        ),
        num_samples=num_samples,
        warm_up=warm_up,
        cool_down=cool_down,
        patience=patience,
    )


@ft.cache
def hybrid(
    *,
    alpha: float | Schedule = 0.01,
    beta: float | Schedule = 0.1,
    upsilon: float | Schedule = 0.0,
    guard: Guard | None = _GUARD,
    warm_up: int = 100,
    cool_down: float = 0.6,
    patience: int | None = 5,
) -> Scheme:
    """Natural gradients on q(u) (`beta`, `upsilon`) and Adam on theta (`alpha`)."""
    return Scheme(
        q=natural_gradient(beta, momentum=upsilon, guard=guard),
        theta=point(optax.adam(alpha)),
        warm_up=warm_up,
        cool_down=cool_down,
        patience=patience,
    )


@ft.cache
def adam(
    *,
    alpha: float | Schedule = 0.01,
    warm_up: int = 100,
    cool_down: float = 0.6,
    patience: int | None = 5,
) -> Scheme:
    """Adam on theta and on q(u), by its mean and the factor of its covariance."""
    return _everywhere(optax.adam(alpha), warm_up, cool_down, patience)


@ft.cache
def sgd(
    *,
    alpha: float | Schedule = 1e-6,
    warm_up: int = 100,
    cool_down: float = 0.6,
    patience: int | None = 5,
) -> Scheme:
    """Plain stochastic gradients on theta and on q(u), by its mean and factor."""
    return _everywhere(optax.sgd(alpha), warm_up, cool_down, patience)


def _everywhere(
    descent: optax.GradientTransformation,
    warm_up: int,
    cool_down: float,
    patience: int | None,
) -> Scheme:
    """The same descent on theta and on q(u)."""
    return Scheme(
        q=factor_descent(descent),
        theta=point(descent),
        warm_up=warm_up,
        cool_down=cool_down,
        patience=patience,
    )


def _running_mean_until(alpha: float | Schedule) -> Schedule:
    def rate(count: Int[Array, ""]) -> Scalar:
        late = alpha(count) if callable(alpha) else alpha
        return jnp.maximum(late, 1.0 / (count + 1.0))

    return rate


def _penalty(lambda_1: float) -> Callable[[Model], PyTree]:
    """lambda_1 for every number of theta but the offsets and the likelihoods' own."""

    def for_theta(theta: Model) -> PyTree:
        everywhere = jax.tree.map(lambda _: lambda_1, theta)
        free = jax.tree.map(lambda _: 0.0, (theta.offset, theta.likelihoods))
        return eqx.tree_at(
            lambda m: (m.offset, m.likelihoods),
            everywhere,
            free,
            is_leaf=lambda leaf: leaf is None,
        )

    return for_theta


# The paper's settings. Its theta_L and theta_kappa are the logarithms of the squared
# length-scales.


def _squared_lengthscales(theta: Model) -> PyTree:
    def unit(path: tuple, _: Array) -> float:
        return 2.0 if path[-1].name in ("log_lengthscale", "log_smoothing") else 1.0

    return jax.tree_util.tree_map_with_path(unit, theta)


_PAPER_UNITS: Leaves = _squared_lengthscales


def paper_initial_p(num_inputs: int) -> float:
    """The authors' p at the start of their toys, by the number of inputs."""
    return {1: 1e4, 2: 1e3, 3: 500.0, 4: 100.0, 5: 50.0}.get(num_inputs, 10.0)


@ft.cache
def paper(
    name: str,
    *,
    initial_p: float = 10.0,
    lambda_1: float = 1.0,
    step: float = 0.005,
    momentum: float = 0.9,
    sgd_step: float = 1e-7,
) -> Scheme:
    """A scheme with the paper's settings: no guard, no ramps, q(u) itself carried.

    **Arguments:**

    - `name`: "fng", "hybrid", "adam" or "sgd".
    - `initial_p`, `lambda_1`: of p(theta), centred at zero, and of q(theta)'s start.
    - `step`: of everything but SGD, for which the authors' 1e-15 moves nothing.
    - `momentum`: gamma and upsilon.
    """
    if name not in BY_NAME:
        raise ValueError(f"`name` must be one of {', '.join(BY_NAME)}; got {name!r}.")
    natural = natural_gradient(step, momentum=momentum, guard=None)
    explored = variational(
        step,
        momentum=momentum,
        prior_precision=lambda_1,
        initial_p=initial_p,
        units=_PAPER_UNITS,
    )
    adam = optax.adam(step)
    sgd = optax.sgd(sgd_step)
    pairs = {
        "fng": (natural, explored),
        "hybrid": (natural_gradient(step, guard=None), point(adam, units=_PAPER_UNITS)),
        "adam": (factor_descent(adam), point(adam, units=_PAPER_UNITS)),
        "sgd": (factor_descent(sgd), point(sgd, units=_PAPER_UNITS)),
    }
    return Scheme(*pairs[name], whitened=False, refuse=False)


BY_NAME: dict[str, Callable[[], Scheme]] = {
    "fng": fng,
    "hybrid": hybrid,
    "adam": adam,
    "sgd": sgd,
}
