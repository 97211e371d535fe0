"""Frames and series of any library that narwhals supports."""

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse


def as_narwhals(value: Any) -> Any:
    """A narwhals frame or series, or the value itself."""
    if scipy.sparse.issparse(value):  # narwhals cannot inspect it
        return value
    try:
        return nw.from_native(
            value, eager_only=True, allow_series=True, pass_through=True
        )
    except nw.exceptions.DuplicateError:
        names = list(value.columns)
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"a frame must have distinct column names; got {twice!r} twice."
        ) from None


def as_array(value: Any) -> np.ndarray:
    """An array; what is masked is missing: NaN, NaT or `None`."""
    if isinstance(value, list | tuple) and any(map(np.ma.isMaskedArray, value)):
        value = np.ma.stack(value)
    if not isinstance(value, np.ma.MaskedArray):
        return np.asarray(value)
    if value.dtype.kind in "biuf":
        filled, missing = value.data.astype(float), np.nan
    elif value.dtype.kind in "mM":
        filled, missing = value.data.copy(), np.array("NaT", value.dtype)
    else:
        filled, missing = value.data.astype(object), None
    filled[np.ma.getmaskarray(value)] = missing
    return filled


def floats(series: nw.Series) -> np.ndarray:
    return series.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(float)


def is_missing(value: Any) -> bool:
    if value is None or value is pd.NA or value is pd.NaT or value is np.ma.masked:
        return True
    return isinstance(value, float) and bool(np.isnan(value))
