"""Columns with their missing values filled, in the type that they had if possible."""

from typing import Any

import narwhals as nw
import numpy as np

from motleygp.tables._native import as_narwhals


def filled(y: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    """The column y, with `values` where it is missing.

    Whole numbers become real ones if a value is not whole.
    """
    series = as_narwhals(y)
    if isinstance(series, nw.Series):
        return _filled_series(series, missing, values).to_native()
    array = np.ma.getdata(y) if np.ma.isMaskedArray(y) else np.asarray(y)
    if not missing.any():
        return array
    new = values[missing]
    if array.dtype.kind in "biu" and (new != new.astype(array.dtype)).any():
        array = array.astype(float)
    array = array.astype(object) if new.dtype == object else array.copy()
    array[missing] = new
    return array


def _filled_series(
    series: nw.Series, missing: np.ndarray, values: np.ndarray
) -> nw.Series:
    places, new, dtype = np.flatnonzero(missing).tolist(), values[missing], series.dtype
    if not places:
        return series
    if dtype.is_integer() and (new != np.round(new)).any():
        return series.cast(nw.Float64).scatter(places, new.tolist())
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return series.cast(nw.String).scatter(places, new.tolist()).cast(dtype)
    if dtype == nw.Object and series.implementation.is_polars():  # it has no scatter
        whole = np.array(series.to_list(), dtype=object)
        whole[places] = new
        return nw.new_series(series.name, whole.tolist(), backend="polars")
    if dtype.is_integer():
        new = new.astype(int)
    elif dtype == nw.Float32:
        new = new.astype(np.float32)
    return series.scatter(places, new.tolist())
