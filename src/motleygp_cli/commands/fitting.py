"""The command that fits a model to a table."""

import argparse
import contextlib
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motleygp_cli import tables
from motleygp_cli.commands.output import show
from motleygp_cli.errors import GOOD, INTERRUPTED, UsageError
from motleygp_cli.notices import say
from motleygp_cli.places import check_place

if TYPE_CHECKING:
    import motleygp as mg

# Settings of the estimator that have a flag. A flag that is not given is None.
_FLAGS = (
    *("prior", "inducing", "posterior", "optimizer", "num_latents", "num_inducing"),
    *(
        "max_iter",
        "batch_size",
        "effort",
        "restarts",
        "validation_fraction",
        "time_limit",
    ),
)
# Settings of the estimator that the command makes itself.
_OWN = {"outputs", "random_state", "progress", "checkpoint_dir"}


def fit(args: argparse.Namespace) -> int:
    """Fit a model to a table and save it.

    A folder beside the model file holds the checkpoints until the fit is complete.
    """
    check_place(args.output, args.data)
    settings = _settings(args)
    table = tables.read(args.data)
    inputs, outputs = _columns(settings, table)
    Y = tables.select(table, list(outputs), "`outputs`")
    X = tables.select(table, inputs, "`inputs`")
    folder = args.output.with_name(f"{args.output.name}.run")
    model = _estimator(outputs, settings, args, folder)
    tables.check_inputs(X)
    _tell_of_runs(folder, args)
    try:
        model.fit(X, Y, resume=args.resume)
        model.save(args.output)
    finally:
        # This removes an empty folder: a fit that failed early has no checkpoint.
        with contextlib.suppress(OSError):
            folder.rmdir()
    # The best start may have ended before Ctrl-C came in a later one.
    interrupted = any(start["ended"] == "interrupted" for start in model.restarts_)
    if not interrupted:
        shutil.rmtree(folder, ignore_errors=True)
    result = _result(model, args.output, len(table))
    show(result, _line(result), args.json)
    return INTERRUPTED if interrupted else GOOD


def _tell_of_runs(folder: Path, args: argparse.Namespace) -> None:
    """Say whether an interrupted run is lost, or was not there to continue."""
    interrupted = folder.is_dir() and any(folder.iterdir())
    if interrupted and not args.resume:
        say(
            f"there is an interrupted run in {folder}; --resume would continue it",
            args.json,
        )
    if args.resume and not interrupted:
        say(
            f"there is no interrupted run in {folder} to resume; the fit starts anew",
            args.json,
        )


def _line(result: dict[str, Any]) -> str:
    """A summary of a fit as text."""
    labels = "".join(
        f"; {name}: {one} counts as 1, {zero} as 0"
        for name, (zero, one) in result["labels"].items()
    )
    line = "{iterations} iterations, {refused} refused{labels}; model: {model}"
    return line.format(**(result | {"labels": labels}))


def _result(model: "mg.MotleyGP", path: Path, rows: int) -> dict[str, Any]:
    """A summary of a fit."""
    likelihoods = model.fitted_.model.likelihoods
    return {
        "model": str(path),
        "rows": rows,
        "outputs": {
            name: likelihood.name
            for name, likelihood in zip(model.output_names_, likelihoods, strict=True)
        },
        # The labels of 0 and 1 of each output that has labels.
        "labels": {
            name: list(labels)
            for name, labels in model.fitted_.classes_by_output.items()
            if labels is not None
        },
        "iterations": len(model.trace_["iteration"]),
        "ended": model.ended_,
        "refused": int(np.sum(model.trace_["theta_refused"] > 0)),
    }


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of the configuration; a flag overrides them."""
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
    """Take the inputs and the outputs out of the settings."""
    outputs = settings.pop("outputs", None)
    inputs = settings.pop("inputs", None)
    if not outputs:
        raise UsageError("--outputs must name the columns to learn; got none.")
    if not isinstance(outputs, Mapping):
        outputs = dict.fromkeys(_names(outputs, "outputs"), "auto")
    if inputs is None:
        inputs = [name for name in tables.names(table) if name not in outputs]
    inputs = _names(inputs, "inputs")
    both = [name for name in inputs if name in outputs]
    if both or not inputs:
        raise UsageError(
            "--inputs must name columns other than the outputs; "
            f"got {repr(both[0]) if both else 'none'}."
        )
    return inputs, dict(outputs)


def _names(columns: Any, argument: str) -> list[str]:
    """Check a list of column names, each of which may occur once."""
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
    """An estimator with these settings. Settings that it would refuse are wrong use."""
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
