"""The commands that use a model: predict, evaluate and report."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from motleygp_cli import tables
from motleygp_cli.commands.output import show, show_table
from motleygp_cli.errors import GOOD, UsageError
from motleygp_cli.places import check_place

if TYPE_CHECKING:
    import motleygp as mg


def predict(args: argparse.Namespace) -> int:
    """Write one row of predictions for each row of the table."""
    if any(not 0.0 < level < 1.0 for level in args.quantiles):
        raise UsageError(f"--quantiles must lie between 0 and 1; got {args.quantiles}.")
    tables.check_table_place(args.output, args.data, args.model)
    model, (table,) = _load(args, args.data)
    X = _inputs(model, table)
    given = _known_outputs(model, table, "--given") if args.given else None
    columns = {}
    for name, p in model.predict_dist(X, given=given).items():
        columns[name] = p.mean
        columns[f"{name}_std"] = p.std
        if args.quantiles:
            found = p.quantile(args.quantiles).T
            columns |= {
                f"{name}_q{level:g}": values
                for level, values in zip(args.quantiles, found, strict=True)
            }
    tables.write(args.output, columns)
    show_table(args.output, len(X), args.json)
    return GOOD


def evaluate(args: argparse.Namespace) -> int:
    """Print the metrics of every output."""
    model, (table,) = _load(args, args.data)
    scores = model.metrics(_inputs(model, table), _outputs(model, table))
    if args.json:
        rows = {
            name: {key: value for key, value in row.items() if not np.isnan(value)}
            for name, row in scores.to_dict(orient="index").items()
        }
        print(json.dumps(rows))
        return GOOD
    shown = Table()
    shown.add_column("output")
    for column in scores.columns:
        shown.add_column(str(column), justify="right")
    for name, row in scores.iterrows():
        shown.add_row(str(name), *("" if np.isnan(v) else f"{v:.4g}" for v in row))
    Console().print(shown)
    return GOOD


def report(args: argparse.Namespace) -> int:
    """Write a page about a model, with scores if a table is given."""
    read = [path for path in (args.data, args.train) if path is not None]
    if args.train is not None and args.data is None:
        raise UsageError("--train needs a table to score the models on; got none.")
    check_place(args.output, args.model, *read)
    model, found = _load(args, *read)
    rows: tuple[Any, ...] = ()
    independent = None
    if found:
        rows = _inputs(model, found[0]), _known_outputs(model, found[0], "a report")
    if args.train is not None:
        train = _inputs(model, found[1]), _outputs(model, found[1])
        independent = model.independent()
        independent.estimator.set_params(checkpoint_dir=None)
        independent.fit(*train)
    title = args.title or f"MotleyGP report of {args.model.name}"
    options: dict[str, Any] = {"independent": independent, "max_rows": args.max_rows}
    model.report(args.output, *rows, title=title, **options)
    show({"report": str(args.output)}, f"report: {args.output}", args.json)
    return GOOD


def _load(args: argparse.Namespace, *paths: Path) -> "tuple[mg.MotleyGP, list[Any]]":
    """The model, and the tables at these paths."""
    if not args.model.is_file():
        raise UsageError(f"there is no file {str(args.model)!r}.")
    found = [tables.read(path) for path in paths]
    from motleygp_cli.library import mg

    return mg.load(args.model).set_params(progress=not args.quiet), found


def _inputs(model: "mg.MotleyGP", table: Any) -> Any:
    X = tables.select(table, list(model.fitted_.inputs), "the model's inputs")
    tables.check_inputs(X)
    return X


def _outputs(model: "mg.MotleyGP", table: Any) -> Any:
    return tables.select(table, model.output_names_, "the model's outputs")


def _known_outputs(model: "mg.MotleyGP", table: Any, what: str) -> Any:
    """The model's outputs that the table has: at least one, or `what` is wrong use."""
    there = [name for name in model.output_names_ if name in tables.names(table)]
    if not there:
        raise UsageError(
            f"{what} needs a table with outputs of the model, "
            f"{', '.join(model.output_names_)}; got none."
        )
    return tables.select(table, there, what)
