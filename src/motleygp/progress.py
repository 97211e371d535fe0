"""Progress bars, on standard error."""

import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

# A prediction of this many rows takes seconds.
_MANY_ROWS = 80_000
# What a closed stream raises, or one that is None.
_CLOSED = (OSError, ValueError, AttributeError)


class _StandardError(io.TextIOBase):
    """Standard error, or nothing where it is closed: a bar must not end a fit."""

    @property
    def _stream(self) -> Any:
        # While a bar is shown, rich replaces standard error by a proxy to this object.
        return getattr(sys.stderr, "rich_proxied_file", sys.stderr)

    def write(self, text: str) -> int:
        with contextlib.suppress(*_CLOSED):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(*_CLOSED):
            self._stream.flush()

    def isatty(self) -> bool:
        with contextlib.suppress(*_CLOSED):
            return self._stream.isatty()
        return False

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        """Rich draws plainer bars where it is not UTF-8."""
        return getattr(self._stream, "encoding", None) or "utf-8"


def console() -> Console:
    """A console on standard error, which may be closed at any time."""
    file: Any = _StandardError()
    return Console(file=file)


def _bar(*columns: ProgressColumn, show: bool) -> Progress:
    first = (TextColumn("{task.description}"), BarColumn())
    return Progress(*first, *columns, console=console(), disable=not show)


@contextmanager
def training_bar(
    total: int, *, show: bool, label: str = "training", plan: str = ""
) -> Iterator[Callable[[int, int, str], None]]:
    """A bar of iterations; it yields a function of the iteration, the last iteration
    and a text to show. At first it shows the plan."""
    bar = _bar(
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
        show=show,
    )
    with bar:
        said = f"compiling for {plan}" if plan else "compiling"
        task = bar.add_task(label, total=total, said=said)

        def update(iteration: int, horizon: int, said: str) -> None:
            bar.update(task, completed=iteration, total=horizon, said=said)

        yield update


def watched(items: Sequence[Any], label: str, *, show: bool) -> Iterator[Any]:
    """Iterate over the items under a bar that counts them."""
    with _bar(MofNCompleteColumn(), show=show) as bar:
        yield from bar.track(items, description=label)


def watched_rows(show: bool) -> Callable[[list[slice]], Iterator[slice]]:
    """A function that iterates over slices of rows, under a bar if there are many."""

    def watch(parts: list[slice]) -> Iterator[slice]:
        counted = TextColumn("{task.completed:,} / {task.total:,} rows")
        many = parts[-1].stop >= _MANY_ROWS
        with _bar(counted, TimeRemainingColumn(), show=show and many) as bar:
            task = bar.add_task("predicting", total=parts[-1].stop)
            for part in parts:
                yield part
                bar.update(task, completed=part.stop)

    return watch


@contextmanager
def download_bar(
    label: str, total: int | None, *, show: bool
) -> Iterator[Callable[[int], None]]:
    """A bar of bytes, whose total may be unknown; it yields a function of the bytes
    that have come."""
    with _bar(DownloadColumn(), TimeRemainingColumn(), show=show) as bar:
        task = bar.add_task(label, total=total)
        yield lambda come: bar.advance(task, come)


@contextmanager
def restarts_bar(total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A bar for simultaneous runs; it yields a function of the iteration."""
    with _bar(MofNCompleteColumn(), TimeRemainingColumn(), show=show) as bar:
        task = bar.add_task("training", total=total)
        yield lambda iteration: bar.update(task, completed=iteration)
