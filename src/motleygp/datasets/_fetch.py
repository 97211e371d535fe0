"""Downloads of data sets: checked, and put into their place when they are complete."""

import http.client
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from motleygp._version import __version__
from motleygp.datasets import _motions
from motleygp.datasets._files import SOURCES
from motleygp.datasets._info import VARIABLE, Info, data_folder
from motleygp.datasets._raw import checksum
from motleygp.datasets._registry import info
from motleygp.files.modelfile import replace
from motleygp.progress import download_bar

# Seconds without an answer, bytes at a time, and more bytes than any of the files has.
_TIMEOUT, _CHUNK, _MOST = 30.0, 2**16, 2**26
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to another address only if that is as secure as the first."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        https = newurl.startswith("https://")
        if not https and not (_is_local(req.full_url) and _is_local(newurl)):
            fp.close()
            raise urllib.error.URLError(f"it points to {newurl!r}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(
    name: str,
    *,
    data_dir: str | os.PathLike | None = None,
    address: str | None = None,
    progress: bool = True,
) -> tuple[Path, ...]:
    """Download the files of a data set, check their arrays, and put them in place.

    **Arguments:**

    - `name`: a set that is read from files.
    - `data_dir`: the folder of the data; by default the environment variable
      `MOTLEYGP_DATA`. Files that are there and right are not downloaded again.
    - `address`: another folder than the registry's, by https: `info(name).downloads`
      lists the files that it must have.
    - `progress`: whether to show a bar.

    **Returns:** the files.
    """
    entry, folder = info(name), data_folder(data_dir)
    if not entry.files:
        raise ValueError(f"{name!r} is drawn by `load`: there is nothing to fetch.")
    if folder is None:
        raise ValueError(
            f"{name!r} needs a folder for its files: give `data_dir` (--data-dir), or "
            f"the environment variable {VARIABLE}. {entry.obstacle}".strip()
        )
    paths = tuple(folder / file for file in entry.files)
    if all(path.is_file() for path in paths):
        _check(entry, paths, "remove it to fetch it again")
        return paths
    source, words = _source(entry, folder, address), _by_hand(entry, folder)
    with tempfile.TemporaryDirectory(prefix="motleygp-") as made:
        come = []
        for file in entry.downloads:
            come.append(Path(made) / file)
            try:
                _download(f"{source}/{urllib.parse.quote(file)}", come[-1], progress)
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise ConnectionError(
                    f"{name!r} cannot be fetched: {file!r} did not come from "
                    f"{source!r} ({_reason(error)}). {words}"
                ) from None
        files = _converted(entry, come)
        _check(entry, files, "nothing was kept")
        for file, path in zip(files, paths, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, file.read_bytes())
    return paths


def _source(entry: Info, folder: Path, address: str | None) -> str:
    """The address of the public folder, without a slash at its end."""
    chosen = address or entry.address
    if chosen is None:
        raise ValueError(
            f"{entry.name!r} has no public address. {entry.obstacle} "
            f"{_by_hand(entry, folder)}"
        )
    if not chosen.startswith("https://") and not _is_local(chosen):
        raise ValueError(f"`address` must begin with https://; got {chosen!r}.")
    return chosen.rstrip("/")


def _is_local(url: str) -> bool:
    """Whether a server on this machine is asked, without encryption."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "http" and parts.hostname in _THIS_MACHINE


def _reason(error: Exception) -> str:
    """What went wrong with a download, in one line; closes its connection."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
    return " ".join(str(getattr(error, "reason", "") or error).split())


def _by_hand(entry: Info, folder: Path) -> str:
    """What to do where a download is not possible."""
    files = " and ".join(repr(file) for file in entry.files)
    return (
        f"By hand: put {files} into the folder {str(folder)!r} (origin: "
        f"{entry.origin})."
    )


def _download(url: str, place: Path, progress: bool) -> None:
    """Write what comes from an address, all of it, to a file."""
    agent = {"User-Agent": f"motleygp/{__version__}"}
    request = urllib.request.Request(url, headers=agent)
    opener = urllib.request.build_opener(_SecureRedirects)
    with (
        opener.open(request, timeout=_TIMEOUT) as answer,
        open(place, "wb") as file,
    ):
        length = answer.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        if total is not None and total > _MOST:
            raise OSError(f"it has {total} bytes, and at most {_MOST} are taken")
        with download_bar(place.name, total, show=progress) as advance:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                advance(len(chunk))
                if file.tell() > _MOST:
                    raise OSError(f"more than {_MOST} bytes came")
        if total not in (None, file.tell()):
            raise OSError(f"{file.tell()} of {total} bytes came")


def _converted(entry: Info, come: list[Path]) -> list[Path]:
    """The set's files, from those that came."""
    if entry.name != "mocap7":
        return come
    file = come[0].with_name(Path(entry.files[0]).name)
    try:
        _motions.join(come, file)
    # A file that came may be anything.
    except Exception as error:
        raise ValueError(
            f"{entry.name!r} needs motions in CMU's format: {error!r} (nothing was "
            "kept)."
        ) from None
    return [file]


def _check(entry: Info, files: Sequence[Path], advice: str) -> None:
    """Raise a `ValueError` unless the files hold the set's arrays."""
    try:
        found = checksum(SOURCES[entry.name].read(*files))
    # Likewise.
    except Exception as error:
        said = " ".join(str(error).split())
        for file in files:
            said = said.replace(str(file), file.name)
        raise ValueError(f"{entry.name!r} cannot be read: {said} ({advice}).") from None
    if entry.checksum not in (None, found):
        raise ValueError(
            f"{entry.name!r} must have arrays with the SHA-256 digest "
            f"{entry.checksum}; got {found} ({advice})."
        )
