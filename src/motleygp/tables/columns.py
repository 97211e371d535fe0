"""One output as numbers, from bools, integers, reals or labels of two classes."""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from motleygp.tables._native import as_array, as_narwhals, floats, is_missing

# The most categories that a message names.
_SHOWN = 5


class Column(NamedTuple):
    """One output: its values as numbers, NaN where missing; their original type,
    "bool", "integer" or "real"; and the labels of 0 and 1, if it has labels."""

    values: np.ndarray
    kind: str
    classes: tuple[Any, Any] | None = None


def as_column(name: str, y: Any, classes: tuple[Any, Any] | None) -> Column:
    """One output as numbers, or a `ValueError` that names it."""
    series = as_narwhals(y)
    if isinstance(series, nw.Series):
        dtype = series.dtype
        if dtype.is_temporal():
            raise ValueError(f"output {name!r} must hold numbers; got dates or times.")
        if dtype == nw.Boolean:
            return Column(floats(series), "bool", (False, True))
        if dtype.is_integer():
            return Column(floats(series), "integer", classes)
        if dtype.is_numeric():
            return Column(floats(series), "real", classes)
        values = series.to_list()
    else:
        array = as_array(y)
        # A masked array of any kind may have become one of floats.
        kind = y.dtype.kind if isinstance(y, np.ndarray) else array.dtype.kind
        if kind == "b":
            return Column(array.astype(float), "bool", (False, True))
        if kind in "iu":
            return Column(array.astype(float), "integer", classes)
        if kind == "f":
            return Column(array.astype(float), "real", classes)
        if kind == "c":
            raise ValueError(
                f"output {name!r} must hold real numbers. Complex data not supported."
            )
        if kind in "mM":
            raise ValueError(f"output {name!r} must hold numbers; got dates or times.")
        values = array.tolist()
        if not isinstance(values, list):
            raise ValueError(f"output {name!r} must hold numbers.")
    return _from_objects(name, values, classes)


def _from_objects(
    name: str, values: list[Any], classes: tuple[Any, Any] | None
) -> Column:
    """Numbers mixed with None, or labels of two classes."""
    missing = np.array([is_missing(value) for value in values], dtype=bool)
    present = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if all(isinstance(v, str) for v in present) and present:
        return _labels(name, values, missing, classes)
    try:
        numbers = [np.nan if is_missing(v) else float(v) for v in values]
    except (TypeError, ValueError):
        raise ValueError(f"output {name!r} must hold numbers.") from None
    only_bool = bool(present) and all(isinstance(v, bool | np.bool_) for v in present)
    only_int = bool(present) and all(isinstance(v, int | np.integer) for v in present)
    kind = "bool" if only_bool else "integer" if only_int else "real"
    return Column(np.array(numbers), kind, (False, True) if only_bool else classes)


def _labels(
    name: str,
    values: list[Any],
    missing: np.ndarray,
    classes: tuple[Any, Any] | None,
) -> Column:
    """Two classes as 0 and 1, in alphabetical order or in that of an earlier table."""
    found = sorted({v for v, gone in zip(values, missing, strict=True) if not gone})
    if classes is None:
        if len(found) != 2:
            some = ", ".join(repr(v) for v in found[:_SHOWN])
            raise ValueError(
                f"output {name!r} must hold numbers or two classes; got {len(found)} "
                f"classes: {some}{', ...' if len(found) > _SHOWN else ''}."
            )
        classes = (found[0], found[1])
    unknown = [v for v in found if v not in classes]
    if unknown:
        raise ValueError(
            f"output {name!r} must hold the classes {list(classes)} of `fit`; "
            f"got {unknown[0]!r}."
        )
    codes = [
        np.nan if gone else float(classes.index(v))
        for v, gone in zip(values, missing, strict=True)
    ]
    return Column(np.array(codes), "bool", classes)
