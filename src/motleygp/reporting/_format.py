"""Numbers as text, for tables and remarks."""

from typing import Any

import numpy as np

# What is shown in place of a number that is not finite.
_INFINITE, _UNDEFINED = "\u221e", "undefined"


def shown(value: Any) -> str:
    """A value of a table: a number, a date or a text."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}" if np.isfinite(value) else _not_finite(float(value))
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return _date(value) if isinstance(value, np.datetime64) else str(value)


def _not_finite(value: float) -> str:
    if np.isnan(value):
        return _UNDEFINED
    return _INFINITE if value > 0 else f"\u2212{_INFINITE}"


def _date(value: np.datetime64) -> str:
    """A date, with the time of the day unless it is midnight."""
    for unit in ("D", "m", "s"):
        if value == value.astype(f"datetime64[{unit}]"):
            return str(np.datetime_as_string(value, unit=unit)).replace("T", " ")
    return str(np.datetime_as_string(value, unit="ms")).replace("T", " ")


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage."""
    return f"{100.0 * share:.{digits}f}\u00a0%"


def careful_percent(share: float) -> str:
    """A percentage that shows 0 and 100 only for none and all."""
    if not np.isfinite(share):
        return _UNDEFINED
    fine = 0.0 < share < 0.01 or 0.99 < share < 1.0
    return percent(share, 1 if fine else 0)
