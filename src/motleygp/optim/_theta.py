"""The interface of optimisers of theta, and the formulas that they share."""

import abc
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from motleygp._types import RandomKey, Scalar
from motleygp.named import Named
from motleygp.optim import _checks


class ThetaState(NamedTuple):
    """q(theta) and the memory of earlier steps.

    `mean` is mu, `previous` is mu one step ago, and `centre` is the mean of the prior
    p(theta), if there is one. `length` scales the next step of the mean; `retract`
    shortens it. `inner` belongs to the optimiser: the spread of q(theta), or optax's
    own state.
    """

    num_steps: Int[Array, ""]
    mean: PyTree
    previous: PyTree
    centre: PyTree
    length: Scalar
    inner: Any


class AbstractThetaOptimiser(Named):
    """An optimiser of theta, or of a q(theta): pure functions in the style of optax."""

    kind: ClassVar[str] = "theta optimiser"

    @abc.abstractmethod
    def init(self, theta: PyTree) -> ThetaState:
        """The state before the first step, around theta."""

    @abc.abstractmethod
    def sample(self, key: RandomKey, state: ThetaState, num_samples: int = 1) -> PyTree:
        """Draws of theta, stacked on a leading axis."""

    @abc.abstractmethod
    def update(
        self, gradients: Any, state: ThetaState, pace: Scalar | float = 1.0
    ) -> ThetaState:
        """The next state from the loss's gradients at the draws, stacked like them.

        `pace` scales the step of the mean. The optimum is `state.mean`.
        """

    def std(self, state: ThetaState) -> PyTree | None:
        """The standard deviations of the draws if they are independent normals."""
        del state
        return None

    def cost(self, state: ThetaState, theta: PyTree) -> Scalar:
        """-log p(theta), up to a constant; 0 without a prior."""
        del state, theta
        return jnp.zeros(())


def retract(state: ThetaState) -> ThetaState:
    """Take back the last step of the mean, and halve the length of the next ones.

    Call it instead of an update if the loss is not finite at the new mean. The length
    recovers by a tenth per step.
    """
    return state._replace(mean=state.previous, length=0.5 * state.length)


def recovered(length: Scalar) -> Scalar:
    """The length after a step that went well."""
    return jnp.minimum(1.1 * length, 1.0)


def first_state(theta: PyTree, centre: PyTree, inner: Any) -> ThetaState:
    """The state before the first step."""
    return ThetaState(
        num_steps=jnp.zeros((), int),
        mean=theta,
        previous=theta,
        centre=centre,
        length=jnp.ones(()),
        inner=inner,
    )


def next_state(state: ThetaState, mean: PyTree, inner: Any) -> ThetaState:
    """The state after a step to this mean."""
    return ThetaState(
        num_steps=state.num_steps + 1,
        mean=mean,
        previous=state.mean,
        centre=state.centre,
        length=recovered(state.length),
        inner=inner,
    )


def as_floats(theta: PyTree) -> PyTree:
    """The same tree with floating-point arrays for leaves."""
    return jax.tree.map(lambda t: jnp.asarray(t, jnp.result_type(t, float)), theta)


PriorMean: TypeAlias = Literal["zero", "initial"]


def centre_of(theta: PyTree, prior_mean: PriorMean) -> PyTree:
    """The mean of the prior: zero, or the initial theta."""
    return theta if prior_mean == "initial" else jax.tree.map(jnp.zeros_like, theta)


# Numbers per leaf of theta.


class ByName(Named):
    """A number for each leaf of theta, by the names on its path.

    A leaf has the number of the first entry of `named` whose name, a field or a key of
    a dict, is on its path, or `usual` if there is none.
    """

    kind: ClassVar[str] = "leaves"
    name: ClassVar[str] = "by_name"

    usual: float
    named: tuple[tuple[str, float], ...] = ()

    def tree(self, theta: PyTree) -> PyTree:
        """The numbers, as a tree like theta."""

        def one_leaf(path: tuple, _: Array) -> float:
            names = {getattr(k, "name", getattr(k, "key", None)) for k in path}
            found = (value for name, value in self.named if name in names)
            return next(found, self.usual)

        return jax.tree_util.tree_map_with_path(one_leaf, theta)


Leaves: TypeAlias = float | ByName
"""One number for all of theta, or one per leaf."""


def leaves(value: Leaves, theta: PyTree) -> PyTree:
    """A tree of numbers like theta."""
    if isinstance(value, ByName):
        return value.tree(theta)
    return jax.tree.map(lambda _: value, theta)


# Optimisers with q(theta) = N(mu, diag sigma^2), sigma^2 = 1 / (p + lambda_1).


class AbstractDiagonal(AbstractThetaOptimiser):
    """q(theta) = N(mean, 1 / (p + lambda_1)), with p in the state's `inner`.

    **Arguments**, by name:

    - `prior_precision`: lambda_1, one number or one per leaf (`ByName`).
    - `prior_mean`: c, "zero", or "initial" for the theta passed to `init`.
    - `initial_p`: p at the start.
    - `max_std`: a limit on sigma, for losses that are only valid near mu.
    - `units`: the optimiser moves theta * units; units of 2 turn log l into log l^2.
    """

    prior_precision: Leaves = eqx.field(default=1.0, kw_only=True)
    prior_mean: PriorMean = eqx.field(default="zero", kw_only=True)
    initial_p: float = eqx.field(default=0.0, kw_only=True)
    max_std: float | None = eqx.field(default=None, kw_only=True)
    units: Leaves = eqx.field(default=1.0, kw_only=True)

    def check_spread(self) -> None:
        """Check the arguments of this class."""
        _checks.check_not_negative("prior_precision", self.prior_precision)
        _checks.check_prior_mean(self.prior_mean)
        _checks.check_positive("max_std", self.max_std)
        _checks.check_positive("units", self.units)
        _checks.check_finite_std(self.initial_p, self.prior_precision, self.max_std)

    def first_p(self, theta: PyTree) -> PyTree:
        """p before the first step."""
        return jax.tree.map(lambda t: jnp.full_like(t, self.initial_p), theta)

    def std(self, state: ThetaState) -> PyTree:
        """sigma of theta; theta * units has the variances 1 / (p + lambda_1).

        Where p + lambda_1 is 0, before the first gradient of a flat prior, it is
        `max_std`, or practically 0 without one: a draw stays at the mean.
        """

        def one_leaf(p: Array, lam: Any, unit: Any) -> Array:
            precision = p + lam
            if self.max_std is not None:
                return jnp.minimum(1.0 / jnp.sqrt(precision), self.max_std) / unit
            most = jnp.finfo(precision.dtype).max
            return 1.0 / jnp.sqrt(jnp.where(precision > 0.0, precision, most)) / unit

        each = (leaves(v, state.mean) for v in (self.prior_precision, self.units))
        return jax.tree.map(one_leaf, state.inner.p, *each)

    def cost(self, state: ThetaState, theta: PyTree) -> Scalar:
        """1/2 sum lambda_1 (theta - c)^2, for theta * units."""
        each = (leaves(v, theta) for v in (self.prior_precision, self.units))
        squares = jax.tree.map(
            lambda t, c, lam, unit: lam * jnp.sum((unit * (t - c)) ** 2),
            theta,
            state.centre,
            *each,
        )
        return 0.5 * sum(jax.tree.leaves(squares), jnp.zeros(()))

    def sample(self, key: RandomKey, state: ThetaState, num_samples: int = 1) -> PyTree:
        """Independent normals around the mean."""
        _checks.check_positive("num_samples", num_samples)
        # One call for all leaves: each would add as much code as a likelihood.
        mean, unravel = ravel_pytree(state.mean)
        sigma, _ = ravel_pytree(self.std(state))

        def noise() -> Array:
            return jr.normal(key, (num_samples, mean.size), mean.dtype)

        # The condition always holds, which the compiler cannot know: it would repeat
        # the draw in every loop that reads it, but it stores the result of a branch.
        none = jnp.zeros((num_samples, mean.size), mean.dtype)
        drawn = jax.lax.cond(state.num_steps >= 0, noise, lambda: none)
        return jax.vmap(unravel)(mean + sigma * drawn)


def force_on(g: Array, mean: Array, centre: Array, lam: Any, unit: Any) -> Array:
    """E[g] + lambda_1 (mu - c) for theta * unit; g is stacked over the draws."""
    return jnp.mean(g, axis=0) + lam * unit * (mean - centre)


def averaged(
    p: Float[Array, "..."], g: Float[Array, "S ..."], rate: Any
) -> Float[Array, "..."]:
    """p' = (1 - rate) p + rate E[g * g]."""
    return (1.0 - rate) * p + rate * jnp.mean(g**2, axis=0)


def divisor(s: Array, lam: Any) -> Array:
    """s + lambda_1; infinite where it is 0, since no force acts there."""
    weight = s + lam
    return jnp.where(weight > 0.0, weight, jnp.inf)
