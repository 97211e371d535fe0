"""Compiled programs on disk, by JAX, so that the next process need not wait for them.

The entries are machine code, which JAX runs as it finds it. So the folder must belong
to the user, and nobody else may write there. Processors differ in their instructions,
so each kind has a folder of its own.
"""

import hashlib
import logging
import os
import platform
import stat
from collections.abc import Iterable
from pathlib import Path

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from motleygp.numerics.compiled import setting_of_jax

_log = logging.getLogger(__name__)
_VARIABLE = "MOTLEYGP_PROGRAM_CACHE"
_FOLDER = "jax_compilation_cache_dir"
# A program that compiles faster is not worth a file.
_LEAST_SECONDS = 0.02
# Beyond this size, the oldest files go until half of it is left.
_MOST_BYTES = 1 << 30


def use_program_cache(folder: str | os.PathLike | None) -> Path | None:
    """Keep compiled programs in this folder, or nowhere if it is `None`.

    Without a call, they are kept in `motleygp` in the user's folder of caches, unless
    JAX has a compilation cache already. The environment variable
    MOTLEYGP_PROGRAM_CACHE names another folder, or is "off".

    Returns the folder in use. It has the mode 0700, as its entries are machine code.

    **Raises:** `ValueError` if the folder cannot be written, belongs to another user,
    or can be written by others.
    """
    if folder is None:
        _point_jax_to(None)
        return None
    found = Path(folder).expanduser().resolve() / _processor()
    try:
        _make_private(found)
    except OSError as error:
        raise ValueError(
            f"`folder` must be a folder that can be written; got {os.fspath(folder)!r} "
            f"({error.strerror})."
        ) from None
    _drop_oldest(found)
    _point_jax_to(found)
    return found


def begin() -> None:
    """Use the folder that the environment names, or the usual one; a folder that cannot
    be used is reported to the log, and changes nothing."""
    named = os.environ.get(_VARIABLE, "")
    if named.lower() in ("off", "0", "no", "none", "false"):
        return
    if not named and setting_of_jax(_FOLDER):
        return
    try:
        use_program_cache(named or _usual_folder())
    except (ValueError, RuntimeError) as error:  # RuntimeError: no home
        _log.info("compiled programs are not kept: %s", error)


def _usual_folder() -> Path:
    own = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(own) if os.path.isabs(own) else Path.home() / ".cache") / "motleygp"


def _point_jax_to(folder: Path | None) -> None:
    jax.config.update(_FOLDER, None if folder is None else str(folder))
    reset_cache()  # JAX reads the setting once
    if folder is not None:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)


def _processor() -> str:
    """A name for the processor's kind: the same for processors with the same
    instructions."""
    said = [platform.machine(), platform.processor()]
    try:
        with Path("/proc/cpuinfo").open() as file:
            kinds = ("flags", "Features", "model name")
            said += sorted({line for line in file if line.startswith(kinds)})
    except OSError:  # not Linux
        pass
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _make_private(folder: Path) -> None:
    """Make the folder and its parent for the user alone, or raise a `ValueError`."""
    for own in (folder.parent, folder):
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = own.stat()
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise ValueError(
                f"`folder` must belong to the user, because its entries are machine "
                f"code; {str(own)!r} belongs to user {found.st_uid}."
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(
                f"`folder` must not be writable by others, because its entries are "
                f"machine code; got the mode {stat.S_IMODE(found.st_mode):o} of "
                f"{str(own)!r}."
            )
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "not writable")


def _drop_oldest(folder: Path) -> None:
    """Drop the oldest files of a folder that has grown too large."""
    found = sorted(_files(folder), reverse=True)
    total, most = sum(size for _, size, _ in found), _MOST_BYTES
    if total <= most:
        return
    kept = 0
    for _, size, path in found:
        kept += size
        if kept > most // 2:
            try:
                os.unlink(path)
            except OSError:  # another process was faster
                continue


def _files(folder: Path) -> Iterable[tuple[float, int, str]]:
    """The time, the size and the path of each file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield found.st_mtime, found.st_size, entry.path
