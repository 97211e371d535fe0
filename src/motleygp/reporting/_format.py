"""Numbers as text, for tables and remarks."""

from typing import Any

import numpy as np

_NONE = "\u2013"


def shown(value: Any) -> str:
    """A value of a table; a dash for a missing one."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}" if np.isfinite(value) else _NONE
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return _NONE if value is None else str(value)


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage."""
    return f"{100.0 * share:.{digits}f}\u00a0%"


def careful_percent(share: float) -> str:
    """A percentage that shows 0 and 100 only for none and all; a dash for NaN."""
    if not np.isfinite(share):
        return _NONE
    fine = 0.0 < share < 0.01 or 0.99 < share < 1.0
    return percent(share, 1 if fine else 0)
