"""The progress bar of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from motleygp.training import StepInfo


@contextmanager
def progress_bar(
    num_steps: int, *, show: bool, label: str = "training"
) -> Iterator[Callable[[int, StepInfo], None]]:
    """A callback for `training.fit` that draws a bar: iteration, minus the bound,
    steps that the guard cut, time left. On standard error; silent unless `show`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("-ELBO {task.fields[nelbo]}"),
        TextColumn("cut {task.fields[cut]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), disable=not show)
    with bar:
        task = bar.add_task(label, total=num_steps, nelbo="-", cut=0)
        cut = 0

        def update(done: int, info: StepInfo) -> None:
            nonlocal cut
            cut += int(np.sum(info.q.shrinks > 0))
            nelbo = f"{float(np.mean(info.nelbo)):.5g}"
            bar.update(task, completed=done, nelbo=nelbo, cut=cut)

        yield update
