"""The report: a fitted model and its scores as one HTML file."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from motleygp.files.modelfile import replace
from motleygp.inference import Observations
from motleygp.prediction import Fitted
from motleygp.progress import watched
from motleygp.reporting import _facts, _page
from motleygp.reporting._labels import Labels as Labels, labels as labels


def write(
    fitted: Fitted,
    path: str | os.PathLike,
    observed: Observations | None,
    own: Labels,
    *,
    alone: Mapping[str, Fitted] | None,
    sharing: pd.DataFrame | None,
    title: str,
    max_rows: int | None,
    seed: int | None,
    show: bool,
) -> None:
    """Write the report of a fitted model.

    **Arguments:**

    - `observed`: the rows to score; without them, the report describes the model alone.
    - `own`: the user's labels of these rows.
    - `alone`: for each output, a model of that output alone, for comparison.
    - `sharing`: the table of `compare_independent`, if the report is to show it.
    - `max_rows`: the largest number of rows to score; `None` for a default.
    - `seed`: the seed of the fit, as shown in the report.
    - `show`: whether to show progress bars.
    """

    def watch(label: str) -> Callable[[Sequence[Any]], Iterable[Any]]:
        return lambda items: watched(items, label, show=show)

    facts = _facts.gather(
        fitted, observed, own, alone, max_rows, seed, watch("scoring"), sharing
    )
    ys = [] if observed is None else observed.ys
    text = _page.page(facts, title, ys, watch("drawing"))
    replace(path, text.encode())
