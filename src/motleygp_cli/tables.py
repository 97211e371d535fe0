"""Tables in files: CSV, TSV, either gzipped, and Parquet."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from motleygp_cli import UsageError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


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
            table = pd.read_csv(path, sep=_SEPARATORS[kind])
    except (UsageError, PermissionError):
        raise
    # Whatever a reader makes of a broken file: it has many names for it.
    except Exception as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from None
    if not len(table):
        raise ValueError(f"{str(path)!r} must have rows; got none.")
    return table


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


def write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """A table of these columns; an older file stays whole until the new one is."""
    kind = _kind(path)

    def put(there: Path) -> None:
        if kind == ".parquet":
            plain = {name: _without_nan(column) for name, column in columns.items()}
            _polars().DataFrame(plain).write_parquet(there)
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
        put(there)
        os.replace(there, path)


def check_folder(folder: Path) -> None:
    """A `ValueError` where there is nowhere to write."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r} to write to.")


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    check_folder(path.parent)
    there = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield there
    finally:
        there.unlink(missing_ok=True)
