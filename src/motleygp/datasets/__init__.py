"""Data by name: the paper's toys, drawn here, and its real data, read from files."""

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
    """A data set by its name, three quarters of its rows to train.

    **Arguments:**

    - `num_inputs`, `seed`: of the toys "t1", "t2", "t3", which are drawn.
    - `split`: 0, 1 or 2, of the sets that are read from files: "london", "naval",
      "sarcos-4449", "mocap7", "mocap9", "traffic-8am", "traffic-8am-unscaled".
    - `data_dir`: where those files are; by default what `MOTLEYGP_DATA` says.
    """
    if name in _toys.NAMES:
        return _toys.draw(name, num_inputs=num_inputs, seed=seed)
    if name in _files.SOURCES:
        return _files.read(name, split=split, data_dir=data_dir)
    raise ValueError(f"no dataset is named {name!r}; known: {', '.join(names())}.")
