"""Warnings and notes on standard error, one line each."""

import json
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# The library's advice to choose a likelihood, in Python.
_ADVICE = re.compile(r'outputs=\{("(?:[^"\\]|\\.)*"): "(\w+)"\}')


def say(message: str, as_json: bool) -> None:
    """Print a warning or a note as one line."""
    line = " ".join(message.split())
    text = json.dumps({"warning": line}) if as_json else f"motleygp: {line}"
    with suppress(OSError):  # standard error cannot be written
        print(text, file=sys.stderr)


@contextmanager
def warnings_as_lines(as_json: bool) -> Iterator[None]:
    """Print Python's warnings without the place in the source that they come from."""
    before = warnings.showwarning

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(in_own_terms(str(message)), as_json)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def in_own_terms(message: str) -> str:
    """A message of the library, with flags of the command for arguments in Python."""

    def flag(found: re.Match[str]) -> str:
        name, likelihood = json.loads(found[1]), found[2]
        return f"--outputs {shlex.quote(f'{name}:{likelihood}')}"

    return _ADVICE.sub(flag, message)
