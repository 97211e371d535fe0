"""A schedule of the tests' own, of a kind that optax does not have."""

from typing import ClassVar

from jaxtyping import Array, Float, Int

from motleygp.optim import AbstractSchedule


class Shrinking(AbstractSchedule):
    """start / (1 + rate * count)."""

    name: ClassVar[str] = "tests: shrinking"

    start: float
    rate: float = 1.0

    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        return self.start / (1.0 + self.rate * count)
