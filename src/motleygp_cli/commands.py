"""What the commands do."""

import argparse
import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import motleygp as mg
from motleygp_cli import GOOD, INTERRUPTED, UsageError, tables

# Settings of the estimator that have a flag, and are None where it is not given.
_FLAGS = (
    *("prior", "inducing", "optimizer", "num_latents", "num_inducing", "max_iter"),
    *("batch_size", "restarts", "validation_fraction", "time_limit"),
)
_DRAWN = ("houses", "t1", "t2", "t3")


def demo(args: argparse.Namespace) -> int:
    """The demonstration."""
    from motleygp import demo

    tables.check_folder(args.output.parent)
    demo.run(args.output, max_iter=args.max_iter, seed=args.seed, quiet=args.quiet)
    return GOOD


def vo(args: argparse.Namespace) -> int:
    """Variational optimisation of the paper's example."""
    from motleygp import vo

    tables.check_folder(args.output_dir.parent)
    vo.run(args.output_dir, seeds=args.seeds, seed=args.seed, quiet=args.quiet)
    return GOOD


# Fitting.


def fit(args: argparse.Namespace) -> int:
    """Fit a model to a table, with checkpoints beside the model's file until it is
    whole."""
    tables.check_folder(args.output.parent)
    settings = _settings(args)
    table = tables.read(args.data)
    inputs, outputs = _columns(settings, table)
    folder = args.output.with_name(f"{args.output.name}.run")
    model = _estimator(outputs, settings, args, folder)
    X = tables.select(table, inputs, "`inputs`")
    Y = tables.select(table, list(outputs), "`outputs`")
    model.fit(X, Y, resume=args.resume)
    model.save(args.output)
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
            found = tomllib.loads(args.config.read_text())
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
    if isinstance(outputs, list):
        outputs = dict.fromkeys(outputs, "auto")
    if not outputs or not isinstance(outputs, Mapping):
        raise UsageError("--outputs must name the columns to learn; got none.")
    for name, likelihood in outputs.items():
        if likelihood != "auto" and likelihood not in mg.likelihoods.BY_NAME:
            known = ", ".join(("auto", *mg.likelihoods.BY_NAME))
            raise UsageError(
                f"the likelihood of {name!r} must be one of {known}; "
                f"got {likelihood!r}."
            )
    if inputs is None:
        inputs = [name for name in tables.names(table) if name not in outputs]
    both = [name for name in inputs if name in outputs]
    if both or not inputs:
        raise UsageError(
            "--inputs must name columns other than the outputs; "
            f"got {both[0] if both else 'none'!r}."
        )
    return list(inputs), dict(outputs)


def _estimator(
    outputs: dict[str, Any],
    settings: dict[str, Any],
    args: argparse.Namespace,
    folder: Path,
) -> mg.MotleyGP:
    """An estimator with these settings; a name that it does not know is wrong use."""
    seed = settings.pop("seed", 0)
    unknown = set(settings) - set(mg.MotleyGP().get_params())
    if unknown:
        raise UsageError(f"there is no setting {sorted(unknown)[0]!r}.")
    return mg.MotleyGP(
        outputs,
        random_state=seed,
        progress=not args.quiet,
        checkpoint_dir=folder,
        **settings,
    )


# Using a model.


def _load(args: argparse.Namespace) -> tuple[mg.MotleyGP, Any, Any]:
    """The model, the table and its inputs."""
    if not args.model.is_file():
        raise UsageError(f"there is no file {str(args.model)!r}.")
    model = mg.load(args.model).set_params(progress=not args.quiet)
    table = tables.read(args.data)
    features = list(model._features())
    return model, table, tables.select(table, features, "the model's inputs")


def predict(args: argparse.Namespace) -> int:
    """One row of the result for each row of the table."""
    if any(not 0.0 < level < 1.0 for level in args.quantiles):
        raise UsageError(f"--quantiles must lie between 0 and 1; got {args.quantiles}.")
    model, table, X = _load(args)
    given = None
    if args.given:
        there = [name for name in model.output_names_ if name in tables.names(table)]
        if not there:
            raise UsageError(
                f"--given needs outputs in the table, of {model.output_names_}; "
                "got none."
            )
        given = tables.select(table, there, "--given")
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
    model, table, X = _load(args)
    Y = tables.select(table, model.output_names_, "the model's outputs")
    scores = model.metrics(X, Y)
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


# Data.


def datasets(args: argparse.Namespace) -> int:
    """List what can be drawn, or write one of it."""
    if args.name is None:
        print(json.dumps(_DRAWN) if args.json else "\n".join(_DRAWN))
        return GOOD
    if args.name not in _DRAWN:
        raise UsageError(
            f"the name must be one of {', '.join(_DRAWN)}; got {args.name!r}."
        )
    if args.output is None:
        raise UsageError("-o must say where the table goes; got nothing.")
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
    if name == "houses":
        frames = mg.datasets.houses(seed=seed)
        return {column: frame[column] for frame in frames for column in frame.columns}
    problem = mg.datasets.load(name, seed=seed)
    x = np.concatenate([problem.x_train, problem.x_test])
    y = np.concatenate([problem.y_train, problem.y_test])
    inputs = {f"x{p}": column for p, column in enumerate(x.T)}
    return inputs | dict(zip(problem.names, y.T, strict=True))
