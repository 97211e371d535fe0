"""The files of the real data as named arrays, before any preparation.

Numbers become 64-bit floats. A checksum of the arrays knows a set whatever the format
of its files is. Nothing is unpickled.
"""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import scipy.io
from jaxtyping import Float

Arrays: TypeAlias = dict[str, np.ndarray]

METALS = ("Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn")
# The motions of MOCAP9.
RUNS = tuple(f"m09_{number:02d}" for number in range(1, 6))
_SARCOS_INPUTS, _SARCOS_COLUMNS, _NAVAL_COLUMNS = 21, 28, 18
# More bytes than the members of any of the npz files have in all.
_MOST_UNPACKED = 2**26


def checksum(arrays: Arrays) -> str:
    """The SHA-256 digest of arrays with their names and shapes, in hexadecimal digits.

    Numbers are hashed as little-endian 64-bit floats, row by row; texts as lines.
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.shape}\n".encode())
        if array.dtype.kind == "U":
            digest.update("\n".join(array.ravel().tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def london(path: Path) -> Arrays:
    """Places, prices, contracts and types of the properties."""
    return _matlab(path, "X", "Yprice", "Ycontract", "Ytype")


def naval(path: Path) -> Arrays:
    """The sixteen inputs and two outputs as one matrix."""
    try:
        values = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} must hold numbers: {error}") from None
    _check_columns(values, _NAVAL_COLUMNS, repr(str(path)))
    return {"values": values}


def sarcos(path: Path) -> Arrays:
    """The inputs and the torques, of either file."""
    values = _matlab(path, path.stem)[path.stem]
    _check_columns(values, _SARCOS_COLUMNS, f"{path.stem!r} in {str(path)!r}")
    x, y = values[:, :_SARCOS_INPUTS], values[:, _SARCOS_INPUTS:]
    return {"X": np.ascontiguousarray(x), "Y": np.ascontiguousarray(y)}


def human(path: Path) -> Arrays:
    """The binary output and the distance at X, the number of apps at Xapp."""
    return _matlab(path, "X", "Ybin", "Yexp", "Xapp", "Ycount")


def mocap7(path: Path) -> Arrays:
    """Times, angles and the names of the angles."""
    return _numpy(path, "X", "Y", "channels")


def mocap9(path: Path) -> Arrays:
    """The angles of each motion, their names, and the frames per second."""
    return _numpy(path, *RUNS, "channels", "fps")


def traffic(path: Path) -> Arrays:
    """Places and days, counts, and the names of the counts."""
    return _numpy(path, "X", "Y", "y_names")


def jura(*paths: Path) -> Arrays:
    """Places and concentrations, of all files together."""
    return {
        "X": np.concatenate([_columns(path, ("Xloc", "Yloc")) for path in paths]),
        "Y": np.concatenate([_columns(path, METALS) for path in paths]),
    }


def seattle_weather(path: Path) -> Arrays:
    """The number of the day, from 0, the day of the year, and the measurements."""
    try:
        date = pd.to_datetime(_csv(path, ("date",))["date"])
    except ValueError as error:
        raise ValueError(f"{str(path)!r} must hold dates: {error}") from None
    days = np.stack([(date - date.min()).dt.days, date.dt.day_of_year], axis=1)
    measured = ("temp_max", "temp_min", "wind", "precipitation")
    return {"X": days.astype(float), "Y": _columns(path, measured)}


def _columns(path: Path, names: tuple[str, ...]) -> Float[np.ndarray, "N C"]:
    """Columns of a CSV file, which must hold a number in every row."""
    text, found = _csv(path, names), []
    for name in names:
        numbers = np.asarray(pd.to_numeric(text[name], errors="coerce"), dtype=float)
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"{str(path)!r} must hold a number in every row of {name!r}."
            )
        found.append(numbers)
    return np.stack(found, axis=1)


def _csv(path: Path, names: tuple[str, ...]) -> pd.DataFrame:
    try:
        return pd.read_csv(path, usecols=list(names))
    # pandas' errors for a broken file, and for one without the columns.
    except ValueError:
        raise ValueError(
            f"{str(path)!r} must be a CSV file with the columns {', '.join(names)}."
        ) from None


def _check_columns(values: np.ndarray, number: int, what: str) -> None:
    if values.ndim != 2 or values.shape[1] != number:
        raise ValueError(
            f"{what} must have {number} columns; got the shape {values.shape}."
        )


def _matlab(path: Path, *names: str) -> Arrays:
    """Arrays of a MATLAB file."""
    try:
        held = scipy.io.loadmat(path)
    except OSError:
        raise
    # scipy raises many types of errors for a broken file.
    except Exception as error:
        raise ValueError(f"{str(path)!r} must be a MATLAB file: {error}") from None
    return _picked(path, held, names)


def _numpy(path: Path, *names: str) -> Arrays:
    """Arrays of a NumPy file (.npz)."""
    try:
        _check_members(path)
        with np.load(path, allow_pickle=False) as held:
            found = {name: held[name] for name in names if name in held}
    except OSError:
        raise
    # Likewise, and NumPy's errors advise to unpickle.
    except Exception:
        raise ValueError(
            f"{str(path)!r} must be an npz file of arrays, {_MOST_UNPACKED} bytes of "
            "them at most."
        ) from None
    return _picked(path, found, names)


def _check_members(path: Path) -> None:
    """Raise an error if a file unpacks to far more than a data set has."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    size = sum(member.file_size for member in members)
    if size > _MOST_UNPACKED or not all(m.filename.endswith(".npy") for m in members):
        raise ValueError(f"{len(members)} members of {size} bytes")


def _picked(path: Path, held: Mapping[str, Any], names: tuple[str, ...]) -> Arrays:
    """The named arrays of those that a file holds, numbers as floats."""
    absent = [name for name in names if name not in held]
    if absent:
        raise ValueError(f"{str(path)!r} must have the array {absent[0]!r}.")
    kinds = {name: held[name].dtype.kind for name in names}
    odd = [name for name, kind in kinds.items() if kind not in "biufU"]
    if odd:
        raise ValueError(f"the array {odd[0]!r} of {str(path)!r} must hold numbers.")
    return {
        name: held[name] if kind == "U" else held[name].astype(float)
        for name, kind in kinds.items()
    }
