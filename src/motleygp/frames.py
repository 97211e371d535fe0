"""What users bring: arrays, frames, dicts and lists, as one list per output."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Table(NamedTuple):
    """One x and one y per output, their names, and the names of the input columns."""

    xs: list[np.ndarray]
    ys: list[np.ndarray]
    names: list[str]
    features: list[str] | None


def as_table(X: Any, Y: Any) -> Table:
    """X and Y in any of their forms, output by output.

    Y is a matrix, a frame, or a dict or list of vectors; X is a matrix or frame that
    all outputs share, or a dict or list of them, one per output.
    """
    columns = _columns(Y)
    names = list(columns)
    if isinstance(X, Mapping):
        if set(X) != set(names):
            raise ValueError(
                f"`X` and `Y` must name the same outputs; got {sorted(X)} "
                f"and {sorted(names)}."
            )
        xs = [X[name] for name in names]
    elif _is_list_of_matrices(X):
        if len(X) != len(names):
            raise ValueError(
                f"`X` must hold one matrix per output; got {len(X)} matrices "
                f"and {len(names)} outputs."
            )
        xs = list(X)
    else:
        xs = [X] * len(names)
    return Table([as_matrix(x) for x in xs], list(columns.values()), names, features(X))


def features(X: Any) -> list[str] | None:
    """The names of the input columns, where X has any."""
    if isinstance(X, Mapping):
        X = next(iter(X.values()))
    elif _is_list_of_matrices(X):
        X = X[0]
    return [str(c) for c in X.columns] if isinstance(X, pd.DataFrame) else None


def _is_list_of_matrices(X: Any) -> bool:
    if not isinstance(X, list | tuple) or not X:
        return False
    return all(isinstance(x, np.ndarray | pd.DataFrame) and x.ndim == 2 for x in X)


def _is_list_of_vectors(Y: Any) -> bool:
    if not isinstance(Y, list | tuple) or not Y:
        return False
    return all(isinstance(y, np.ndarray | pd.Series) and y.ndim == 1 for y in Y)


def _columns(Y: Any) -> dict[str, np.ndarray]:
    if isinstance(Y, Mapping):
        return {str(name): _vector(y) for name, y in Y.items()}
    if isinstance(Y, pd.DataFrame):
        return {str(name): _vector(Y[name]) for name in Y.columns}
    if isinstance(Y, pd.Series):
        return {"y0" if Y.name is None else str(Y.name): _vector(Y)}
    if _is_list_of_vectors(Y):
        return {f"y{d}": _vector(y) for d, y in enumerate(Y)}
    matrix = as_matrix(Y, name="Y")
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise ValueError(f"`Y` must have shape (N, D); got {matrix.shape}.")
    return {f"y{d}": column for d, column in enumerate(matrix.T)}


def _vector(y: Any) -> np.ndarray:
    if isinstance(y, pd.Series):
        try:
            return y.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError):
            raise ValueError(f"output {y.name!r} must hold numbers.") from None
    return np.asarray(y)


def as_matrix(x: Any, *, name: str = "X") -> np.ndarray:
    """A matrix of numbers, or a `ValueError` that says that it is not one."""
    try:
        if isinstance(x, pd.DataFrame):
            return x.to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(x, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must hold numbers in equal rows.") from None


def by_output(outputs: Mapping[str, Any] | Sequence[Any], names: Sequence[str]) -> list:
    """The entry of `outputs` for each name, keyed or in column order."""
    if isinstance(outputs, Mapping):
        missing = [name for name in names if name not in outputs]
        unknown = [name for name in outputs if name not in names]
        if missing or unknown:
            raise ValueError(
                f"`outputs` must name the columns of `Y`, {list(names)}; "
                f"got {list(outputs)}."
            )
        return [outputs[name] for name in names]
    if isinstance(outputs, str) or len(outputs) != len(names):
        raise ValueError(
            f"`outputs` must have one entry per output, {len(names)}; got {outputs!r}."
        )
    return list(outputs)
