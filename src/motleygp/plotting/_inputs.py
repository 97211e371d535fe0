"""The inputs of rows to draw: their columns, names and dates."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.dates import date2num

from motleygp.prediction.diagrams import as_dates, date_columns
from motleygp.tables import frames

# The most inputs whose fixed values a label names.
_MOST_FIXED = 4


class Inputs(NamedTuple):
    """Rows of inputs as numbers, the names of the columns, and which hold dates."""

    matrix: np.ndarray
    names: list[str]
    dates: frozenset[int]

    def placed(self, axis: Axis, place: int, values: np.ndarray) -> np.ndarray:
        """Values of an input as numbers on an axis, which then shows dates as such."""
        if place not in self.dates:
            return values
        axis.axis_date()
        return np.asarray(date2num(as_dates(values)))

    def frame(self, rows: np.ndarray) -> pd.DataFrame:
        """Rows of numbers as a frame with these names and dates."""
        columns = {
            name: as_dates(column) if place in self.dates else column
            for place, (name, column) in enumerate(zip(self.names, rows.T, strict=True))
        }
        return pd.DataFrame(columns)

    def fixed(self, varies: int) -> str:
        """The values of all inputs but one, in words; empty without others."""
        others = [p for p in range(len(self.names)) if p != varies]
        if len(others) > _MOST_FIXED:
            return f"{len(others)} other inputs fixed"
        return ", ".join(f"{self.names[p]} = {self._text(p)}" for p in others)

    def _text(self, place: int) -> str:
        value = self.matrix[0, place]
        if place in self.dates:
            return str(as_dates(value).astype("datetime64[D]"))
        return f"{value:.4g}"


def read(x: Any, argument: str, names: list[str] | None = None) -> Inputs:
    """Inputs from an array, a series or a frame; without names of their own, they have
    `names` or "x0", "x1", ..."""
    matrix = frames.as_matrix(x, name=argument)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    own = frames.features(x) if frames.is_frame(x) else None
    own = own or names or []
    if len(own) != matrix.shape[-1]:
        own = [f"x{p}" for p in range(matrix.shape[-1])]
    return Inputs(matrix, own, frozenset(date_columns(x)))


def column(x: Any, argument: str) -> tuple[Inputs, np.ndarray]:
    """One input, as a vector or as a matrix of one row or column."""
    inputs = read(x, argument)
    return inputs, inputs.matrix.ravel()
