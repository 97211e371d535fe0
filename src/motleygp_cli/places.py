"""Places for files: checks before the work, and files that appear when complete."""

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from motleygp_cli.errors import UsageError


def check_folder(folder: Path) -> None:
    """Raise an error where a folder is missing or cannot be written to."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r} to write to.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def check_place(path: Path, *read: Path) -> None:
    """Raise an error where a file cannot be written, or would replace one of `read`."""
    check_folder(path.parent)
    if path.is_dir():
        raise UsageError(f"-o must name a file; got the folder {str(path)!r}.")
    if any(path.exists() and old.exists() and path.samefile(old) for old in read):
        raise UsageError(
            f"-o must not name a file that the command reads; got {str(path)!r}."
        )


def replace(path: Path, put: Callable[[Path], None]) -> None:
    """Write a file by `put` beside its place, and move it there when it is complete."""
    with _beside(path) as there:
        try:
            put(there)
            os.replace(there, path)
        except OSError as error:
            # The error names the temporary file, or none; the user knows `path`.
            reason = error.strerror or str(error)
            raise OSError(error.errno, reason, str(path)) from None


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    check_folder(path.parent)
    there = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield there
    finally:
        there.unlink(missing_ok=True)
