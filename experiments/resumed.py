"""Tables of scores that a run which was stopped goes on with."""

import csv
from pathlib import Path
from typing import Any, TypeVar

Score = TypeVar("Score", bound=tuple)


def finished(path: Path | None, kind: type[Score]) -> list[Score]:
    """The scores that an earlier run has written; `kind` is a NamedTuple."""
    if path is None or not path.exists():
        return []
    fields: dict[str, Any] = kind.__annotations__
    with path.open(newline="") as file:
        header, *lines = [*csv.reader(file)] or [list(fields)]
    if header != list(fields):
        raise SystemExit(f"--output must be a table of this script; got {path}")
    return [
        kind(*(of(text) for of, text in zip(fields.values(), line, strict=True)))
        for line in lines
    ]


def write(path: Path, scores: list[Score]) -> None:
    """Add the scores of a cell to the file."""
    header = list(type(scores[0]).__annotations__)
    with path.open("a", newline="") as file:
        csv.writer(file).writerows(scores if file.tell() else [header, *scores])
