"""The users' arrays, frames, dicts and lists, converted output by output.

Frames may be those of pandas, polars or any other library that narwhals supports.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse

from motleygp.numerics.sharing import once_each
from motleygp.tables._native import as_array, as_narwhals, floats, is_missing
from motleygp.tables.columns import Column, as_column
from motleygp.tables.rows import aligned, labels_of

_DAY = np.timedelta64(1, "D")
# More outputs are a table whose rows and columns are swapped.
_MOST_OUTPUTS = 10_000


class Table(NamedTuple):
    """One x and one y per output, their names, the names of the input columns, the
    labels of each output's rows (`None` if they have none), whether each input column
    holds dates, and the weight and exposure of each row (`None` if none were given)."""

    xs: list[np.ndarray]
    columns: list[Column]
    names: list[str]
    features: list[str] | None
    labels: list[pd.Index | None]
    dates: list[bool]
    weights: list[np.ndarray] | None = None
    exposures: list[np.ndarray] | None = None

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
    own = vectors(Y)
    names = list(own)
    xs = _with_equal_columns(inputs(X, names), names)
    labels = _labels(xs, own.values())
    columns = [
        as_column(name, aligned(y, rows, f"output {name!r}"), (classes or {}).get(name))
        for (name, y), rows in zip(own.items(), labels, strict=True)
    ]
    known = [found for x in xs if (found := features(x)) is not None]
    inputs_named = known[0] if known else None
    matrices = once_each(as_matrix, xs)
    dates = [kind == "date" for kind in kinds(xs[0], matrices[0])]
    return Table(matrices, columns, names, inputs_named, labels, dates)


def as_columns(
    Y: Any, classes: Classes | None = None, labels: pd.Index | None = None
) -> dict[str, Column]:
    """The outputs of Y by name, in the order of the labels of other rows if both have
    labels."""
    return {
        name: as_column(
            name, aligned(y, labels, f"output {name!r}"), (classes or {}).get(name)
        )
        for name, y in vectors(Y).items()
    }


def _labels(xs: Sequence[Any], ys: Iterable[Any]) -> list[pd.Index | None]:
    """The labels of each output's rows: those of its inputs or, if these have none, of
    the first output with the same inputs that has labels."""
    found = {id(x): labels_of(x) for x in xs}
    for x, y in zip(xs, ys, strict=True):
        if found[id(x)] is None:
            found[id(x)] = labels_of(y)
    return [found[id(x)] for x in xs]


def _with_equal_columns(xs: list[Any], names: Sequence[str]) -> list[Any]:
    """The inputs of each output, with the columns of the first frame in its order."""
    every = zip(names, once_each(features, xs), strict=True)
    known = [(name, own) for name, own in every if own is not None]
    if not known:
        return xs
    first, columns = known[0]
    for name, own in known:
        if sorted(own) != sorted(columns):
            raise ValueError(
                f"`X` must have the same columns for every output; got {columns} for "
                f"{first!r} and {own} for {name!r}."
            )

    def ordered(x: Any) -> Any:
        return x if features(x) in (None, columns) else select(x, columns)

    return once_each(ordered, xs)


def inputs(X: Any, names: Sequence[str]) -> list[Any]:
    """The unconverted inputs of each output: its own, or those that all share."""
    check_dense(X)  # one kind of sparse matrix is a mapping
    if isinstance(X, Mapping):
        own = {str(name): x for name, x in X.items()}
        if set(own) != set(names):
            raise ValueError(
                f"`X` and `Y` must name the same outputs; got {sorted(own)} "
                f"and {sorted(names)}."
            )
        return [own[name] for name in names]
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
    """The names of the columns of a frame; `None` for other values."""
    frame = as_narwhals(X)
    return [str(c) for c in frame.columns] if isinstance(frame, nw.DataFrame) else None


def like(X: Any, columns: Mapping[str, Any]) -> Any:
    """A frame of the same library as X, with the index of X if it has one."""
    if isinstance(X, pd.DataFrame):
        return pd.DataFrame(columns, index=X.index)
    return nw.from_dict(columns, backend=nw.get_native_namespace(X)).to_native()


def select(X: Any, names: Sequence[str]) -> Any:
    """The named columns of a frame, in this order."""
    frame = nw.from_native(X, eager_only=True)
    places = [str(c) for c in frame.columns]
    return frame[:, [places.index(name) for name in names]].to_native()


def named_columns(frame: nw.DataFrame, argument: str) -> dict[str, nw.Series]:
    """The columns of a frame by name; names that are numbers become text."""
    names = [str(c) for c in frame.columns]
    twice = [name for name, number in Counter(names).items() if number > 1]
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
    found = _vectors(Y)
    if not 1 <= len(found) <= _MOST_OUTPUTS:
        raise ValueError(
            f"`Y` must have at least one output and at most {_MOST_OUTPUTS}, in its "
            f"columns; got {len(found)}."
        )
    return found


def _vectors(Y: Any) -> dict[str, Any]:
    if isinstance(Y, Mapping):
        own = {str(name): y for name, y in Y.items()}
        if len(own) < len(Y):
            raise ValueError(f"`Y` must have distinct names; got {list(Y)}.")
        return own
    known = as_narwhals(Y)
    if isinstance(known, nw.DataFrame):
        return named_columns(known, "Y")
    if isinstance(known, nw.Series):
        return {"y0" if known.name in (None, "") else str(known.name): known}
    if _is_list_of_vectors(Y):
        return {f"y{d}": y for d, y in enumerate(Y)}
    matrix = _regular(Y)
    if matrix is None or (matrix.dtype == object and matrix.ndim == 0):
        raise ValueError("`Y` must hold numbers in rows of equal length.")
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise ValueError(f"`Y` must have shape (N, D); got {matrix.shape}.")
    return {f"y{d}": column for d, column in enumerate(matrix.T)}


def _regular(Y: Any) -> np.ndarray | None:
    """An array, masked if Y is; `None` if the rows differ in length."""
    try:
        return Y if np.ma.isMaskedArray(Y) else np.asarray(Y)
    except ValueError:
        return None


# Inputs.


def as_matrix(x: Any, *, name: str = "X") -> np.ndarray:
    """An array of floats, or a `ValueError` if `x` does not hold numbers.

    Dates and times become days since 1970.
    """
    frame = as_narwhals(x)
    if isinstance(frame, nw.DataFrame):
        columns = [
            _input(c, series, name) for c, series in named_columns(frame, name).items()
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
    check_dense(x, name)
    try:
        array = as_array(x)
        if array.dtype.kind == "M":
            return _days(array)
        if array.dtype.kind != "c":
            return np.asarray(array, dtype=float)
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


def kinds(x: Any, matrix: np.ndarray) -> list[str]:
    """The kind of each column of x, of which `matrix` has the numbers: "date",
    "integer" or "other"."""
    frame = as_narwhals(x)
    if isinstance(frame, nw.DataFrame):
        types = frame.schema.dtypes()
        found = [(t in (nw.Date, nw.Datetime), t.is_integer()) for t in types]
    else:
        kind = as_array(x).dtype.kind
        found = [(kind == "M", kind in "iu")] * (matrix.shape[-1] if matrix.ndim else 0)
    return ["date" if d else "integer" if i else "other" for d, i in found]


def _days(dates: np.ndarray) -> np.ndarray:
    """Days since 1970, NaN for a missing date."""
    moments = dates.astype("datetime64[us]")
    days = (moments - np.datetime64(0, "us")) / _DAY
    return np.where(np.isnat(moments), np.nan, days)
