"""The command for synthetic datasets."""

import argparse
import json
from typing import Any

import numpy as np

from motleygp_cli import tables
from motleygp_cli.commands.output import show_table
from motleygp_cli.errors import GOOD, UsageError
from motleygp_cli.parser.data import SYNTHETIC


def datasets(args: argparse.Namespace) -> int:
    """List the synthetic datasets, or write one."""
    if args.name is None:
        print(json.dumps(SYNTHETIC) if args.json else "\n".join(SYNTHETIC))
        return GOOD
    if args.output is None:
        raise UsageError("-o must name the table to write; got nothing.")
    tables.check_table_place(args.output)
    columns = _draw(args.name, args.seed)
    tables.write(args.output, columns)
    show_table(args.output, len(next(iter(columns.values()))), args.json)
    return GOOD


def _draw(name: str, seed: int) -> dict[str, Any]:
    """The columns of a dataset, inputs first."""
    from motleygp_cli.library import mg

    if name == "houses":
        frames = mg.datasets.houses(seed=seed)
        return {column: frame[column] for frame in frames for column in frame.columns}
    problem = mg.datasets.load(name, seed=seed)
    x = np.concatenate([problem.x_train, problem.x_test])
    y = np.concatenate([problem.y_train, problem.y_test])
    inputs = {f"x{p}": column for p, column in enumerate(x.T)}
    return inputs | dict(zip(problem.names, y.T, strict=True))
