"""Outputs over their inputs: curves, maps and partial dependences."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from motleygp.numerics.chunks import some_places
from motleygp.prediction import AbstractPredictive, distributions
from motleygp.prediction.diagrams import crossed
from motleygp.reporting._facts import Facts, Output
from motleygp.reporting._figures import _draw as draw

# The number of points along each input, in curves and in maps.
_CURVE, _MAP = 121, 41
# For partial dependence: the number of points, of rows, and of inputs shown.
_POINTS, _ROWS, _INPUTS = 31, 60, 2


class Grids(NamedTuple):
    """The inputs at which figures need predictions, and the predictions there."""

    x: np.ndarray
    p: dict[str, AbstractPredictive]
    axes: list[int]
    """The numbers of the inputs that varied in the fit."""
    features: list[int]
    """For partial dependences: the numbers of the inputs that vary, in turn."""
    values: list[np.ndarray]
    """For partial dependences: the values of each of these inputs."""


def grids(facts: Facts) -> Grids:
    """A line for one input that varies, a rectangle for two, partial dependences for
    more; one point if none varies."""
    low, high = facts.fitted.input_range
    axes = np.flatnonzero(high > low).tolist()
    features: list[int] = []
    values: list[np.ndarray] = []
    if len(axes) <= 1:
        x = np.linspace(low, high, _CURVE if axes else 1)
    elif len(axes) == 2:
        x = np.tile(low, (_MAP * _MAP, 1))
        sides = [np.linspace(low[p], high[p], _MAP) for p in axes]
        x[:, axes] = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    else:
        features = sorted({p for o in facts.outputs for p in most_relevant(facts, o)})
        parts = []
        for place in features:
            own, every = crossed(facts.rows, place, _POINTS, _ROWS)
            values.append(own)
            parts.append(every.reshape(-1, len(low)))
        x = np.concatenate(parts)
    return Grids(x, distributions(facts.fitted, x), axes, features, values)


def most_relevant(facts: Facts, output: Output) -> list[int]:
    """The inputs that an output varies with most, among those that varied in the
    fit."""
    low, high = facts.fitted.input_range
    relevance = facts.relevance.to_numpy()[list(output.functions)].max(axis=0)
    relevance = np.where(high > low, relevance, -np.inf)
    return np.argsort(-relevance, kind="stable")[:_INPUTS].tolist()


def predictions(facts: Facts, output: Output, grid: Grids) -> Iterator[draw.Figure]:
    """The predictions of an output over the inputs that varied in the fit."""
    if len(grid.axes) == 1:
        yield _curve(facts, output, grid)
    elif len(grid.axes) == 2:
        yield from _maps(facts, output, grid)
    elif grid.axes:
        yield from _dependences(facts, output, grid)


def _mean_label(output: Output) -> str:
    if not output.likelihood.binary:
        return f"mean of {output.name}"
    label = (output.classes or (0, 1))[1]
    return f"probability that {output.name} is {label}"


def _curve(facts: Facts, output: Output, grid: Grids) -> draw.Figure:
    (place,) = grid.axes
    p, x = grid.p[output.name], facts.labels.along(place, grid.x[:, place])
    data, yaxis = [], {}
    if output.scored is not None:
        keep = some_places(len(output.scored.y), draw.MOST_DOTS)
        across = facts.labels.along(place, output.scored.x[keep, place])
        dots = across, output.scored.y[keep]
        data.append(_stems(*dots) if output.likelihood.counts else draw.dots(*dots))
    if output.likelihood.binary:
        caption = f"The {_mean_label(output)}."
        yaxis = {"range": [-0.05, 1.05]}
    else:
        low, high = p.interval(0.95).T
        steps = {"shape": "hvh"} if output.likelihood.discrete else {}
        data += draw.band(x, low, high, "95 % interval", "@band", **steps)
        caption = f"The mean and the 95 % interval of {output.name}."
    data.append(
        draw.line(x, p.mean, "probability" if output.likelihood.binary else "mean")
    )
    figure = draw.figure(
        caption, data, facts.fitted.inputs[place], output.name, yaxis=yaxis
    )
    # Bars of rows with the same input would be stacked.
    figure.layout["barmode"] = "overlay"
    return figure._replace(wide=True)


def _stems(x: np.ndarray, y: np.ndarray) -> dict:
    """Counts as bars from zero."""
    # Between dates, which are in milliseconds, plotly measures in milliseconds too.
    width = float(np.ptp(x).astype(float)) / 200.0 or 1.0
    return {
        "type": "bar",
        "x": draw.numbers(x),
        "y": draw.numbers(y),
        "width": width,
        "name": "data",
        "marker": {"color": "@data", "opacity": 0.6, "line": {"width": 0}},
    }


def _maps(facts: Facts, output: Output, grid: Grids) -> Iterator[draw.Figure]:
    p = grid.p[output.name]
    rectangle = grid.x.reshape(_MAP, _MAP, -1)
    first, second = grid.axes
    across = facts.labels.along(first, rectangle[0, :, first])
    up = facts.labels.along(second, rectangle[:, 0, second])
    names = [facts.fitted.inputs[place] for place in grid.axes]
    every = [(_mean_label(output), p.mean)]
    # The standard deviation of a binary output follows from its probability.
    if not output.likelihood.binary:
        every.append((f"standard deviation of {output.name}", p.std))
    for label, values in every:
        limits = {"zmin": 0, "zmax": 1} if output.likelihood.binary else {}
        heat = {
            "type": "heatmap",
            "x": draw.numbers(across),
            "y": draw.numbers(up),
            "z": [draw.numbers(row) for row in values.reshape(_MAP, _MAP)],
            "colorscale": "Viridis",
            "zsmooth": "best",
            "colorbar": draw.THIN,
            "hovertemplate": "%{x}, %{y}: %{z}<extra></extra>",
        } | limits
        data = [heat]
        if output.scored is not None:
            keep = some_places(len(output.scored.y), draw.MOST_DOTS)
            x = output.scored.x[keep]
            right, above = (facts.labels.along(p, x[:, p]) for p in grid.axes)
            values_there = [f"{value:.4g}" for value in output.scored.y[keep]]
            rim = {"color": "black", "width": 1}
            dots = draw.dots(right, above, color="white", line=rim)
            hover = "data: %{text}<extra></extra>"
            data.append(dots | {"text": values_there, "hovertemplate": hover})
        caption = f"The {label}" + ("; dots mark the data." if len(data) > 1 else ".")
        yield draw.figure(caption, data, *names, height=400)


def _dependences(facts: Facts, output: Output, grid: Grids) -> Iterator[draw.Figure]:
    rows = len(grid.x) // (len(grid.features) * _POINTS)
    for place in most_relevant(facts, output):
        number = grid.features.index(place)
        first = number * _POINTS * rows
        p = grid.p[output.name][slice(first, first + _POINTS * rows)]
        means = p.mean.reshape(_POINTS, rows)
        x = facts.labels.along(place, grid.values[number])
        low, high = np.quantile(means, [0.1, 0.9], axis=1)
        data = draw.band(x, low, high, "10 % to 90 % of the rows", "@band")
        data.append(draw.line(x, means.mean(axis=1), "average"))
        caption = (
            f"The {_mean_label(output)} as {facts.fitted.inputs[place]} varies and the "
            "other inputs stay the same."
        )
        yaxis = {"range": [-0.05, 1.05]} if output.likelihood.binary else {}
        yield draw.figure(
            caption, data, facts.fitted.inputs[place], output.name, yaxis=yaxis
        )
