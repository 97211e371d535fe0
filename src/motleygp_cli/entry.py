"""The entry point: one command, its exit code, and errors as one line each."""

import difflib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence

from motleygp_cli.errors import FAILED, GOOD, INTERRUPTED, WRONG_USE, UsageError
from motleygp_cli.notices import in_own_terms, warnings_as_lines
from motleygp_cli.parser import build
from motleygp_cli.signals import ending_at_once, no_interrupt_lost


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns 0 when it worked, 1 when it failed, 2 for wrong use and 130 after Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        with no_interrupt_lost():
            return _exit_code(words)
    finally:
        _drop_unwritten_output()


def _exit_code(words: list[str]) -> int:
    """Run a command and report its errors."""
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _report(words, error, WRONG_USE)
    except BrokenPipeError:
        return FAILED  # the reader has stopped reading: a message would not help
    except (OSError, ValueError, FloatingPointError, MemoryError) as error:
        return _report(words, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    try:
        return _dispatch(words)
    except SystemExit as end:  # argparse after --help, or rich on a closed pipe
        return int(end.code or GOOD)


def _dispatch(words: list[str]) -> int:
    """Parse the words and call their command."""
    parser = build()
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(
            f"`{args.parser.prog}` has no argument {unknown[0]!r}"
            f"{_did_you_mean(unknown[0], args.parser.flags)}"
        )
    if args.version:
        # The library has the version too, but it would import JAX.
        from importlib.metadata import version

        print(f"motleygp {version('motleygp')}")
        return GOOD
    if args.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
    if args.command == "completion":
        from motleygp_cli import completion

        print(completion.script(parser, args.shell))
        return GOOD
    with ending_at_once():
        from motleygp_cli import commands
    with warnings_as_lines(bool(getattr(args, "json", False))):
        return commands.RUN[args.command](args)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _report(words: list[str], error: Exception, code: int) -> int:
    """Print an error as one line on standard error; returns its exit code."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        # An error without a file name comes from the command's own output.
        place = "standard output" if error.filename is None else repr(error.filename)
        message = f"{place}: {error.strerror}."
    message = in_own_terms(" ".join(message.split()))
    if re.search(r"\bin row \d", message):
        message += " Rows count from 0, without the header."
    try:
        if "--json" in words:
            print(json.dumps({"error": message}), file=sys.stderr)
        else:
            print(f"motleygp: {message}", file=sys.stderr)
    except OSError:
        pass  # standard error cannot be written either
    return code


def _drop_unwritten_output() -> None:
    """Drop output that cannot be written.

    Otherwise Python tries again when it exits, and prints an error of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
