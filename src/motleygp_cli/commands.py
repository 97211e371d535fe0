"""What the commands do.

The library takes seconds to import: functions that need it import it themselves, when
all that can be checked without it is known to be right.
"""

import argparse
import contextlib
import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from motleygp_cli import (
    DRAWN,
    GOOD,
    INTERRUPTED,
    UsageError,
    ending_at_once,
    tables,
)

if TYPE_CHECKING:
    import motleygp as mg

# Settings of the estimator that have a flag, and are None where it is not given.
_FLAGS = (
    *("prior", "inducing", "optimizer", "num_latents", "num_inducing", "max_iter"),
    *("batch_size", "restarts", "validation_fraction", "time_limit"),
)
# Settings that the command makes itself.
_OWN = {"outputs", "random_state", "progress", "checkpoint_dir"}


def demo(args: argparse.Namespace) -> int:
    """The demonstration."""
    tables.check_folder(args.output_dir.parent)
    with ending_at_once():
        from motleygp.demos import demo

    demo.run(args.output_dir, max_iter=args.max_iter, seed=args.seed, quiet=args.quiet)
    return GOOD


def vo(args: argparse.Namespace) -> int:
    """Variational optimisation of the paper's example."""
    tables.check_folder(args.output_dir.parent)
    with ending_at_once():
        from motleygp.demos import vo

    vo.run(args.output_dir, seeds=args.seeds, seed=args.seed, quiet=args.quiet)
    return GOOD


# Fitting.


def fit(args: argparse.Namespace) -> int:
    """Fit a model to a table, with checkpoints beside the model's file until it is
    whole."""
    tables.check_place(args.output, args.data)
    settings = _settings(args)
    table = tables.read(args.data)
    inputs, outputs = _columns(settings, table)
    Y = tables.select(table, list(outputs), "`outputs`")
    X = tables.select(table, inputs, "`inputs`")
    folder = args.output.with_name(f"{args.output.name}.run")
    model = _estimator(outputs, settings, args, folder)
    tables.check_inputs(X)
    if folder.exists() and not args.resume:
        Console(stderr=True).print(
            f"the interrupted run in {folder} is begun anew: --resume would go on",
            soft_wrap=True,
            highlight=False,
        )
    try:
        model.fit(X, Y, resume=args.resume)
        model.save(args.output)
    finally:
        # A folder without a checkpoint in it is of no use.
        with contextlib.suppress(OSError):
            folder.rmdir()
    if model.ended_ != "interrupted":
        shutil.rmtree(folder, ignore_errors=True)
    said = {
        "model": str(args.output),
        "rows": len(table),
        "outputs": {
            name: likelihood.name
            for name, likelihood in zip(
                model.output_names_, model.model_.likelihoods, strict=True
            )
        },
        "iterations": len(model.trace_["iteration"]),
        "ended": model.ended_,
        "refused": int(np.sum(model.trace_["theta_refused"] > 0)),
    }
    if args.json:
        print(json.dumps(said))
    else:
        Console().print(
            f"{said['iterations']} iterations, {said['refused']} refused; "
            f"model: {args.output}",
            soft_wrap=True,
            highlight=False,
        )
    return INTERRUPTED if model.ended_ == "interrupted" else GOOD


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """What the configuration says, and above it what the flags say."""
    found: dict[str, Any] = {}
    if args.config is not None:
        try:
            found = tomllib.loads(args.config.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{str(args.config)!r} cannot be read: {error}") from None
    for name in ("inputs", "outputs", "seed", *_FLAGS):
        if getattr(args, name) is not None:
            found[name] = getattr(args, name)
    return found


def _columns(settings: dict[str, Any], table: Any) -> tuple[list[str], dict[str, Any]]:
    """The inputs and the outputs, which are taken out of the settings."""
    outputs = settings.pop("outputs", None)
    inputs = settings.pop("inputs", None)
    if not outputs:
        raise UsageError("--outputs must name the columns to learn; got none.")
    if not isinstance(outputs, Mapping):
        outputs = dict.fromkeys(_named(outputs, "outputs"), "auto")
    if inputs is None:
        inputs = [name for name in tables.names(table) if name not in outputs]
    inputs = _named(inputs, "inputs")
    both = [name for name in inputs if name in outputs]
    if both or not inputs:
        raise UsageError(
            "--inputs must name columns other than the outputs; "
            f"got {both[0] if both else 'none'!r}."
        )
    return inputs, dict(outputs)


def _named(columns: Any, argument: str) -> list[str]:
    """Names of columns, of which none may be there twice."""
    if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns):
        raise UsageError(f"`{argument}` must be a list of names; got {columns!r}.")
    twice = [name for i, name in enumerate(columns) if name in columns[:i]]
    if twice:
        raise UsageError(
            f"`{argument}` must name each column once; got {twice[0]!r} twice."
        )
    return columns


def _estimator(
    outputs: dict[str, Any],
    settings: dict[str, Any],
    args: argparse.Namespace,
    folder: Path,
) -> "mg.MotleyGP":
    """An estimator with these settings; those that it would refuse are wrong use."""
    from motleygp_cli.library import check_settings, mg

    seed = settings.pop("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise UsageError(f"`seed` must be a whole number, 0 or more; got {seed!r}.")
    known = ("auto", *mg.likelihoods.BY_NAME)
    for name, likelihood in outputs.items():
        if likelihood not in known:
            raise UsageError(
                f"the likelihood of {name!r} must be one of {', '.join(known)}; "
                f"got {likelihood!r}."
            )
    usual = mg.MotleyGP().get_params(deep=False)
    unknown = set(settings) - (set(usual) - _OWN)
    if unknown:
        raise UsageError(f"there is no setting {sorted(unknown)[0]!r}.")
    try:
        check_settings(usual | settings)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return mg.MotleyGP(
        outputs,
        random_state=seed,
        progress=not args.quiet,
        checkpoint_dir=folder,
        **settings,
    )


# Using a model.


def _load(args: argparse.Namespace, *paths: Path) -> "tuple[mg.MotleyGP, list[Any]]":
    """The model, and the tables at these places."""
    if not args.model.is_file():
        raise UsageError(f"there is no file {str(args.model)!r}.")
    found = [tables.read(path) for path in paths]
    from motleygp_cli.library import mg

    return mg.load(args.model).set_params(progress=not args.quiet), found


def _inputs(model: "mg.MotleyGP", table: Any) -> Any:
    X = tables.select(table, list(model._features()), "the model's inputs")
    tables.check_inputs(X)
    return X


def _outputs(model: "mg.MotleyGP", table: Any) -> Any:
    return tables.select(table, model.output_names_, "the model's outputs")


def _known_outputs(model: "mg.MotleyGP", table: Any, what: str) -> Any:
    """Those of the model's outputs that a table has."""
    there = [name for name in model.output_names_ if name in tables.names(table)]
    if not there:
        raise UsageError(
            f"{what} needs outputs in the table, of {', '.join(model.output_names_)}; "
            "got none."
        )
    return tables.select(table, there, what)


def predict(args: argparse.Namespace) -> int:
    """One row of the result for each row of the table."""
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
    if args.json:
        print(json.dumps({"table": str(args.output), "rows": len(X)}))
    else:
        Console().print(f"{len(X)} rows: {args.output}", soft_wrap=True)
    return GOOD


def evaluate(args: argparse.Namespace) -> int:
    """The metrics of every output."""
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
    """A page about a model, scored on a table where one is given."""
    given = [path for path in (args.data, args.train) if path is not None]
    if args.train is not None and args.data is None:
        raise UsageError("--train needs a table to score the models on; got none.")
    tables.check_place(args.output, args.model, *given)
    model, found = _load(args, *given)
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
    if args.json:
        print(json.dumps({"report": str(args.output)}))
    else:
        Console().print(f"report: {args.output}", soft_wrap=True, highlight=False)
    return GOOD


# Data.


def datasets(args: argparse.Namespace) -> int:
    """List what can be drawn, or write one of it."""
    if args.name is None:
        print(json.dumps(DRAWN) if args.json else "\n".join(DRAWN))
        return GOOD
    if args.output is None:
        raise UsageError("-o must say where the table goes; got nothing.")
    tables.check_table_place(args.output)
    columns = _drawn(args.name, args.seed)
    tables.write(args.output, columns)
    rows = len(next(iter(columns.values())))
    if args.json:
        print(json.dumps({"table": str(args.output), "rows": rows}))
    else:
        Console().print(f"{rows} rows: {args.output}", soft_wrap=True)
    return GOOD


def _drawn(name: str, seed: int) -> dict[str, Any]:
    """The columns of a drawn set, inputs first."""
    from motleygp_cli.library import mg

    if name == "houses":
        frames = mg.datasets.houses(seed=seed)
        return {column: frame[column] for frame in frames for column in frame.columns}
    problem = mg.datasets.load(name, seed=seed)
    x = np.concatenate([problem.x_train, problem.x_test])
    y = np.concatenate([problem.y_train, problem.y_test])
    inputs = {f"x{p}": column for p, column in enumerate(x.T)}
    return inputs | dict(zip(problem.names, y.T, strict=True))
