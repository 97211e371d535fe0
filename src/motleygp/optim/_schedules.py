"""Step sizes: a number, or a schedule over the step count."""

import abc
from typing import Any, ClassVar, TypeAlias

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from motleygp._types import Scalar
from motleygp.named import Named
from motleygp.optim._checks import check_known

_OPTAX = (
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_onecycle_schedule",
    "exponential_decay",
    "linear_onecycle_schedule",
    "linear_schedule",
    "polynomial_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
)


class AbstractSchedule(Named):
    """A value for every step count, as data, so that a scheme with it can be saved."""

    kind: ClassVar[str] = "schedule"

    @abc.abstractmethod
    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        """The value at step `count`, counted from 0."""


class OptaxSchedule(AbstractSchedule):
    """A schedule of optax, by its name and arguments: see `schedule`."""

    name: ClassVar[str] = "optax"

    function: str
    arguments: tuple[tuple[str, Any], ...]

    def __check_init__(self) -> None:
        check_known("function", self.function, _OPTAX)

    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        value = getattr(optax, self.function)(**dict(self.arguments))
        return jnp.asarray(value(count), dtype=float)


def schedule(function: str, **arguments: Any) -> OptaxSchedule:
    """A schedule of optax as data.

    `schedule("linear_schedule", init_value=0.1, end_value=0.01, transition_steps=500)`
    is `optax.linear_schedule` with these arguments.
    """
    return OptaxSchedule(function, tuple(sorted(arguments.items())))


class RunningMeanRate(AbstractSchedule):
    """max(rate, 1 / (count + 1)): a plain mean first, then an average with `rate`."""

    name: ClassVar[str] = "running_mean"

    rate: "Rate"

    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.maximum(at(self.rate, count), 1.0 / (count + 1.0))


Rate: TypeAlias = float | Scalar | AbstractSchedule


def at(value: Rate, num_steps: Int[Array, ""]) -> Scalar:
    """The value of a step size at this step."""
    if isinstance(value, AbstractSchedule):
        value = value(num_steps)
    return jnp.asarray(value, dtype=float)


def rates(optimiser: Any, num_steps: Int[Array, ""]) -> tuple[Scalar, Scalar, Scalar]:
    """An optimiser's `step_size`, `precision_step` and `momentum` at this step;
    `precision_step` is `step_size` by default."""
    alpha = at(optimiser.step_size, num_steps)
    rho = alpha
    if optimiser.precision_step is not None:
        rho = at(optimiser.precision_step, num_steps)
    return alpha, rho, at(optimiser.momentum, num_steps)
