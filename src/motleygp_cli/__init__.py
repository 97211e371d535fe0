"""The command `motleygp`.

It is a package of its own so that `motleygp --help` need not import JAX: the library
is imported when a command runs.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# The exit codes that scripts can rely on.
GOOD, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


class UsageError(ValueError):
    """What the user asked for cannot be meant: a column or a name that is not there."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="motleygp",
        description="Heterogeneous multi-output Gaussian processes.",
        epilog="example: motleygp fit sales.csv --inputs east,north "
        "--outputs change,sold:bernoulli -o sales.motley",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        _add_demo,
        _add_fit,
        _add_predict,
        _add_evaluate,
        _add_datasets,
        _add_vo,
    ):
        add(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction, name: str, help: str, example: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=help, description=help, epilog=f"example: motleygp {name} {example}"
    )
    command.set_defaults(run=_runner(name))
    return command


def _runner(name: str) -> Callable[[argparse.Namespace], int]:
    """The function behind a command, whose module is imported when it is called."""

    def run(args: argparse.Namespace) -> int:
        from motleygp_cli import commands

        return getattr(commands, name)(args)

    return run


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _outputs(text: str) -> dict[str, str]:
    """ "price:hetgaussian,flat" as a dict; an output without a likelihood is "auto"."""
    pairs = [name.rpartition(":") for name in _names(text)]
    return {(left or right): (right if left else "auto") for left, _, right in pairs}


def _levels(text: str) -> list[float]:
    try:
        return [float(level) for level in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"levels are numbers between 0 and 1, such as 0.05,0.95; got {text!r}"
        ) from None


def _add_demo(commands: argparse._SubParsersAction) -> None:
    demo = _command(
        commands, "demo", "fit a toy, print its scores and save a picture", "-o toy.png"
    )
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("motleygp-demo.png"), metavar="PNG"
    )
    demo.add_argument("--max-iter", type=int, default=1500, metavar="N")
    demo.add_argument("--seed", type=int, default=0, metavar="N")
    demo.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_fit(commands: argparse._SubParsersAction) -> None:
    fit = _command(
        commands,
        "fit",
        "fit a model to a table, and save it",
        "sales.csv --inputs east,north --outputs change,sold:bernoulli -o sales.motley",
    )
    fit.add_argument("data", type=Path, help="CSV, TSV, either gzipped, or Parquet")
    fit.add_argument(
        "--inputs", type=_names, metavar="A,B", help="default: all other columns"
    )
    fit.add_argument(
        "--outputs",
        type=_outputs,
        metavar="NAME[:LIKELIHOOD],...",
        help="the likelihood is inferred where none is named",
    )
    fit.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL")
    fit.add_argument(
        "--config", type=Path, metavar="TOML", help="inputs, outputs and any setting"
    )
    fit.add_argument("--prior", choices=("lmc", "convolution"))
    fit.add_argument("--inducing", choices=("auto", "function", "latent"))
    fit.add_argument("--optimizer", choices=("fng", "hybrid", "adam", "sgd"))
    for flag in ("num-latents", "num-inducing", "max-iter", "batch-size", "restarts"):
        fit.add_argument(f"--{flag}", type=int, metavar="N")
    fit.add_argument("--validation-fraction", type=float, metavar="SHARE")
    fit.add_argument("--time-limit", type=float, metavar="SECONDS")
    fit.add_argument("--seed", type=int, metavar="N", help="default: 0")
    fit.add_argument(
        "--resume", action="store_true", help="go on after a crash or Ctrl-C"
    )
    _add_said(fit)


def _add_predict(commands: argparse._SubParsersAction) -> None:
    predict = _command(
        commands,
        "predict",
        "means, standard deviations and quantiles at the rows of a table",
        "sales.motley new.csv -o predicted.csv --quantiles 0.05,0.95",
    )
    predict.add_argument("model", type=Path)
    predict.add_argument("data", type=Path)
    predict.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE")
    predict.add_argument("--quantiles", type=_levels, default=[], metavar="P,P")
    predict.add_argument(
        "--given", action="store_true", help="condition on the outputs in the table"
    )
    _add_said(predict)


def _add_evaluate(commands: argparse._SubParsersAction) -> None:
    evaluate = _command(
        commands,
        "evaluate",
        "scores of a model on a table with its outputs",
        "sales.motley test.csv",
    )
    evaluate.add_argument("model", type=Path)
    evaluate.add_argument("data", type=Path)
    _add_said(evaluate)


def _add_datasets(commands: argparse._SubParsersAction) -> None:
    datasets = _command(
        commands,
        "datasets",
        "list the drawn data, or write one",
        "houses -o houses.csv",
    )
    datasets.add_argument("name", nargs="?")
    datasets.add_argument("-o", "--output", type=Path, metavar="TABLE")
    datasets.add_argument("--seed", type=int, default=0, metavar="N")
    _add_said(datasets)


def _add_vo(commands: argparse._SubParsersAction) -> None:
    vo = _command(
        commands,
        "vo",
        "variational optimisation on the paper's example, from many seeds",
        "-o pictures --seeds 1000",
    )
    vo.add_argument(
        "-o",
        "--output-dir",
        type=Path,
        default=Path("motleygp-vo"),
        metavar="FOLDER",
        help="where the pictures go",
    )
    vo.add_argument("--seeds", type=int, default=100, metavar="N")
    vo.add_argument("--seed", type=int, default=0, metavar="N", help="of the first run")
    vo.add_argument("--quiet", action="store_true", help="the tables alone")


def _add_said(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="the result as JSON")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command: 0 when it worked, 1 when it failed, 2 for wrong use, 130 after
    Ctrl-C."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except UsageError as error:
        return _say(args, error, WRONG_USE)
    except (OSError, ValueError, FloatingPointError) as error:
        return _say(args, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _say(args: argparse.Namespace, error: Exception, code: int) -> int:
    """One line on standard error."""
    said = " ".join(str(error).split())
    if getattr(args, "json", False):
        print(json.dumps({"error": said}), file=sys.stderr)
    else:
        print(f"motleygp: {said}", file=sys.stderr)
    return code
