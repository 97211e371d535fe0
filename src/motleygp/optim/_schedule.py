"""Step sizes: a number, or a function of the step count."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from motleygp._types import Scalar

Schedule = Callable[[Any], Any]


def at(value: float | Schedule, num_steps: Int[Array, ""]) -> Scalar:
    """The value of a step size at this step."""
    return jnp.asarray(value(num_steps) if callable(value) else value, dtype=float)
