"""The user's own names of rows and inputs: the labels of an index, and dates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd

from motleygp.prediction import Fitted
from motleygp.prediction.diagrams import as_dates
from motleygp.reporting._format import shown
from motleygp.tables import frames


class Labels(NamedTuple):
    """The labels of the rows of some outputs, by name, and the inputs that are dates,
    by number."""

    indexes: Mapping[str, pd.Index]
    dates: frozenset[int]

    def rows(self, output: str, numbers: np.ndarray) -> list[str]:
        """The labels of some rows of an output: their numbers if it has no labels."""
        index = self.indexes.get(output)
        if index is None:
            return [str(number) for number in numbers]
        return [_text(label) for label in index[numbers]]

    def along(self, place: int, values: np.ndarray) -> np.ndarray:
        """Values of an input: dates if it holds dates, else the numbers."""
        return as_dates(values) if place in self.dates else values


def labels(fitted: Fitted, X: Any, Y: Any) -> Labels:
    """The labels in the data of a report: those of X or, if it has none, of Y."""
    dates = frozenset(p for p, given in enumerate(fitted.dates) if given)
    if X is None:
        return Labels({}, dates)
    ys = frames.vectors(Y)
    xs = frames.inputs(X, list(ys))
    found = {}
    for (name, y), x in zip(ys.items(), xs, strict=True):
        index = _index(x)
        index = _index(y) if index is None else index
        if index is not None:
            found[name] = index
    return Labels(found, dates)


def _index(table: Any) -> pd.Index | None:
    native = nw.to_native(table, pass_through=True)
    return native.index if isinstance(native, pd.DataFrame | pd.Series) else None


def _text(label: Any) -> str:
    if isinstance(label, tuple):
        return ", ".join(_text(part) for part in label)
    if isinstance(label, pd.Timestamp):
        return shown(label.tz_localize(None).to_datetime64())
    return str(label)
