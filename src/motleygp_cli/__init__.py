"""The command `motleygp`.

It is a package of its own so that `motleygp --help` need not import JAX: the library
is imported when a command runs.
"""

import argparse
import contextlib
import difflib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

# The exit codes that scripts can rely on.
GOOD, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

DRAWN = ("houses", "t1", "t2", "t3")


class UsageError(ValueError):
    """What the user asked for cannot be meant: a column or a name that is not there."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are said as all others are."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="motleygp",
        description="Heterogeneous multi-output Gaussian processes.",
        epilog="example: motleygp fit sales.csv --inputs east,north "
        "--outputs change,sold:bernoulli -o sales.motley",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add in (
        _add_demo,
        _add_fit,
        _add_predict,
        _add_evaluate,
        _add_report,
        _add_datasets,
        _add_vo,
        _add_completion,
    ):
        add(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction, name: str, help: str, example: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=help, description=help, epilog=f"example: motleygp {name} {example}"
    )
    command.set_defaults(run=_runner(name), parser=command)
    return command


def _runner(name: str) -> Callable[[argparse.Namespace], int]:
    """The function behind a command, whose module is imported when it is called."""

    def run(args: argparse.Namespace) -> int:
        with ending_at_once():
            from motleygp_cli import commands

        return getattr(commands, name)(args)

    return run


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _outputs(text: str) -> dict[str, str]:
    """ "price:hetgaussian,flat" as a dict; an output without a likelihood is "auto"."""
    found: dict[str, str] = {}
    for left, _, right in (name.rpartition(":") for name in _names(text)):
        name = left or right
        if name in found:
            raise argparse.ArgumentTypeError(
                f"each column must be named once; got {name!r} twice"
            )
        found[name] = right if left else "auto"
    return found


def _whole(least: int) -> Callable[[str], int]:
    """Reads a whole number that is not below `least`."""

    def read(text: str) -> int:
        try:
            if (number := int(text)) >= least:
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(
            f"must be a whole number, {least} or more; got {text!r}"
        )

    return read


_count, _seed = _whole(1), _whole(0)


def _levels(text: str) -> list[float]:
    try:
        return [float(level) for level in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"levels are numbers between 0 and 1, such as 0.05,0.95; got {text!r}"
        ) from None


def _add_demo(commands: argparse._SubParsersAction) -> None:
    demo = _command(
        commands,
        "demo",
        "fit a toy, print its scores, make a picture and a report of it",
        "-o toy",
    )
    demo.add_argument(
        "-o",
        "--output-dir",
        type=Path,
        default=Path("motleygp-demo"),
        metavar="FOLDER",
        help="where the files go (default: %(default)s)",
    )
    demo.add_argument(
        "--max-iter",
        type=_count,
        default=600,
        metavar="N",
        help="iterations at most (default: %(default)s)",
    )
    _add_seed(demo, "decides the start and the minibatches")
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
        "--inputs",
        type=_names,
        metavar="COLUMNS",
        help="the columns to learn from, with commas between (default: all others)",
    )
    fit.add_argument(
        "--outputs",
        type=_outputs,
        metavar="COLUMNS",
        help="the columns to learn, with commas between, each as NAME:LIKELIHOOD, or "
        "as NAME to have the likelihood inferred",
    )
    fit.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="MODEL",
        help="where the model goes",
    )
    fit.add_argument(
        "--config", type=Path, metavar="TOML", help="inputs, outputs and any setting"
    )
    fit.add_argument(
        "--prior",
        choices=("lmc", "convolution"),
        help="how the outputs share latent processes (default: lmc)",
    )
    fit.add_argument(
        "--inducing",
        choices=("auto", "function", "latent"),
        help="what a convolution's inducing values are of (default: auto)",
    )
    fit.add_argument(
        "--optimizer",
        choices=("fng", "hybrid", "adam", "sgd"),
        help="how it is trained (default: fng, fully natural gradients)",
    )
    for flag, what in (
        ("num-latents", "latent processes (default: by the number of outputs)"),
        ("num-inducing", "inducing points of each process (default: 80)"),
        ("max-iter", "iterations at most (default: 2000)"),
        ("batch-size", "rows per iteration (default: 256)"),
        ("restarts", "starts, of which the best is kept (default: 1)"),
    ):
        fit.add_argument(f"--{flag}", type=_count, metavar="N", help=what)
    fit.add_argument(
        "--validation-fraction",
        type=float,
        metavar="SHARE",
        help="of the rows, held out to stop early (default: 0)",
    )
    fit.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="ends a run as it stands (default: none)",
    )
    fit.add_argument(
        "--seed",
        type=_seed,
        metavar="N",
        help="decides the starts and the minibatches (default: 0)",
    )
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
    _add_model_and_data(predict)
    predict.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="TABLE",
        help="where the predictions go",
    )
    predict.add_argument(
        "--quantiles",
        type=_levels,
        default=[],
        metavar="P,P",
        help="levels between 0 and 1, a column each",
    )
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
    _add_model_and_data(evaluate)
    _add_said(evaluate)


def _add_report(commands: argparse._SubParsersAction) -> None:
    report = _command(
        commands,
        "report",
        "a page about a model: one HTML file with pictures that needs no network",
        "sales.motley test.csv -o report.html",
    )
    report.add_argument("model", type=Path, help="what `fit` wrote")
    report.add_argument(
        "data", type=Path, nargs="?", help="rows to score, which the fit has not seen"
    )
    report.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="HTML",
        help="where the page goes",
    )
    report.add_argument(
        "--train",
        type=Path,
        metavar="TABLE",
        help="compare with one model per output, fitted to these rows",
    )
    report.add_argument(
        "--max-rows",
        type=_count,
        metavar="N",
        help="score so many rows at most (default: 2000, fewer for many outputs)",
    )
    report.add_argument("--title", metavar="TEXT", help="of the page")
    _add_said(report)


def _add_datasets(commands: argparse._SubParsersAction) -> None:
    datasets = _command(
        commands,
        "datasets",
        "list the drawn data, or write one",
        "houses -o houses.csv",
    )
    datasets.add_argument(
        "name",
        nargs="?",
        choices=DRAWN,
        metavar="NAME",
        help=f"one of {', '.join(DRAWN)} (default: list them)",
    )
    datasets.add_argument(
        "-o", "--output", type=Path, metavar="TABLE", help="where the table goes"
    )
    _add_seed(datasets, "decides what is drawn")
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
        help="where the pictures go (default: %(default)s)",
    )
    vo.add_argument(
        "--seeds",
        type=_count,
        default=100,
        metavar="N",
        help="runs (default: %(default)s)",
    )
    _add_seed(vo, "of the first run")
    vo.add_argument("--quiet", action="store_true", help="the tables alone")


def _add_completion(commands: argparse._SubParsersAction) -> None:
    completion = _command(
        commands,
        "completion",
        "print a script that completes commands, flags and files in a shell",
        'bash; in ~/.bashrc: eval "$(motleygp completion bash)"',
    )
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help="the shell it is for"
    )
    completion.set_defaults(run=_complete)


def _complete(args: argparse.Namespace) -> int:
    from motleygp_cli import completion

    print(completion.script(_parser(), args.shell))
    return GOOD


def _add_model_and_data(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", type=Path, help="what `fit` wrote")
    command.add_argument("data", type=Path, help="CSV, TSV, either gzipped, or Parquet")


def _add_seed(command: argparse.ArgumentParser, help: str) -> None:
    command.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help=f"{help} (default: %(default)s)",
    )


def _add_said(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="the result as JSON")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command: 0 when it worked, 1 when it failed, 2 for wrong use, 130 after
    Ctrl-C."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        with _no_interrupt_lost():
            return _ended(words)
    finally:
        _let_go_of_output()


def _ended(words: list[str]) -> int:
    """The exit code of a command, when all is said."""
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _say(words, error, WRONG_USE)
    except BrokenPipeError:
        return FAILED  # whoever read has seen enough: there is nothing to say
    except (OSError, ValueError, FloatingPointError, MemoryError) as error:
        return _say(words, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    try:
        return _command_of(words)
    except SystemExit as end:  # after --help, or of rich when nobody reads on
        return int(end.code or GOOD)


def _command_of(words: list[str]) -> int:
    args, strange = _parser().parse_known_args(words)
    if strange:
        known = args.parser._option_string_actions
        raise UsageError(
            f"there is no argument {strange[0]!r} of `{args.parser.prog}`"
            f"{_did_you_mean(strange[0], known)}"
        )
    if args.version:
        from importlib.metadata import version  # of the library would import JAX

        print(f"motleygp {version('motleygp')}")
        return GOOD
    if args.command is None:
        args.parser.print_help(sys.stderr)
        return WRONG_USE
    return args.run(args)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """For imports, during which nothing is written: Ctrl-C ends the process there and
    then. Some extension modules crash when their import is cut short."""
    usual = signal.default_int_handler
    main_thread = threading.current_thread() is threading.main_thread()
    # A signal that is ignored, as in the background, or handled by others stays so.
    if not main_thread or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def _no_interrupt_lost() -> Iterator[None]:
    """JAX has a hook on the garbage collector: Ctrl-C while that runs would be reported
    and forgotten. It is sent once more."""
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if lost.exc_type is KeyboardInterrupt:
            # A little later: an error in here would be forgotten as well.
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _let_go_of_output() -> None:
    """What cannot be written is dropped: Python would try again at its end, and
    complain in words of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(words: list[str], error: Exception, code: int) -> int:
    """One line on standard error."""
    said = str(error)
    if isinstance(error, OSError) and error.strerror:
        # Files are named; what has no name is what the command prints to.
        place = "standard output" if error.filename is None else repr(error.filename)
        said = f"{place}: {error.strerror}."
    said = " ".join(said.split())
    if re.search(r"\bin row \d", said):
        said += " Rows count from 0, without the header."
    try:
        if "--json" in words:
            print(json.dumps({"error": said}), file=sys.stderr)
        else:
            print(f"motleygp: {said}", file=sys.stderr)
    except OSError:
        pass  # there is nowhere left to say it
    return code
