"""The command for data sets: list them, describe or write one, fetch its files."""

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motleygp_cli import tables
from motleygp_cli.commands.output import show, show_table
from motleygp_cli.errors import GOOD, UsageError
from motleygp_cli.parser.data import FETCH

if TYPE_CHECKING:
    import motleygp as mg

# The columns of the list, and the lengths of their longest words, which are the widths
# on a terminal that is not wide.
_COLUMNS = {
    "name": 20,
    "rows": 6,
    "inputs": 6,
    "outputs": 12,
    "data": 9,
    "against the paper": None,
}
_WIDE = 120


def datasets(args: argparse.Namespace) -> int:
    """List the data sets, describe or write one, or fetch the files of one."""
    fetching = args.name == FETCH
    if args.output is not None and (args.name is None or fetching):
        raise UsageError(f"-o must follow a data set; got {str(args.output)!r}.")
    if vars(args)["from"] is not None and not fetching:
        raise UsageError(f"--from must follow {FETCH!r}; got {vars(args)['from']!r}.")
    if args.name is None:
        return _list(args)
    if fetching:
        return _fetch(args)
    if args.wanted is not None:
        raise UsageError(f"one data set must be named; got also {args.wanted!r}.")
    if args.output is None:
        return _describe(args)
    tables.check_table_place(args.output)
    columns = _columns(args)
    tables.write(args.output, columns)
    show_table(args.output, len(next(iter(columns.values()))), args.json)
    return GOOD


def _list(args: argparse.Namespace) -> int:
    """Print the registry."""
    from motleygp_cli.library import mg

    entries = [mg.datasets.info(name) for name in mg.datasets.names()]
    if args.json:
        print(json.dumps({entry.name: _known(entry, args) for entry in entries}))
        return GOOD
    console = Console()
    shown = Table(box=None, padding=(0, 1, 0, 0))
    for column, width in _COLUMNS.items():
        shown.add_column(column, width=width if console.width < _WIDE else None)
    for entry in entries:
        shown.add_row(
            entry.name,
            entry.sizes,
            str(len(entry.inputs) or "any"),
            entry.types,
            _state(entry, args),
            entry.differs,
        )
    console.print(shown)
    return GOOD


def _state(entry: "mg.datasets.Info", args: argparse.Namespace) -> str:
    """Whether the files of a set are there, and whether they can be fetched."""
    if not entry.files:
        return "drawn"
    if not entry.absent(args.data_dir):
        return "there"
    return f"absent; {entry.address_state}"


def _known(entry: "mg.datasets.Info", args: argparse.Namespace) -> dict[str, Any]:
    """The registry's entry as plain data."""
    return dataclasses.asdict(entry) | {"state": _state(entry, args)}


def _describe(args: argparse.Namespace) -> int:
    """Print what is known about a data set."""
    from motleygp_cli.library import mg

    entry = mg.datasets.info(args.name)
    if args.json:
        print(json.dumps(_known(entry, args)))
        return GOOD
    kinds: dict[str, list[str]] = {}
    for name, kind in entry.outputs:
        kinds.setdefault(kind, []).append(name)
    outputs = [f"{kind}: {', '.join(names)}" for kind, names in kinds.items()]
    facts = {
        "name": entry.name,
        "what": entry.title,
        "rows": entry.sizes,
        "inputs": ", ".join(entry.inputs) or "as many as asked",
        "outputs": "; ".join(outputs),
        "constant inputs": ", ".join(entry.constant_inputs),
        "constant, left out": ", ".join(entry.left_out),
        "preparation": entry.preparation,
        "against the paper": entry.differs,
        "the paper's settings": "" if entry.paper is None else str(entry.paper),
        "origin": entry.origin,
        "licence": entry.licence,
        "data": _state(entry, args),
        "files": ", ".join(entry.files),
        "address": entry.address or (f"none. {entry.obstacle}" if entry.files else ""),
        "SHA-256 of arrays": entry.checksum or "",
    }
    shown = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    shown.add_column()
    shown.add_column(overflow="fold")
    for name, fact in facts.items():
        if fact:
            shown.add_row(name, Text(fact))
    Console().print(shown)
    return GOOD


def _fetch(args: argparse.Namespace) -> int:
    """Download the files of a data set."""
    from motleygp_cli.library import mg

    if args.wanted is None:
        raise UsageError(f"{FETCH!r} must be followed by a data set; got nothing.")
    files = mg.datasets.fetch(
        args.wanted,
        data_dir=args.data_dir,
        address=vars(args)["from"],
        progress=not args.quiet,
    )
    names = [str(file) for file in files]
    show({"files": names}, f"{args.wanted}: {', '.join(names)}", args.json)
    return GOOD


def _columns(args: argparse.Namespace) -> dict[str, Any]:
    """The columns of a data set, inputs first."""
    from motleygp_cli.library import mg

    if args.name == "houses":
        frames = mg.datasets.houses(seed=args.seed)
        return {column: frame[column] for frame in frames for column in frame.columns}
    problem = mg.datasets.load(args.name, seed=args.seed, data_dir=args.data_dir)
    x = np.concatenate([problem.x_train, problem.x_test])
    y = np.concatenate([problem.y_train, problem.y_test])
    named = mg.datasets.info(args.name).inputs or [f"x{p}" for p in range(x.shape[1])]
    inputs = dict(zip(named, x.T, strict=True))
    return inputs | dict(zip(problem.names, y.T, strict=True))
