"""The report: what a fitted model is and how good it is, as one HTML file."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from motleygp.estimator.fitting import Observations
from motleygp.estimator.independent import IndependentGPs
from motleygp.files.modelfile import replace
from motleygp.progress import watched
from motleygp.reporting import _facts, _page


def write(
    model: Any,
    path: str | os.PathLike,
    observed: Observations | None,
    *,
    independent: IndependentGPs | None,
    title: str,
    max_rows: int | None,
    show: bool,
) -> None:
    """Write the report of a fitted model, scored on `observed`."""

    def watch(label: str) -> Callable[[Sequence[Any]], Iterable[Any]]:
        return lambda items: watched(items, label, show=show)

    facts = _facts.gather(model, observed, independent, max_rows, watch("scoring"))
    ys = [] if observed is None else observed.ys
    text = _page.page(facts, title, ys, watch("drawing"))
    replace(path, text.encode())
