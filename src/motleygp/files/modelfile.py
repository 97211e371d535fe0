"""The container of models and checkpoints: a JSON header and named arrays in one file.

A file is a plain [safetensors](https://huggingface.co/docs/safetensors) file, so other
tools can open it. Reading a file runs no code from it: there is no pickle. The metadata
of the safetensors file has four entries, all of them strings:

| entry | value |
| --- | --- |
| `format` | `motleygp` |
| `version` | the version of the format: `2` |
| `header` | the header, a JSON object |
| `sha256` | the SHA-256 digest of the header and the arrays, in hexadecimal digits |

The digest covers the text `json.dumps([header, [[name, dtype, shape], ...]])`, where
`header` is the string of that entry and each `dtype` is a name such as `float64`, and
then the bytes of each array, little-endian and row by row. The arrays are in
alphabetical order of their names both times.
"""

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

FORMAT_VERSION = 2
# The table of a safetensors file, which includes the header, becomes Python objects of
# about thirty times its size. The limit keeps a hostile file from filling the memory.
MAX_TABLE = 4 * 2**20

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "I64": "int64",
    "I32": "int32",
    "U64": "uint64",
    "U32": "uint32",
    "U8": "uint8",
    "BOOL": "bool",
}

Content = tuple[dict[str, Any], dict[str, np.ndarray]]


class ModelFileError(ValueError):
    """The file is not a whole MotleyGP file of the version that this library reads."""


def write(
    path: str | os.PathLike,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a header and named arrays to one file, which is never left half-written.

    The header must be a JSON object with finite numbers. Tuples in it come back as
    lists. An existing file keeps its permissions.
    """
    text = _header_text(header)
    tensors = {name: _checked(name, array) for name, array in arrays.items()}
    metadata = {
        "format": "motleygp",
        "version": str(FORMAT_VERSION),
        "header": text,
        "sha256": _digest(text, tensors),
    }
    replace(path, *_parts(tensors, metadata))


def read(path: str | os.PathLike) -> Content:
    """The header and the arrays of a file; the arrays are sorted by name.

    **Raises:** `ModelFileError` when the file is not whole, not from MotleyGP or of
    another version; the system's `OSError` when the file cannot be opened.
    """
    name = os.fsdecode(path)
    try:
        _check_start(name)
        with safetensors.safe_open(name, framework="numpy") as file:
            return _content(file)
    except ModelFileError as error:
        raise ModelFileError(f"{name!r} {error}") from error.__cause__
    except (safetensors.SafetensorError, ValueError) as error:
        # The error may quote any amount of the file, so the message does not repeat it.
        raise ModelFileError(
            f"{name!r} is not a whole safetensors file: "
            "it is of another kind, cut short, too long or damaged."
        ) from error


def _header_text(header: Mapping[str, Any]) -> str:
    try:
        _check_keys(header)
        return json.dumps(dict(header), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"`header` must be a JSON object; got: {error}.") from error


def _check_keys(value: Any) -> None:
    """Refuse keys such as 1 and None, which `json.dumps` turns into strings."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key that is not a string")
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _check_keys(item)


def _checked(name: str, array: np.ndarray) -> np.ndarray:
    if name == "__metadata__":
        raise ValueError("an array must not be named '__metadata__'.")
    types = _DTYPES.values()
    if array.dtype.name not in types:
        raise ValueError(
            f"array {name!r} must be one of {', '.join(types)}; got {array.dtype.name}."
        )
    # safetensors ignores the strides, and np.ascontiguousarray makes a 0-d array 1-d.
    return np.asarray(array, order="C")


def _digest(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    ordered = sorted(arrays.items())
    table = [[name, array.dtype.name, array.shape] for name, array in ordered]
    digest = hashlib.sha256(json.dumps([text, table]).encode())
    for _, array in ordered:
        little = array.dtype.newbyteorder("<")
        digest.update(array.astype(little, copy=False).tobytes())
    return digest.hexdigest()


def _parts(
    tensors: dict[str, np.ndarray], metadata: dict[str, str]
) -> tuple[bytes, bytes]:
    """The two parts of a safetensors file: the table and its length, and the arrays.

    safetensors writes the metadata in random order. This function gives them a fixed
    order, so that the same content always makes the same file.
    """
    whole = safetensors.numpy.save(tensors, metadata=metadata)
    end = 8 + int.from_bytes(whole[:8], "little")
    table = json.loads(whole[8:end]) | {"__metadata__": metadata}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    # The arrays start at a multiple of eight bytes, as safetensors aligns them.
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_TABLE:
        raise ValueError(
            f"`header` and the names of `arrays` must fit into {MAX_TABLE} bytes; "
            f"got {len(text)}."
        )
    return len(text).to_bytes(8, "little") + text, whole[end:]


def _check_start(name: str) -> None:
    """Refuse special files and long tables, which safetensors would try to read."""
    # Opening a named pipe would wait for a writer for ever.
    if not stat.S_ISREG(os.stat(name).st_mode):
        raise ModelFileError("is not a regular file.")
    with open(name, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > MAX_TABLE:
        raise ModelFileError(
            "is not a MotleyGP file: "
            f"its table must have at most {MAX_TABLE} bytes; got {length}."
        )


def _content(file: safetensors.safe_open) -> Content:
    metadata = file.metadata() or {}
    if metadata.get("format") != "motleygp":
        raise ModelFileError("is a safetensors file that MotleyGP did not write.")
    version = metadata.get("version", "none")
    if version != str(FORMAT_VERSION):
        raise ModelFileError(
            f"has format version {version[:20]!a}; "
            f"this MotleyGP reads format version '{FORMAT_VERSION}' only."
        )
    arrays = {name: _array(file, name) for name in sorted(file.keys())}
    text = metadata.get("header", "")
    if metadata.get("sha256") != _digest(text, arrays):
        raise ModelFileError("is damaged: its digest does not match.")
    return _parsed_header(text), arrays


def _array(file: safetensors.safe_open, name: str) -> np.ndarray:
    kind = file.get_slice(name).get_dtype()
    if kind not in _DTYPES:
        types = ", ".join(_DTYPES)
        raise ModelFileError(f"has an array of type {kind}; it must be one of {types}.")
    # safetensors returns a view of a buffer; a copy owns its memory.
    return np.array(file.get_tensor(name))


def _parsed_header(text: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
        # The parser accepts NaN, Infinity and 1e999. The writer does not.
        json.dumps(header, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ModelFileError("has a header that is not valid JSON.") from error
    if not isinstance(header, dict):
        raise ModelFileError("has a header that is not a JSON object.")
    return header


def replace(path: str | os.PathLike, *parts: bytes) -> None:
    """Write a temporary file beside `path`, sync it to disk and rename it to `path`."""
    name = os.fsdecode(path)
    # A symbolic link stays, and its target is replaced, as with a plain `open`.
    place = os.path.realpath(name)
    folder = os.path.dirname(place)
    # Without the name of the file, which may have the greatest length allowed.
    temporary = os.path.join(folder, f".motleygp-{secrets.token_hex(16)}.tmp")
    try:
        old = _permissions(place)

        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o666 if old is None else old)

        with open(temporary, "xb", opener=opener) as file:
            if old is not None:
                # The umask may have removed permissions. If they cannot be restored,
                # the file is only more private.
                with suppress(OSError):
                    os.chmod(temporary, old)
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise OSError(error.errno, reason, name) from error
        raise
    _sync_folder(folder)


def _permissions(place: str) -> int | None:
    """The permissions of an existing file; None if there is none.

    Only a regular file may be replaced: root could replace even /dev/null.
    """
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")
    return stat.S_IMODE(mode) & 0o777


def _sync_folder(folder: str) -> None:
    """Sync the new name to disk, where the system can.

    Without this, a power cut may bring back the old file, which is whole too.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
