"""Figures of the model: heat maps, relevance of inputs, inducing points."""

import numpy as np
import pandas as pd

from motleygp.reporting._facts import Facts
from motleygp.reporting._figures import _draw as draw

_DIVERGING = [[0.0, "@negative"], [0.5, "@paper"], [1.0, "@positive"]]


def heat_map(
    caption: str, frame: pd.DataFrame, limit: float | None = None
) -> draw.Figure:
    """A heat map of a frame with positive and negative numbers."""
    values = frame.to_numpy()
    limit = limit or float(np.abs(values).max()) or 1.0
    rows = [draw.text(str(row)) for row in frame.index]
    columns = [draw.text(str(column)) for column in frame.columns]
    if rows == columns:
        # Full names label the rows alone; the columns have their numbers.
        rows = [f"{name}  {n + 1}" for n, name in enumerate(rows)]
        columns = [str(n + 1) for n in range(len(columns))]
    elif len(set(columns)) < len(columns):
        columns = [f"{name} ({n + 1})" for n, name in enumerate(columns)]
    heat = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": [draw.numbers(row) for row in np.round(values, 4)],
        "zmin": -limit,
        "zmax": limit,
        "colorscale": _DIVERGING,
        "colorbar": draw.THIN,
        "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>",
    }
    if values.size <= 100:
        heat["texttemplate"] = "%{z:.2f}"
    return draw.figure(
        caption,
        [heat],
        "",
        "",
        height=draw.height(len(frame)) + 20,
        # Labels are categories even where they look like numbers.
        xaxis={"type": "category", "showgrid": False},
        yaxis={"autorange": "reversed", "showgrid": False},
    )


def relevance(facts: Facts) -> draw.Figure | None:
    """How much the functions vary with each input, if several inputs varied in the
    fit."""
    low, high = facts.fitted.input_range
    frame = facts.relevance.loc[:, high > low]
    if frame.shape[1] <= 1:
        return None
    values = frame.to_numpy()
    order = np.argsort(-values.mean(axis=0), kind="stable")
    names = [draw.text(str(frame.columns[p])) for p in order]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": draw.numbers(values.mean(axis=0)[order]),
        "name": "mean",
        "marker": {"color": "@blue", "opacity": 0.6},
    }
    each = {
        "type": "scatter",
        "mode": "markers",
        "x": draw.numbers(values[:, order].ravel()),
        "y": names * len(values),
        "text": [draw.text(str(row)) for row in frame.index for _ in names],
        "hovertemplate": "%{text}: %{x:.3g}<extra></extra>",
        "name": "each function",
        "marker": {"color": "@ink", "size": 4, "opacity": 0.6},
    }
    return draw.figure(
        "How much the functions vary with each input: their slope, in standard "
        "deviations of the function per standard deviation of the input.",
        [bars, each],
        "relevance",
        "",
        height=draw.height(len(names)) + 40,
        yaxis={"autorange": "reversed"},
    )


def inducing(facts: Facts) -> draw.Figure | None:
    """The inducing points, for one or two inputs."""
    z = facts.fitted.theta()["inducing"]
    if z.shape[-1] > 2:
        return None
    data = []
    for group, points in enumerate(z):
        up = np.full(len(points), group + 1)
        if z.shape[-1] == 2:
            up = facts.labels.along(1, points[:, 1])
        across = facts.labels.along(0, points[:, 0])
        dots = draw.dots(across, up, f"group {group + 1}", size=6, opacity=0.8)
        del dots["marker"]["color"]
        data.append(dots)
    names = [*facts.fitted.inputs, "group"][:2]
    return draw.figure("The inducing points of each group.", data, *names)
