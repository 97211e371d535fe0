"""Real data, those of the paper and two more, read from the user's files.

Each set has a reader of its files and a preparation as in the paper: real outputs
standardised over all rows, NAVAL's proportions and positive values scaled to the unit
interval.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from motleygp.datasets import _human, _raw
from motleygp.datasets._info import VARIABLE, Info, data_folder
from motleygp.datasets._problem import (
    Problem,
    Table,
    log_of,
    split_rows,
    spread,
    standardised,
)
from motleygp.datasets._raw import Arrays
from motleygp.likelihoods import Bernoulli, Beta, Gamma, HetGaussian, Poisson

SPLITS = (0, 1, 2)
# A column that varies less than this, relative to its size, varies only by rounding.
_CONSTANT = 1e-9


class Source(NamedTuple):
    """How a set's files become arrays, and the arrays inputs and outputs."""

    read: Callable[..., Arrays]
    prepare: Callable[[Arrays], Table]


def read(info: Info, *, split: int, data_dir: str | os.PathLike | None) -> Problem:
    """One of the fixed splits of a data set that is read from files."""
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}; got {split!r}.")
    source, folder = SOURCES[info.name], data_folder(data_dir)
    if folder is None:
        raise FileNotFoundError(
            f"{info.name!r} is read from the file {info.files[0]!r}: give its folder "
            f"as `data_dir`, or in the environment variable {VARIABLE}."
        )
    paths = [folder / file for file in info.files]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(
                f"{info.name!r} needs the file {str(path)!r}: not found. "
                + (info.obstacle or f"`motleygp datasets fetch {info.name}` gets it.")
            )
    table = source.prepare(source.read(*paths))
    if table.x.shape != (len(table.y), len(info.inputs)):
        raise ValueError(
            f"the files of {info.name!r} must have {len(info.inputs)} inputs and as "
            f"many rows of them as of outputs; got the shapes {table.x.shape} and "
            f"{table.y.shape}."
        )
    return split_rows(np.random.default_rng([split, 75]), table)


def _london(arrays: Arrays) -> Table:
    """House sales: log price, and whether the property is freehold."""
    return _sales(arrays, "contract", "Ycontract")


def _london_flat(arrays: Arrays) -> Table:
    """House sales: log price, and whether the property is a flat."""
    return _sales(arrays, "flat", "Ytype")


def _sales(arrays: Arrays, binary: str, column: str) -> Table:
    price = standardised(log_of("london", arrays["Yprice"].ravel()))
    return Table(
        arrays["X"],
        np.stack([price, arrays[column].ravel()], axis=1),
        (HetGaussian(), Bernoulli()),
        ("log_price", binary),
    )


def _naval(arrays: Arrays) -> Table:
    """A ship's propulsion plant: decay of compressor and turbine, min-max scaled."""
    values = arrays["values"]
    # The ninth column is constant; the paper uses the other fifteen.
    x = np.delete(values[:, :16], 8, axis=1)
    y = values[:, 16:18]
    spread(y)
    y = (y - y.min(axis=0)) / np.ptp(y, axis=0)
    compressor = np.clip(y[:, 0], 1e-5, 0.999)
    turbine = np.clip(y[:, 1], 1e-5, 1.0)
    return Table(
        x,
        np.stack([compressor, turbine], axis=1),
        (Beta(), Gamma()),
        ("compressor", "turbine"),
    )


def _sarcos(arrays: Arrays) -> Table:
    """A robot arm: seven torques from positions, velocities and accelerations."""
    names = [f"torque{d}" for d in range(1, 8)]
    return _real_table(arrays["X"], arrays["Y"], names)


def _mocap7(arrays: Arrays) -> Table:
    """A walking person: joint angles over time, without the two constant ones."""
    return _real_table(arrays["X"], arrays["Y"], arrays["channels"].tolist())


def _mocap9(arrays: Arrays) -> Table:
    """A running person: twenty joint angles in the first five motions over time, which
    starts at 0 in each motion; constant angles are left out."""
    runs, rate = [arrays[name] for name in _raw.RUNS], float(arrays["fps"])
    x = np.concatenate([np.arange(len(run)) / rate for run in runs])[:, None]
    kept = slice(6, 26)
    y = np.concatenate(runs)[:, kept]
    return _real_table(x, y, arrays["channels"].tolist()[kept])


def _traffic(arrays: Arrays) -> Table:
    """Vehicles of four kinds between 8 and 9 am, by place and day of the year."""
    names = tuple(arrays["y_names"].tolist()[:4])
    y = arrays["Y"][:, :4].copy()
    return Table(arrays["X"], y, tuple(Poisson() for _ in names), names)


def _traffic_scaled(arrays: Arrays) -> Table:
    """The same with each output scaled to a standard deviation of 500, as the paper's
    counts are."""
    table = _traffic(arrays)
    y = np.floor(table.y / spread(table.y) * 500.0)
    return table._replace(y=y)


def _jura(arrays: Arrays) -> Table:
    """Soil of the Swiss Jura: the logarithms of seven metals' concentrations by place,
    in the published samples for prediction and for validation together."""
    return _real_table(arrays["X"], log_of("jura", arrays["Y"]), list(_raw.METALS))


def _seattle_weather(arrays: Arrays) -> Table:
    """Temperatures, wind and rain (yes or no) by the number of the day, from 0, and the
    day of the year."""
    y = arrays["Y"]
    wind, precipitation = y[:, 2], y[:, 3]
    return Table(
        arrays["X"],
        np.column_stack([standardised(y[:, :2]), wind, precipitation > 0.0]),
        (HetGaussian(), HetGaussian(), Gamma(), Bernoulli()),
        ("temp_max", "temp_min", "wind", "rain"),
    )


def _real_table(
    x: Float[np.ndarray, "N P"], y: Float[np.ndarray, "N D"], names: list[str]
) -> Table:
    """Standardised real outputs; those that hold one value are left out."""
    moving = y.std(axis=0) > _CONSTANT * (1.0 + np.abs(y).max(axis=0))
    kept = tuple(name for name, moves in zip(names, moving, strict=True) if moves)
    likelihoods = tuple(HetGaussian() for _ in kept)
    return Table(x, standardised(y[:, moving]), likelihoods, kept)


SOURCES = {
    "london": Source(_raw.london, _london),
    "london-flat": Source(_raw.london, _london_flat),
    "naval": Source(_raw.naval, _naval),
    "human": Source(_raw.human, _human.prepare),
    "sarcos": Source(_raw.sarcos, _sarcos),
    "sarcos-4449": Source(_raw.sarcos, _sarcos),
    "mocap7": Source(_raw.mocap7, _mocap7),
    "mocap9": Source(_raw.mocap9, _mocap9),
    "traffic-8am": Source(_raw.traffic, _traffic_scaled),
    "traffic-8am-unscaled": Source(_raw.traffic, _traffic),
    "jura": Source(_raw.jura, _jura),
    "seattle-weather": Source(_raw.seattle_weather, _seattle_weather),
}
