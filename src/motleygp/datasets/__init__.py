"""Data sets: the paper's toys, real data read from files, and house sales."""

import os

from motleygp.datasets import _files, _toys
from motleygp.datasets._files import SPLITS as SPLITS
from motleygp.datasets._houses import houses as houses
from motleygp.datasets._problem import Problem as Problem


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return (*_toys.NAMES, *_files.SOURCES)


def load(
    name: str,
    *,
    num_inputs: int = 1,
    seed: int = 0,
    split: int = 0,
    data_dir: str | os.PathLike | None = None,
) -> Problem:
    """A data set by name, with three quarters of its rows for training.

    **Arguments:**

    - `num_inputs`, `seed`: for the toys "t1", "t2" and "t3", which are drawn at random.
    - `split`: 0, 1 or 2, for the sets that are read from files: "london", "naval",
      "sarcos-4449", "mocap7", "mocap9", "traffic-8am" and "traffic-8am-unscaled" of the
      paper; "jura", seven metals in soil, and "seattle-weather", four years of days.
    - `data_dir`: the folder of those files; by default the environment variable
      `MOTLEYGP_DATA`.
    """
    if name in _toys.NAMES:
        return _toys.draw(name, num_inputs=num_inputs, seed=seed)
    if name in _files.SOURCES:
        return _files.read(name, split=split, data_dir=data_dir)
    raise ValueError(f"no dataset is named {name!r}; known: {', '.join(names())}.")
