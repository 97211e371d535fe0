"""Checks of the optimisers' arguments; schedules and traced numbers pass unchecked."""

import math
import numbers
from collections.abc import Sequence
from types import FunctionType
from typing import Any


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def check_data(name: str, value: Any) -> None:
    """Refuse a plain function, which can neither be compared nor saved."""
    if isinstance(value, FunctionType):
        raise ValueError(
            f"`{name}` must be a number or a schedule object (see "
            "`optim.schedule` and `optim.AbstractSchedule`); got the function "
            f"{value.__name__!r}."
        )


def check_known(name: str, value: str, known: Sequence[str]) -> None:
    """Refuse a name that is not among the known ones."""
    if value not in known:
        raise ValueError(f"`{name}` must be one of {', '.join(known)}; got {value!r}.")


def check_positive(name: str, value: Any) -> None:
    """Refuse a number that is not finite or not above 0."""
    check_data(name, value)
    if _is_number(value) and not (value > 0 and math.isfinite(value)):
        raise ValueError(f"`{name}` must be above 0 and finite; got {value}.")


def check_not_negative(name: str, value: Any) -> None:
    """Refuse a number that is not finite or below 0."""
    check_data(name, value)
    if _is_number(value) and not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"`{name}` must be at least 0 and finite; got {value}.")


def check_share(name: str, value: Any) -> None:
    """Refuse a number outside [0, 1]."""
    check_data(name, value)
    if _is_number(value) and not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be between 0 and 1; got {value}.")


def check_momentum(value: Any) -> None:
    """Refuse a momentum outside [0, 1)."""
    check_data("momentum", value)
    if _is_number(value) and not 0 <= value < 1:
        raise ValueError(f"`momentum` must be at least 0 and below 1; got {value}.")


def check_prior_mean(value: str) -> None:
    """Refuse a prior mean other than "zero" and "initial"."""
    if value not in ("zero", "initial"):
        raise ValueError(f"`prior_mean` must be 'zero' or 'initial'; got {value!r}.")


def check_finite_std(initial_p: Any, prior_precision: Any, max_std: Any) -> None:
    """Refuse p and lambda_1 for which 1 / (p + lambda_1) is negative or infinite."""
    if not (_is_number(initial_p) and _is_number(prior_precision)):
        return
    total = initial_p + prior_precision
    if total < 0 or math.isnan(total):
        raise ValueError(
            f"`initial_p` + `prior_precision`, the precision, must not be negative; "
            f"got {total}."
        )
    if total == 0 and max_std is None:
        raise ValueError(
            "`initial_p` + `prior_precision` must be above 0 without a `max_std`; "
            "got 0, an infinite standard deviation."
        )
