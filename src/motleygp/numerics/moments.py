"""Sample moments in NumPy."""

from typing import Any

import numpy as np


def mean_and_variance(y: np.ndarray, weight: np.ndarray | None = None) -> Any:
    """The mean and variance along the first axis; a value of weight w counts w times,
    and once without weights."""
    mean = np.average(y, axis=0, weights=weight)
    return mean, np.average((y - mean) ** 2, axis=0, weights=weight)
