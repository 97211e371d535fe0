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
    except nw.exceptions.DuplicateError as error:
        said = " ".join(str(error).split())
        raise ValueError(f"a frame must have distinct column names. {said}") from None


def floats(series: nw.Series) -> np.ndarray:
    return series.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(float)


def is_missing(value: Any) -> bool:
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    return isinstance(value, float) and bool(np.isnan(value))
