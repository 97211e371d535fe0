"""The optimisers of optax as data: a name and arguments."""

from typing import Any, ClassVar

import optax

from motleygp.named import Named
from motleygp.optim._checks import check_data, check_known

_OPTAX = (
    "adabelief",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "amsgrad",
    "lamb",
    "lion",
    "nadam",
    "radam",
    "rmsprop",
    "sgd",
    "yogi",
)


class Descent(Named):
    """An optimiser of optax, by its name and arguments: see `descent`."""

    kind: ClassVar[str] = "descent"
    name: ClassVar[str] = "optax"

    function: str
    arguments: tuple[tuple[str, Any], ...]

    def __check_init__(self) -> None:
        check_known("function", self.function, _OPTAX)
        for name, value in self.arguments:
            check_data(name, value)

    def transformation(self) -> optax.GradientTransformation:
        """The gradient transformation of optax."""
        return getattr(optax, self.function)(**dict(self.arguments))


def descent(function: str, learning_rate: Any, **arguments: Any) -> Descent:
    """An optimiser of optax as data: `descent("adamw", 0.01, weight_decay=1e-4)`.

    `learning_rate` is a number or a schedule.
    """
    every = {"learning_rate": learning_rate, **arguments}
    return Descent(function, tuple(sorted(every.items())))
