"""Data sets: the paper's toys and real data, other real ones, and house sales."""

import numbers
import os
from typing import Any

from motleygp.datasets import _files, _houses, _human, _toys
from motleygp.datasets._fetch import fetch as fetch
from motleygp.datasets._files import SPLITS as SPLITS
from motleygp.datasets._houses import houses as houses
from motleygp.datasets._info import Info as Info, Paper as Paper
from motleygp.datasets._problem import Problem as Problem
from motleygp.datasets._registry import info as info, names as names

_LEAST_ROWS = 4


def load(
    name: str,
    *,
    num_inputs: int = 1,
    num_rows: int | None = None,
    seed: int = 0,
    split: int = 0,
    data_dir: str | os.PathLike | None = None,
) -> Problem:
    """A data set by name, with three quarters of its rows for training.

    **Arguments:**

    - `name`: one of `names()`; `info(name)` says what is known about the set.
    - `num_inputs`: for the toys "t1", "t2" and "t3".
    - `num_rows`: for the toys, 2000 by default, and "houses", 400 by default.
    - `seed`: for the sets that are drawn at random: the toys, "human-synthetic" and
      "houses".
    - `split`: 0, 1 or 2, for the sets that are read from files.
    - `data_dir`: the folder of those files; by default the environment variable
      `MOTLEYGP_DATA`.
    """
    found = info(name)
    _check_whole("num_inputs", num_inputs, 1)
    _check_whole("seed", seed, 0)
    if num_rows is not None:
        _check_whole("num_rows", num_rows, _LEAST_ROWS)
        if name not in (*_toys.NAMES, "houses"):
            raise ValueError(
                f"`num_rows` is for the toys and 'houses'; got {num_rows} for {name!r}."
            )
    if name in _toys.NAMES:
        rows = num_rows or _toys.NUM_ROWS
        return _toys.draw(name, num_inputs=num_inputs, seed=seed, num_rows=rows)
    if name == "human-synthetic":
        return _human.draw(seed)
    if name == "houses":
        return _houses.problem(num_rows or _houses.NUM_ROWS, seed=seed)
    return _files.read(found, split=split, data_dir=data_dir)


def _check_whole(argument: str, value: Any, least: int) -> None:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"`{argument}` must be a whole number, {least} or more; got {value!r}."
        )
