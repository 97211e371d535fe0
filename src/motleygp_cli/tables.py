"""Tables in files: CSV, TSV, either gzipped, and Parquet."""

import errno
import io
import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from motleygp_cli import UsageError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_ENCODE = " Encode categories, for example as one column of 0 and 1 each."


def _kind(path: Path) -> str:
    """The ending that says what a file is, without ".gz"."""
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
    """A table: a pandas frame of text files, a polars frame of Parquet."""
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
    # Whatever a reader makes of a broken file: it has many names for it.
    except Exception as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from None
    if not len(table):
        raise ValueError(f"{str(path)!r} must have rows; got none.")
    return table


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    """A table from text in UTF-8; a row that is too short lacks its last values."""
    first = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)
    header = [str(name) for name in first.iloc[0]]
    other = [mark for mark in ";,\t|" if mark != separator and mark in header[0]]
    if len(header) == 1 and other:
        raise ValueError(
            f"columns must be separated by {separator!r}; the first line has "
            f"{other[0]!r}."
        )
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise ValueError(
            f"every column must have a name of its own; got {twice[0]!r} twice."
        )
    with warnings.catch_warnings():
        # Of rows that are all too long, pandas would drop the ends with a warning.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # In one go, so that a column is of one type from end to end.
            return pd.read_csv(path, sep=separator, index_col=False, low_memory=False)
        except pd.errors.ParserWarning:
            raise ValueError(
                f"rows must have one value per column, {len(header)}; got more."
            ) from None


def names(table: Any) -> list[str]:
    """The names of its columns."""
    return [str(name) for name in table.columns]


def select(table: Any, wanted: Sequence[str], what: str) -> Any:
    """Some columns of a table."""
    absent = [name for name in wanted if name not in names(table)]
    if absent:
        raise UsageError(
            f"{what} must name columns of the table, {', '.join(names(table))}; "
            f"got {absent[0]!r}."
        )
    return table[list(wanted)]


def check_inputs(X: Any) -> None:
    """A `ValueError` that names the first column and row without a number or date."""
    for name in names(X):
        column = nw.from_native(X[name], series_only=True)
        wrong = np.flatnonzero(~_usable(column))
        if len(wrong):
            value, more = column[int(wrong[0])], len(wrong) - 1
            raise ValueError(
                f"input {name!r} must have a finite number in every row; got "
                f"{'nothing' if pd.isna(value) else repr(value)} in row {wrong[0]}"
                f"{f' and {more} more' if more else ''}."
                f"{_ENCODE if isinstance(value, str) else ''}"
            )


def _usable(column: nw.Series) -> np.ndarray:
    """Where a column has something that a model can learn from."""
    if column.dtype.is_temporal():
        return ~column.is_null().to_numpy()
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return np.isfinite(column.cast(nw.Float64).to_numpy().astype(float))
    values = pd.Series(column.to_list(), dtype=object)
    return np.isfinite(np.asarray(pd.to_numeric(values, errors="coerce"), dtype=float))


def write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """A table of these columns; an older file stays whole until the new one is."""
    kind = _kind(path)

    def put(there: Path) -> None:
        if kind == ".parquet":
            plain = {name: _without_nan(column) for name, column in columns.items()}
            # Through memory: what polars says of a full disk is no `OSError`.
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
    """Labels with None for what is missing; numbers as they are."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values
    return [None if pd.isna(value) else value for value in values.tolist()]


def replace(path: Path, put: Callable[[Path], None]) -> None:
    """Write a file beside its place by `put`, and move it there when it is whole."""
    with _beside(path) as there:
        try:
            put(there)
            os.replace(there, path)
        except OSError as error:
            # The user's name for the file, where the error has ours, or none.
            reason = error.strerror or str(error)
            raise OSError(error.errno, reason, str(path)) from None


def check_table_place(path: Path, *read: Path) -> None:
    """Like `check_place`, for a table."""
    _kind(path)
    check_place(path, *read)


def check_place(path: Path, *read: Path) -> None:
    """An error, before any work, where a file could not be written, or would replace
    one that is to be `read`."""
    check_folder(path.parent)
    if path.is_dir():
        raise UsageError(f"-o must name a file; got the folder {str(path)!r}.")
    if any(path.exists() and old.exists() and path.samefile(old) for old in read):
        raise UsageError(f"-o must name a file of its own; got {str(path)!r}.")


def check_folder(folder: Path) -> None:
    """An error where there is nowhere to write."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r} to write to.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    check_folder(path.parent)
    there = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield there
    finally:
        there.unlink(missing_ok=True)
