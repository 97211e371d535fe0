"""Arguments that users give by output: one number per row, or one entry each."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from motleygp.numerics.sharing import as_floats
from motleygp.tables._native import as_array, as_narwhals, floats
from motleygp.tables.frames import named_columns
from motleygp.tables.rows import aligned, row_name

# A weight is a number of rows, and an exposure a length of time or a population.
_MOST = 1e15


def by_name(value: Any, argument: str) -> dict[str, Any] | None:
    """The entries of a dict, or the columns of a frame, by name; otherwise `None`."""
    if isinstance(value, Mapping):
        return {str(name): own for name, own in value.items()}
    frame = as_narwhals(value)
    return named_columns(frame, argument) if isinstance(frame, nw.DataFrame) else None


def per_row(
    value: Any,
    names: Sequence[str],
    lengths: Sequence[int],
    labels: Sequence[pd.Index | None],
    argument: str,
) -> list[np.ndarray]:
    """One number per row of each output, from a vector for all outputs, or a dict or a
    frame of vectors by output; outputs that are left out get ones."""
    named = by_name(value, argument)
    own = dict.fromkeys(names, value) if named is None else named
    unknown = [name for name in own if name not in names]
    if unknown:
        raise ValueError(
            f"`{argument}` must name the outputs {list(names)}; got {unknown[0]!r}."
        )
    found = []
    for name, length, rows in zip(names, lengths, labels, strict=True):
        given = aligned(own.get(name, np.ones(length)), rows, f"`{argument}`")
        numbers = _numbers(given, f"`{argument}`")
        if numbers.shape != (length,):
            raise ValueError(
                f"`{argument}` must have one number per row, {length}; "
                f"got shape {numbers.shape}."
            )
        found.append(numbers)
    return found


def _numbers(given: Any, what: str) -> np.ndarray:
    series = as_narwhals(given)
    if not isinstance(series, nw.Series):
        return as_floats(as_array(series), what)
    return floats(series) if series.dtype.is_numeric() else as_floats(series, what)


def check_per_row(
    argument: str,
    numbers: np.ndarray,
    labels: pd.Index | None,
    *,
    zero: bool,
) -> None:
    """Raise a `ValueError` for the first number that is not finite, that is negative,
    huge or, unless `zero` is allowed, 0."""
    wrong = ~((numbers >= 0) & (numbers <= _MOST)) | ((numbers == 0) & (not zero))
    if wrong.any():
        row = int(np.argmax(wrong))
        rule = "finite and not negative" if zero else "finite and above 0"
        if _MOST < numbers[row] < np.inf:
            rule = f"at most {_MOST:g}"
        raise ValueError(
            f"`{argument}` must be {rule}; got {numbers[row]:g} in "
            f"{row_name(labels, row)}."
        )


def by_output(outputs: Any, names: Sequence[str]) -> list[Any]:
    """The entry of `outputs` for each name, by key or in column order.

    A name that a mapping leaves out is "auto".
    """
    if isinstance(outputs, Mapping):
        own = by_name(outputs, "outputs") or {}
        if any(name not in names for name in own):
            raise ValueError(
                f"`outputs` must name the columns of `Y`, {list(names)}; "
                f"got {list(outputs)}."
            )
        return [own.get(name, "auto") for name in names]
    if isinstance(outputs, str) and outputs == "auto":
        return ["auto"] * len(names)
    if isinstance(outputs, str) or not isinstance(outputs, Sequence | np.ndarray):
        raise ValueError(
            "`outputs` must be 'auto', or name a likelihood per output in a dict or a "
            f"list; got {outputs!r}."
        )
    if len(outputs) != len(names):
        raise ValueError(
            f"`outputs` must have one entry per output, {len(names)}; got {outputs!r}."
        )
    return list(outputs)
