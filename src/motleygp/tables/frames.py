"""The users' arrays, frames, dicts and lists, converted output by output.

Frames may be those of pandas, polars or any other library that narwhals supports.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse

from motleygp.numerics.sharing import as_floats, once_each
from motleygp.tables._native import as_narwhals, floats, is_missing
from motleygp.tables.columns import Column, as_column

_DAY = np.timedelta64(1, "D")


class Table(NamedTuple):
    """One x and one y per output, their names, and the names of the input columns."""

    xs: list[np.ndarray]
    columns: list[Column]
    names: list[str]
    features: list[str] | None

    @property
    def ys(self) -> list[np.ndarray]:
        return [column.values for column in self.columns]


Classes = Mapping[str, tuple[Any, Any] | None]


def as_table(X: Any, Y: Any, classes: Classes | None = None) -> Table:
    """X and Y in any supported form, converted output by output.

    Y is a matrix, a frame, or a dict or list of vectors; X is a matrix or frame that
    all outputs share, or a dict or list of them, one per output. `classes` has the
    labels of an earlier table, by output.
    """
    columns = as_columns(Y, classes)
    names = list(columns)
    xs = once_each(as_matrix, inputs(X, names))
    return Table(xs, list(columns.values()), names, features(X))


def as_columns(Y: Any, classes: Classes | None = None) -> dict[str, Column]:
    """The outputs of Y by name."""
    return {
        name: as_column(name, y, (classes or {}).get(name))
        for name, y in vectors(Y).items()
    }


def inputs(X: Any, names: Sequence[str]) -> list[Any]:
    """The unconverted inputs of each output: its own, or those that all share."""
    check_dense(X)  # one kind of sparse matrix is a mapping
    if isinstance(X, Mapping):
        if set(X) != set(names):
            raise ValueError(
                f"`X` and `Y` must name the same outputs; got {sorted(X)} "
                f"and {sorted(names)}."
            )
        return [X[name] for name in names]
    if _is_list_of_matrices(X):
        if len(X) != len(names):
            raise ValueError(
                f"`X` must hold one matrix per output; got {len(X)} matrices "
                f"and {len(names)} outputs."
            )
        return list(X)
    return [X] * len(names)


def check_dense(X: Any, name: str = "X") -> None:
    """Raise a `ValueError` for a sparse matrix."""
    if scipy.sparse.issparse(X):
        raise ValueError(
            f"`{name}` must be dense: sparse input is not supported; use X.toarray()."
        )


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns."""
    return isinstance(as_narwhals(X), nw.DataFrame)


def features(X: Any) -> list[str] | None:
    """The names of the input columns, or `None` if X has no names."""
    if isinstance(X, Mapping):
        X = next(iter(X.values()))
    elif _is_list_of_matrices(X):
        X = X[0]
    frame = as_narwhals(X)
    return [str(c) for c in frame.columns] if isinstance(frame, nw.DataFrame) else None


def like(X: Any, columns: dict[str, np.ndarray]) -> Any:
    """A frame of the same library as X, with the index of X if it has one."""
    if isinstance(X, pd.DataFrame):
        return pd.DataFrame(columns, index=X.index)
    return nw.from_dict(columns, backend=nw.get_native_namespace(X)).to_native()


def select(X: Any, names: Sequence[str]) -> Any:
    """The named columns of a frame, in this order."""
    frame = nw.from_native(X, eager_only=True)
    places = [str(c) for c in frame.columns]
    return frame[:, [places.index(name) for name in names]].to_native()


def _named(frame: nw.DataFrame, argument: str) -> dict[str, nw.Series]:
    """The columns of a frame by name; names that are numbers become text."""
    names = [str(c) for c in frame.columns]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(
            f"`{argument}` must have distinct column names; got {twice[0]!r} twice."
        )
    return dict(zip(names, frame.iter_columns(), strict=True))


def _is_list_of_matrices(X: Any) -> bool:
    if not isinstance(X, list | tuple) or not X:
        return False
    return all((isinstance(x, np.ndarray) and x.ndim == 2) or is_frame(x) for x in X)


def _is_list_of_vectors(Y: Any) -> bool:
    if not isinstance(Y, list | tuple) or not Y:
        return False
    return all(
        (isinstance(y, np.ndarray) and y.ndim == 1)
        or isinstance(as_narwhals(y), nw.Series)
        for y in Y
    )


# Outputs.


def vectors(Y: Any) -> dict[str, Any]:
    """One vector per output, by name."""
    if isinstance(Y, Mapping):
        return {str(name): y for name, y in Y.items()}
    known = as_narwhals(Y)
    if isinstance(known, nw.DataFrame):
        return _named(known, "Y")
    if isinstance(known, nw.Series):
        return {str(known.name) if known.name else "y0": known}
    if _is_list_of_vectors(Y):
        return {f"y{d}": y for d, y in enumerate(Y)}
    matrix = np.asarray(Y) if _is_regular(Y) else None
    if matrix is None or (matrix.dtype == object and matrix.ndim == 0):
        raise ValueError("`Y` must hold numbers in rows of equal length.")
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise ValueError(f"`Y` must have shape (N, D); got {matrix.shape}.")
    return {f"y{d}": column for d, column in enumerate(matrix.T)}


def _is_regular(Y: Any) -> bool:
    try:
        np.asarray(Y)
    except ValueError:
        return False
    return True


# Inputs.


def as_matrix(x: Any, *, name: str = "X") -> np.ndarray:
    """An array of floats, or a `ValueError` if `x` does not hold numbers.

    Dates and times become days since 1970.
    """
    frame = as_narwhals(x)
    if isinstance(frame, nw.DataFrame):
        columns = [_input(c, series, name) for c, series in _named(frame, name).items()]
        return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
    check_dense(x, name)
    try:
        array = np.asarray(x)
        if array.dtype.kind == "M":
            return _days(array)
        if array.dtype.kind != "c":
            return np.asarray(x, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must hold numbers in rows of equal length."
        ) from None
    raise ValueError(f"`{name}` must hold real numbers. Complex data not supported.")


def _input(column: str, series: nw.Series, name: str) -> np.ndarray:
    dtype = series.dtype
    if dtype in (nw.Date, nw.Datetime):
        return _days(series.to_numpy())
    if dtype == nw.Boolean or dtype.is_numeric():
        return floats(series)
    values = series.to_list()
    try:
        if not any(isinstance(v, str) for v in values):
            return np.array([np.nan if is_missing(v) else float(v) for v in values])
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"`{name}` must hold numbers; column {column!r} holds {dtype}: encode it, for "
        "example as one column of 0 and 1 per category."
    )


def _days(dates: np.ndarray) -> np.ndarray:
    """Days since 1970, NaN for a missing date."""
    moments = dates.astype("datetime64[us]")
    days = (moments - np.datetime64(0, "us")) / _DAY
    return np.where(np.isnat(moments), np.nan, days)


def per_row(
    value: Any, names: Sequence[str], lengths: Sequence[int], argument: str
) -> list[np.ndarray]:
    """One number per row of each output, from a vector for all outputs or a dict of
    vectors by output; outputs that a dict leaves out get ones."""
    own = value if isinstance(value, Mapping) else dict.fromkeys(names, value)
    unknown = [name for name in own if name not in names]
    if unknown:
        raise ValueError(
            f"`{argument}` must name the outputs {list(names)}; got {unknown[0]!r}."
        )
    found = []
    for name, length in zip(names, lengths, strict=True):
        series = as_narwhals(own.get(name, np.ones(length)))
        numbers = series.to_numpy() if isinstance(series, nw.Series) else series
        numbers = as_floats(numbers, f"`{argument}`")
        if numbers.shape != (length,):
            raise ValueError(
                f"`{argument}` must have one number per row, {length}; "
                f"got shape {numbers.shape}."
            )
        if not np.isfinite(numbers).all() or (numbers < 0).any():
            bad = numbers[~np.isfinite(numbers) | (numbers < 0)][0]
            raise ValueError(
                f"`{argument}` must be finite and not negative; got {bad}."
            )
        found.append(numbers)
    return found


def by_output(outputs: Mapping[str, Any] | Sequence[Any], names: Sequence[str]) -> list:
    """The entry of `outputs` for each name, by key or in column order.

    A name that a mapping leaves out is "auto".
    """
    if isinstance(outputs, Mapping):
        if any(name not in names for name in outputs):
            raise ValueError(
                f"`outputs` must name the columns of `Y`, {list(names)}; "
                f"got {list(outputs)}."
            )
        return [outputs.get(name, "auto") for name in names]
    if isinstance(outputs, str) or len(outputs) != len(names):
        raise ValueError(
            f"`outputs` must have one entry per output, {len(names)}; got {outputs!r}."
        )
    return list(outputs)
