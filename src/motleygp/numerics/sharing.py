"""Conversion of users' arrays to floats, once for an array that outputs share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_ALIGNMENT = 64  # in bytes, of the arrays that XLA takes as they are


def once_each(fn: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Apply `fn` to each item, once for an object that occurs several times."""
    found = {id(item): item for item in items}
    found = {key: fn(item) for key, item in found.items()}
    return [found[id(item)] for item in items]


def one_object(xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same arrays, with equal arrays as one object."""
    distinct: list[np.ndarray] = []

    def first(x: np.ndarray) -> np.ndarray:
        same = next((other for other in distinct if np.array_equal(other, x)), None)
        if same is None:
            distinct.append(x)
        return x if same is None else same

    return once_each(first, xs)


def aligned(shape: Sequence[int]) -> np.ndarray:
    """An empty array of floats, placed so that `jax.device_put` need not copy it on a
    CPU."""
    size = int(np.prod(shape)) * np.dtype(float).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(float).reshape(shape)


def as_floats(values: Any, what: str) -> np.ndarray:
    """`values` as an array of floats; `what` names them in a `ValueError`."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must hold numbers.") from None
