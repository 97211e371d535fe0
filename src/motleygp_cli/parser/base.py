"""The parser class, the description of a command, and arguments that commands share."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from motleygp_cli.errors import UsageError
from motleygp_cli.parser import values


class Parser(argparse.ArgumentParser):
    """A parser that records its arguments and commands, and raises `UsageError`."""

    arguments: list[argparse.Action]
    commands: "dict[str, Parser]"

    def __init__(self, **settings: Any) -> None:
        # Before argparse, which adds --help in its own `__init__`.
        self.arguments, self.commands = [], {}
        super().__init__(**settings)

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        """Add an argument and record it."""
        action = super().add_argument(*names, **settings)
        self.arguments.append(action)
        return action

    def add_option(
        self, flag: str, value: Callable[[str], Any], metavar: str, help: str
    ) -> None:
        """Add a flag with a value, which is None where the flag is not given."""
        self.add_argument(flag, type=value, metavar=metavar, help=help)

    @property
    def flags(self) -> list[str]:
        """All flags, such as --help."""
        return [flag for action in self.arguments for flag in action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Raise wrong use as the other errors are raised."""
        raise UsageError(f"{message}; see `{self.prog} --help`.")


class Command(NamedTuple):
    """A command: its name, its help, the rest of its example, and its arguments."""

    name: str
    help: str
    example: str
    add_arguments: Callable[[Parser], None]


def add_model_and_data(command: Parser) -> None:
    """Add the two arguments of a command that applies a model to a table."""
    command.add_argument("model", type=Path, help="a model file written by `fit`")
    add_data(command)


def add_data(command: Parser) -> None:
    """Add the table to read."""
    command.add_argument(
        "data", type=Path, help="a table: CSV, TSV, either gzipped, or Parquet"
    )


def add_output(command: Parser, metavar: str, help: str) -> None:
    """Add the file to write."""
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar=metavar, help=help
    )


def add_number(command: Parser, flag: str, default: int, help: str) -> None:
    """Add a count with a default."""
    said = f"{help} (default: %(default)s)"
    kind = values.count if default else values.seed
    command.add_argument(flag, type=kind, default=default, metavar="N", help=said)


def add_seed(command: Parser, help: str) -> None:
    """Add a seed whose default is 0."""
    add_number(command, "--seed", 0, help)


def add_json_and_quiet(command: Parser) -> None:
    """Add the flags that say how results and progress are shown."""
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    add_quiet(command)


def add_quiet(command: Parser) -> None:
    """Add the flag that hides the progress bar."""
    command.add_argument("--quiet", action="store_true", help="hide the progress bar")
