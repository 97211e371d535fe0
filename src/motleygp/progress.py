"""The progress bar of a run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from motleygp.training.loop import Report


@contextmanager
def progress_bar(
    num_steps: int, *, show: bool, label: str = "training"
) -> Iterator[Callable[[Report], None]]:
    """A callback for `loop.fit` that draws a bar: iteration, minus the bound, the
    held-out NLPD where there is one, steps refused and shortened, time left.

    On standard error; silent unless `show`.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), disable=not show)
    with bar:
        task = bar.add_task(label, total=num_steps, said="compiling")
        refused = cut = 0

        def update(report: Report) -> None:
            nonlocal refused, cut
            info = report.info
            refused += int(np.sum((info.q.refused > 0) | info.refused))
            cut += int(np.sum(info.q.shrinks > 0))
            said = f"-ELBO {float(np.mean(info.nelbo)):.5g}"
            if report.held_out is not None:
                said += f"  held-out NLPD {report.held_out:.4f}"
            said += f"  refused {refused}  cut {cut}"
            bar.update(
                task, completed=report.iteration, total=report.horizon, said=said
            )

        yield update


def watched(items: Sequence[Any], label: str, *, show: bool) -> Iterator[Any]:
    """The items in turn, and a bar of how many are done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=Console(stderr=True), disable=not show)
    with bar:
        yield from bar.track(items, description=label)


# Rows from which on a prediction takes seconds.
_MANY_ROWS = 80_000


def watched_rows(show: bool) -> Callable[[list[slice]], Iterator[slice]]:
    """Goes through the rows of a prediction, and draws a bar if they are many."""

    def watch(parts: list[slice]) -> Iterator[slice]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,} / {task.total:,} rows"),
            TimeRemainingColumn(),
        )
        quiet = not show or parts[-1].stop < _MANY_ROWS
        bar = Progress(*columns, console=Console(stderr=True), disable=quiet)
        with bar:
            task = bar.add_task("predicting", total=parts[-1].stop)
            for part in parts:
                yield part
                bar.update(task, completed=part.stop)

    return watch


@contextmanager
def restarts_bar(num_steps: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A callback for runs that go on together: the iteration and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), disable=not show)
    with bar:
        task = bar.add_task("training", total=num_steps)
        yield lambda iteration: bar.update(task, completed=iteration)
