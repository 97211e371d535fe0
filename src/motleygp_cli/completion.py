"""Scripts that complete the command in a shell, made by shtab from its parser.

They are static: nothing of this package is run while somebody types.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shtab


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for "bash", "zsh" or "fish"."""
    for action in _actions(parser):
        if action.type is Path:
            folder = action.dest == "output_dir"
            action.complete = shtab.DIRECTORY if folder else shtab.FILE
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """All arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
