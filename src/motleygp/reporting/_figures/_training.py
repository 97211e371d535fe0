"""Figures of training: the bound by iteration, and all starts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motleygp.numerics.chunks import some_places
from motleygp.prediction.diagrams import later_limits, running_mean
from motleygp.reporting._figures import _draw as draw

# Points in the figure of a trace, and in that of each start.
_TRACE, _START = 600, 200


def trace(history: Mapping[str, np.ndarray]) -> draw.Figure | None:
    """The negative bound, its running mean, and held-out scores if there are any."""
    nelbo = history["nelbo"]
    finite = np.isfinite(nelbo)
    when, values = history["iteration"][finite], nelbo[finite]
    if not len(values):
        return None
    smooth = running_mean(values)
    every = max(1, len(values) // _TRACE)
    faint = {"line": {"width": 1}, "opacity": 0.35, "hoverinfo": "skip"}
    data = [
        draw.line(when[::every], values[::every], "each minibatch", **faint),
        draw.line(when[-len(smooth) :][::every], smooth[::every], "running mean"),
    ]
    low, high = later_limits(values)
    for name, label, symbol in (
        ("refused", "refused step of q(u)", "x"),
        ("theta_refused", "refused draw of theta", "cross"),
    ):
        where = history["iteration"][history[name] > 0]
        if len(where):
            where = where[some_places(len(where), draw.MOST_DOTS)]
            marks = {"color": "@orange", "symbol": symbol, "size": 7}
            data.append(draw.dots(where, np.full(len(where), low), label, **marks))
    figure = draw.figure(
        "The negative bound by iteration; lower is better.",
        data,
        "iteration",
        "negative bound",
        yaxis={"range": [low, high]},
    )
    held = history.get("held_out", np.zeros(0))
    known = np.isfinite(held)
    if known.any():
        iteration = history["iteration"][known]
        style = {"mode": "lines+markers", "yaxis": "y2"}
        figure.data.append(
            draw.line(iteration, held[known], "held-out NLPD", "@orange", **style)
        )
        figure.layout["yaxis2"] = {
            "title": {"text": "held-out NLPD"},
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "automargin": True,
        }
    return figure


def restarts(starts: Sequence[Mapping[str, Any]]) -> draw.Figure | None:
    """The running means and scores of all starts, if there are several."""
    data = []
    ends = []
    for number, start in enumerate(starts):
        nelbo = start["trace"].get("nelbo", np.zeros(0))
        finite = np.isfinite(nelbo)
        if not finite.any():
            continue
        values, when = nelbo[finite], start["trace"]["iteration"][finite]
        smooth = running_mean(values)
        every = max(1, len(smooth) // _START)
        name = f"start {number + 1}: {start['score']:.5g}"
        data.append(draw.line(when[-len(smooth) :][::every], smooth[::every], name))
        del data[-1]["line"]["color"]
        ends.append(later_limits(values))
    if len(data) < 2:
        return None
    low, high = np.min(ends), np.max(ends)
    return draw.figure(
        "The running means of all starts, with their scores; lower is better.",
        data,
        "iteration",
        "negative bound",
        yaxis={"range": [float(low), float(high)]},
    )
