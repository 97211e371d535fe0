"""Tables in files: CSV, TSV, either gzipped, and Parquet."""

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from motleygp_cli.dates import parsed, with_dates
from motleygp_cli.errors import UsageError
from motleygp_cli.places import check_place, replace

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_NUMBERS = " Give it as numbers, for example of days."
_ENCODE = " Encode categories, for example as one column of 0 and 1 each."


def _kind(path: Path) -> str:
    """The ending of a file name that gives its format, without ".gz"."""
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if ending.lower() not in (*_SEPARATORS, ".parquet"):
        raise UsageError(
            f"{str(path)!r} must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet."
        )
    return ending.lower()


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise UsageError(
            "Parquet needs polars: pip install 'motleygp[parquet]'."
        ) from None
    return polars


def read(path: Path) -> Any:
    """Read a table: text as a pandas frame, Parquet as a polars frame.

    Text in the form of ISO dates becomes dates.
    """
    kind = _kind(path)
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}.")
    try:
        if kind == ".parquet":
            table = _polars().read_parquet(path)
        else:
            table = _read_text(path, _SEPARATORS[kind])
    except (UsageError, PermissionError):
        raise
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{str(path)!r} cannot be read: it must be text in UTF-8; got the byte "
            f"{error.object[error.start]:#04x} in position {error.start}."
        ) from None
    # The readers raise many types of errors for a broken file.
    except Exception as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from None
    if not len(table):
        raise ValueError(f"{str(path)!r} must have rows; got none.")
    return with_dates(table)


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    """Read text in UTF-8. The last values of a short row are missing."""
    first = pd.read_csv(
        path, sep=separator, header=None, nrows=1, dtype=str, na_filter=False
    )
    header = [str(name) for name in first.iloc[0]]
    other = [mark for mark in ";,\t|" if mark != separator and mark in header[0]]
    if len(header) == 1 and other:
        raise ValueError(
            f"columns must be separated by {separator!r}; got {other[0]!r} in the "
            "first line."
        )
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise ValueError(
            f"every column must have a name of its own; got {twice[0]!r} twice."
        )
    with warnings.catch_warnings():
        # pandas drops values with a mere warning where all rows are too long.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # Without low_memory=False, parts of a column may have different types.
            return pd.read_csv(path, sep=separator, index_col=False, low_memory=False)
        except pd.errors.ParserWarning:
            raise ValueError(
                f"rows must have one value per column, {len(header)}; got more."
            ) from None


def names(table: Any) -> list[str]:
    """The names of the columns."""
    return [str(name) for name in table.columns]


def select(table: Any, wanted: Sequence[str], what: str) -> Any:
    """The columns `wanted` of a table; `what` names them in the error."""
    absent = [name for name in wanted if name not in names(table)]
    if absent:
        raise UsageError(
            f"{what} must name columns of the table, {', '.join(names(table))}; "
            f"got {absent[0]!r}."
        )
    return table[list(wanted)]


def check_inputs(X: Any) -> None:
    """Raise a `ValueError` for the first input that is not a number or a date."""
    for name in names(X):
        column = nw.from_native(X[name], series_only=True)
        dtype = column.dtype
        if dtype.is_nested() or dtype in (nw.Binary, nw.Duration, nw.Time):
            span = dtype in (nw.Duration, nw.Time)
            raise ValueError(
                f"input {name!r} must hold numbers or dates; got the type {dtype}."
                f"{_NUMBERS if span else ''}"
            )
        usable, kind = _usable(column)
        wrong = np.flatnonzero(~usable)
        if len(wrong):
            value, more = column[int(wrong[0])], len(wrong) - 1
            raise ValueError(
                f"input {name!r} must have a {kind} in every row; got "
                f"{'nothing' if pd.isna(value) else repr(value)} in row {wrong[0]}"
                f"{f' and {more} more' if more else ''}."
                f"{_ENCODE if isinstance(value, str) and 'date' not in kind else ''}"
            )
        if dtype in (nw.String, nw.Categorical, nw.Enum):
            raise ValueError(f"input {name!r} must hold numbers or dates; got text.")


def _usable(column: nw.Series) -> tuple[np.ndarray, str]:
    """Mark the rows in which a column has what it should have: a finite number or, if
    it has dates, a date."""
    date, number = "date in ISO form (2024-03-31)", "finite number"
    if column.dtype.is_temporal():
        return ~column.is_null().to_numpy(), "date"
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return np.isfinite(column.cast(nw.Float64).to_numpy().astype(float)), number
    values = column.to_list()
    dates = ~np.isnat(parsed(values))
    if dates.any():
        return dates, date
    numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce")
    return np.isfinite(np.asarray(numbers, dtype=float)), number


def write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write a table. An older file stays until the new one is complete."""
    kind = _kind(path)

    def put(there: Path) -> None:
        if kind == ".parquet":
            plain = {name: _without_nan(column) for name, column in columns.items()}
            # polars does not raise an `OSError` on a full disk; `write_bytes` does.
            whole = io.BytesIO()
            _polars().DataFrame(plain).write_parquet(whole)
            there.write_bytes(whole.getbuffer())
        else:
            compression: Any = "gzip" if path.suffix == ".gz" else None
            pd.DataFrame(columns).to_csv(
                there, sep=_SEPARATORS[kind], index=False, compression=compression
            )

    replace(path, put)


def _without_nan(column: Any) -> Any:
    """Labels with None where one is missing; numbers stay as they are."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values
    return [None if pd.isna(value) else value for value in values.tolist()]


def check_table_place(path: Path, *read: Path) -> None:
    """Check the ending of a table's name as well as its place."""
    _kind(path)
    check_place(path, *read)
