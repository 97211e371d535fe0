"""Real data, those of the paper and two more, read from the user's files.

Each reader returns inputs, outputs and likelihoods, prepared as in the paper: real
outputs standardised over all rows, NAVAL's proportions and positive values scaled to
the unit interval. Nothing is downloaded and nothing is unpickled.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.io

from motleygp.datasets._problem import Problem, split_rows
from motleygp.likelihoods import (
    AbstractLikelihood,
    Bernoulli,
    Beta,
    Gamma,
    HetGaussian,
    Poisson,
)

_VARIABLE = "MOTLEYGP_DATA"
# A column that varies less than this, relative to its size, varies only by rounding.
_CONSTANT = 1e-9


class _Table(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    likelihoods: tuple[AbstractLikelihood, ...]
    names: tuple[str, ...]


class _Source(NamedTuple):
    file: str
    read: Callable[[Path], _Table]


def read(name: str, *, split: int, data_dir: str | os.PathLike | None) -> Problem:
    """One of the fixed splits of a data set that is read from a file."""
    source = SOURCES[name]
    folder = data_dir or os.environ.get(_VARIABLE)
    if folder is None:
        raise FileNotFoundError(
            f"{name!r} is read from the file {source.file!r}: give its folder as "
            f"`data_dir`, or in the environment variable {_VARIABLE}."
        )
    path = _found(name, Path(folder) / source.file)
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}; got {split}.")
    return split_rows(np.random.default_rng([split, 75]), *source.read(path))


def _found(name: str, path: Path) -> Path:
    """The path of a file that the set needs, which must be there."""
    if not path.is_file():
        raise FileNotFoundError(f"{name!r} needs the file {str(path)!r}: not found.")
    return path


def _london(path: Path) -> _Table:
    """House sales: log price, and whether the property is freehold or leasehold."""
    held = scipy.io.loadmat(path)
    price = standardised(_log(path, held["Yprice"].astype(float).ravel()))
    contract = held["Ycontract"].astype(float).ravel()
    return _Table(
        held["X"].astype(float),
        np.stack([price, contract], axis=1),
        (HetGaussian(), Bernoulli()),
        ("log_price", "contract"),
    )


def _naval(path: Path) -> _Table:
    """A ship's propulsion plant: decay of compressor and turbine, min-max scaled."""
    values = np.loadtxt(path)
    # The ninth column is constant; the paper uses the other fifteen.
    x = np.delete(values[:, :16], 8, axis=1)
    y = values[:, 16:18]
    y = (y - y.min(axis=0)) / np.ptp(y, axis=0)
    compressor = np.clip(y[:, 0], 1e-5, 0.999)
    turbine = np.clip(y[:, 1], 1e-5, 1.0)
    return _Table(
        x,
        np.stack([compressor, turbine], axis=1),
        (Beta(), Gamma()),
        ("compressor", "turbine"),
    )


def _sarcos(path: Path) -> _Table:
    """A robot arm: seven torques from positions, velocities and accelerations."""
    with np.load(path, allow_pickle=False) as held:
        x, y = held["X"], held["Y"]
    return _real_table(x, y, [f"torque{d}" for d in range(1, 8)])


def _mocap7(path: Path) -> _Table:
    """A walking person: joint angles over time, without the two constant ones."""
    with np.load(path, allow_pickle=False) as held:
        x, y = held["X"], held["Y"]
        channels = [str(name) for name in held["channels"]]
    return _real_table(x, y, channels)


def _mocap9(path: Path) -> _Table:
    """A running person: twenty joint angles in the first five motions over time, which
    starts at 0 in each motion; constant angles are left out."""
    with np.load(path, allow_pickle=False) as held:
        runs = [held[f"m09_{number:02d}"] for number in range(1, 6)]
        rate = float(held["fps"])
        channels = [str(name) for name in held["channels"]]
    x = np.concatenate([np.arange(len(run)) / rate for run in runs])[:, None]
    kept = slice(6, 26)
    return _real_table(x, np.concatenate(runs)[:, kept], channels[kept])


def _traffic(path: Path) -> _Table:
    """Vehicles of four kinds between 8 and 9 am, by place and day of the year."""
    with np.load(path, allow_pickle=False) as held:
        x, y = held["X"], held["Y"][:, :4].astype(float)
        names = tuple(str(name) for name in held["y_names"][:4])
    return _Table(x, y, tuple(Poisson() for _ in names), names)


def _traffic_scaled(path: Path) -> _Table:
    """The same with each output scaled to a standard deviation of 500, as the paper's
    counts are."""
    table = _traffic(path)
    y = np.floor(table.y / table.y.std(axis=0) * 500.0)
    return table._replace(y=y)


def _jura(path: Path) -> _Table:
    """Soil of the Swiss Jura: the logarithms of seven metals' concentrations by place,
    in the published samples for prediction and for validation together."""
    files = (path, _found("jura", path.with_name("jura.val.csv")))
    metals = ["Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn"]
    x = np.concatenate([_numbers(file, ["Xloc", "Yloc"]) for file in files])
    y = np.concatenate([_log(file, _numbers(file, metals)) for file in files])
    return _real_table(x, y, metals)


def _seattle_weather(path: Path) -> _Table:
    """Temperatures, wind and rain (yes or no) by the number of the day, from 0, and the
    day of the year."""
    date = pd.to_datetime(pd.read_csv(path, usecols=["date"])["date"])
    x = np.stack([(date - date.min()).dt.days, date.dt.day_of_year], axis=1)
    temperatures = standardised(_numbers(path, ["temp_max", "temp_min"]))
    wind, precipitation = _numbers(path, ["wind", "precipitation"]).T
    return _Table(
        x.astype(float),
        np.column_stack([temperatures, wind, precipitation > 0.0]),
        (HetGaussian(), HetGaussian(), Gamma(), Bernoulli()),
        ("temp_max", "temp_min", "wind", "rain"),
    )


def _numbers(path: Path, columns: list[str]) -> np.ndarray:
    """Columns of a CSV file, which must hold a number in every row."""
    text = pd.read_csv(path, usecols=columns)
    found = []
    for name in columns:
        numbers = np.asarray(pd.to_numeric(text[name], errors="coerce"), dtype=float)
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"{str(path)!r} must hold a number in every row of {name!r}."
            )
        found.append(numbers)
    return np.stack(found, axis=1)


def _real_table(x: np.ndarray, y: np.ndarray, names: list[str]) -> _Table:
    moving = y.std(axis=0) > _CONSTANT * (1.0 + np.abs(y).max(axis=0))
    kept = tuple(name for name, moves in zip(names, moving, strict=True) if moves)
    likelihoods = tuple(HetGaussian() for _ in kept)
    return _Table(x, standardised(y[:, moving]), likelihoods, kept)


def _log(path: Path, y: np.ndarray) -> np.ndarray:
    """The logarithms of a file's outputs, which must be positive."""
    if not (y > 0.0).all():
        least = float(y.min())
        raise ValueError(f"the outputs of {str(path)!r} must be positive; got {least}.")
    return np.log(y)


def standardised(y: np.ndarray) -> np.ndarray:
    """y with mean 0 and standard deviation 1 over the rows."""
    return (y - y.mean(axis=0)) / y.std(axis=0)


SPLITS = (0, 1, 2)
_TRAFFIC = "traffic/traffic_paperlike.npz"
SOURCES = {
    "london": _Source("london/london.mat", _london),
    "naval": _Source("naval/naval.txt", _naval),
    "sarcos-4449": _Source("sarcos/sarcos_inv_test.npz", _sarcos),
    "mocap7": _Source("mocap/mocap7_paper.npz", _mocap7),
    "mocap9": _Source("mocap/mocap09.npz", _mocap9),
    "traffic-8am": _Source(_TRAFFIC, _traffic_scaled),
    "traffic-8am-unscaled": _Source(_TRAFFIC, _traffic),
    "jura": _Source("jura/jura.pred.csv", _jura),
    "seattle-weather": _Source("seattle_weather/seattle-weather.csv", _seattle_weather),
}
