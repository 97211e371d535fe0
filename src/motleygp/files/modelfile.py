"""The one file that keeps a model or a checkpoint: a JSON header and some arrays.

Nothing in a file is run: there is no pickle and no eval. Numbers are little-endian.

| bytes | what |
| --- | --- |
| 0 to 7 | the magic, the ASCII text `MOTLEYGP` |
| 8 to 11 | the version of the format, an unsigned integer: 1 |
| 12 to 43 | the SHA-256 digest of the payload |
| 44 to 51 | the length of the payload in bytes, an unsigned integer |
| 52 to the end | the payload, and nothing after it |

The payload is a safetensors file:

| bytes of the payload | what |
| --- | --- |
| 0 to 7 | the length of its table in bytes, an unsigned integer, `MAX_TABLE` at most |
| 8 to 7 + that length | the table, a JSON object in UTF-8 |
| the rest | the arrays one after another, rows first, without gaps |

The table gives each array by its name: its type, its shape and where it starts and
ends. Its entry `__metadata__` is `{"header": text}`, where the text is the header:
one JSON object, itself as a string.
"""

import errno
import hashlib
import json
import math
import os
import secrets
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import safetensors
import safetensors.numpy

FORMAT_VERSION = 1
MAGIC = b"MOTLEYGP"
# The table becomes Python objects of some thirty times its size: it has a limit, so
# that a file cannot ask for more than about a hundred megabytes beyond its own length.
MAX_TABLE = 4 * 2**20
# json.loads and what users do with a header recurse; parsing digits takes their square.
MAX_DEPTH = 64
MAX_INT_BITS = 1024

_START = struct.Struct("<8sI32sQ")
_TABLE_LENGTH = struct.Struct("<Q")
_TYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_TYPE_NAMES = [dtype.name for dtype in _TYPES.values()]
# All that a payload with a right checksum can be refused for.
_UNREADABLE = (
    safetensors.SafetensorError,
    ValueError,
    OverflowError,
    RecursionError,
)


class ModelFileError(ValueError):
    """A file that is not a whole MotleyGP file, or one of a newer version."""


def write(
    path: str | os.PathLike,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Keep a header and named arrays in one file, replaced whole or not at all.

    The header holds dicts with text keys, lists, text, finite numbers, bools and
    None, and comes back as it was. A file that was there keeps its permissions.
    """
    payload = _pack(header, arrays)
    digest = hashlib.sha256(payload).digest()
    start = _START.pack(MAGIC, FORMAT_VERSION, digest, len(payload))
    replace(path, start, payload)


def read(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file, by name in alphabetical order.

    A file that is not whole is a `ModelFileError`; one that cannot be opened is the
    system's `OSError`.
    """
    name = os.fsdecode(path)
    payload = _checked_payload(name)
    try:
        return _unpack(payload)
    except _UNREADABLE as error:
        # The error may quote the file at any length, so it is chained, not repeated.
        raise ModelFileError(
            f"{name!r} is not a file that MotleyGP wrote: its checksum is right, "
            "but its payload is not a header and arrays."
        ) from error


def _pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The payload: the bytes of a safetensors file."""
    header = dict(header)
    flaw = _flaw(header)
    if flaw is not None:
        where, rule = flaw
        raise ValueError(f"`header{where}` must {rule}.")
    text = json.dumps(
        header, allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    tensors = {name: _packed(name, array) for name, array in arrays.items()}
    payload = safetensors.numpy.save(tensors, metadata={"header": text})
    (length,) = _TABLE_LENGTH.unpack_from(payload)
    if length > MAX_TABLE:
        raise ValueError(
            f"`header` and the names of `arrays` must fit into {MAX_TABLE} bytes; "
            f"got {length}."
        )
    return payload


def _packed(name: str, array: np.ndarray) -> np.ndarray:
    """An array as safetensors can keep it: it takes any memory as rows first."""
    if name == "__metadata__":
        raise ValueError("an array must not be named '__metadata__'.")
    if not _is_unicode(name):
        raise ValueError(f"the name of an array must be valid Unicode; got {name!r}.")
    if array.dtype.name not in _TYPE_NAMES:
        raise ValueError(
            f"array {name!r} must be one of {', '.join(_TYPE_NAMES)}; "
            f"got {array.dtype.name}."
        )
    # np.ascontiguousarray would make a 0-d array 1-d.
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _flaw(value: Any, depth: int = 0) -> tuple[str, str] | None:
    """Where a value breaks the rules of a header and what the rule is, or None."""
    if isinstance(value, str):
        return None if _is_unicode(value) else ("", f"be valid Unicode; got {value!r}")
    if value is None:
        return None
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            return "", f"have at most {MAX_INT_BITS} bits; got {value.bit_length()}"
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"be finite; got {value}")
    if not isinstance(value, dict | list):
        kinds = "None, a bool, an int, a float, a str, a list or a dict"
        return "", f"be {kinds}; got {type(value)}"
    if depth == MAX_DEPTH:
        return "", f"be nested at most {MAX_DEPTH} deep; got more"
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(value, dict) and not (isinstance(key, str) and _is_unicode(key)):
            return f"[{key!r}]", f"have a key of valid Unicode text; got {key!r}"
        flaw = _flaw(item, depth + 1)
        if flaw is not None:
            return f"[{key!r}]{flaw[0]}", flaw[1]
    return None


def _is_unicode(text: str) -> bool:
    """Whether a text can be UTF-8, which half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def replace(path: str | os.PathLike, *parts: bytes) -> None:
    """Write a file beside `path`, see it onto the disk, and put it in its place."""
    name = os.fsdecode(path)
    # Through a symbolic link, as a plain open would write.
    place = os.path.realpath(name)
    folder = os.path.dirname(place)
    # Not made of the file's name, which may already be as long as names can be.
    temporary = os.path.join(folder, f".motleygp-{secrets.token_hex(16)}.tmp")
    try:
        old = _permissions(place)

        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o666 if old is None else old)

        with open(temporary, "xb", opener=opener) as file:
            if old is not None:
                # What the umask took away; without this, the file is only more private.
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
    """The permissions of the file that is there, None if there is none.

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
    """See the new name onto the disk, where the system can.

    At stake is only which of two whole files is there after a power cut.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _checked_payload(name: str) -> bytes:
    """The payload of a file, once the file is known to be whole."""
    with open(name, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{name!r} is not a regular file.")
        start = file.read(_START.size)
        if not start.startswith(MAGIC):
            raise ModelFileError(f"{name!r} is not a MotleyGP file.")
        if len(start) < _START.size:
            raise ModelFileError(
                f"{name!r} is cut short: it must start with {_START.size} bytes; "
                f"got {len(start)}."
            )
        _, version, digest, length = _START.unpack(start)
        if version > FORMAT_VERSION:
            raise ModelFileError(
                f"{name!r} was written by a newer version of MotleyGP "
                f"(format {version}); this one reads up to format {FORMAT_VERSION}."
            )
        if version < 1:
            raise ModelFileError(f"{name!r} is damaged: there is no format {version}.")
        # Before reading: a length that lies must not reserve memory.
        there = status.st_size - _START.size
        if there != length:
            raise ModelFileError(
                f"{name!r} is {'cut short' if there < length else 'too long'}: "
                f"its payload must have {length} bytes; got {there}."
            )
        payload = file.read(length)
    if hashlib.sha256(payload).digest() != digest:
        raise ModelFileError(f"{name!r} is damaged: its checksum does not fit.")
    return payload


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting, as a named pipe would have us do for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _unpack(payload: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return _header(payload), _arrays(payload)


def _header(payload: bytes) -> dict[str, Any]:
    """The header, which safetensors gives from files only, not from bytes."""
    if len(payload) < _TABLE_LENGTH.size:
        raise ValueError("there is no table.")
    (length,) = _TABLE_LENGTH.unpack_from(payload)
    if length > MAX_TABLE:
        raise ValueError(f"the table must not have {length} bytes.")
    table = payload[_TABLE_LENGTH.size : _TABLE_LENGTH.size + length]
    text = _member(_member(_parsed(table.decode()), "__metadata__"), "header")
    if not isinstance(text, str):
        raise ValueError("the header must be a text.")
    header = _parsed(text)
    flaw = _flaw(header)
    if not isinstance(header, dict) or flaw is not None:
        raise ValueError(f"the header must be an object of JSON values; got {flaw}.")
    return header


def _member(value: Any, key: str) -> Any:
    if not isinstance(value, dict) or key not in value:
        raise ValueError(f"there is no {key!r}.")
    return value[key]


def _parsed(text: str) -> Any:
    """Strict JSON; numbers that overflow to infinity are left to `_flaw`."""
    return json.loads(text, parse_constant=_refuse, parse_int=_parsed_int)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"JSON has no {text}.")


def _parsed_int(text: str) -> int:
    if len(text) > MAX_INT_BITS:
        raise ValueError(f"an integer must not have {len(text)} digits.")
    return int(text)


def _arrays(payload: bytes) -> dict[str, np.ndarray]:
    """The arrays, sorted: safetensors gives them in an order that changes."""
    parts = safetensors.deserialize(payload)
    parts.sort(key=lambda part: part[0], reverse=True)
    arrays = {}
    # One at a time leaves the list, so that no more than one is there twice.
    while parts:
        name, part = parts.pop()
        arrays[name] = _array(part["dtype"], part["shape"], part["data"])
    return arrays


def _array(kind: str, shape: list[int], data: bytes | bytearray) -> np.ndarray:
    """One array that owns its memory, in the byte order of this machine."""
    if kind not in _TYPES:
        raise ValueError(f"an array must be one of {', '.join(_TYPES)}; got {kind}.")
    if kind == "BOOL":
        # A byte other than 0 and 1 is true, but must not be kept inside a bool.
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape).copy()
    flat = np.frombuffer(data, _TYPES[kind])
    return flat.reshape(shape).astype(_TYPES[kind].newbyteorder("="))
