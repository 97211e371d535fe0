"""The pictures of a report, as plotly's JSON.

Colours are names, "@ink", that the page looks up among its own: they differ in the dark
and in print.
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motleygp.diagrams import (
    Shares,
    crossed,
    interval_shares,
    later_limits,
    pit_density,
    reliability_shares,
    running_mean,
    some_places,
)
from motleygp.likelihoods import Bernoulli
from motleygp.predictive import AbstractPredictive
from motleygp.reporting._facts import Facts, Output

# Values as dots, points of curves and of maps, and the points of a trace.
_MOST_DOTS, _CURVE, _MAP, _TRACE = 800, 121, 41, 600
# Of a partial dependence: points, rows, and the inputs that are shown.
_POINTS, _ROWS, _INPUTS = 31, 60, 2
_BINS = 10
# Bars of a picture that missing values are counted in.
_STRIPES = 60
_THIN = {"thickness": 12}
_DIVERGING = [[0.0, "@negative"], [0.5, "@paper"], [1.0, "@positive"]]


class Figure(NamedTuple):
    """A picture: what it shows in words, plotly's traces and its layout, and whether
    it has a row of the page to itself."""

    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    wide: bool = False


def _figure(
    caption: str,
    data: list[dict[str, Any]],
    x: str,
    y: str,
    *,
    height: int = 340,
    xaxis: Mapping[str, Any] = {},
    yaxis: Mapping[str, Any] = {},
) -> Figure:
    axis = {"gridcolor": "@grid", "zerolinecolor": "@grid", "automargin": True}
    layout = {
        "height": height,
        "margin": {"l": 50, "r": 16, "t": 12, "b": 44},
        "font": {"color": "@ink", "size": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"bgcolor": "@paper", "font": {"color": "@ink"}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {"title": {"text": text(x)}} | axis | dict(xaxis),
        "yaxis": {"title": {"text": text(y)}} | axis | dict(yaxis),
    }
    return Figure(caption, data, layout)


def text(name: str) -> str:
    """A name as it is: plotly takes some of HTML."""
    return escape(name, quote=False)


def numbers(values: Any) -> list[Any]:
    """Numbers to a hundred-thousandth of their range; None for what is not finite."""
    values = np.asarray(values, dtype=float)
    if values.ndim > 1:
        return [numbers(row) for row in values]
    finite = np.isfinite(values)
    largest = np.ptp(values[finite]) if finite.any() else 0.0
    largest = largest or (np.abs(values[finite]).max() if finite.any() else 0.0)
    if not 0.0 < largest < np.inf:
        return [float(v) if ok else None for v, ok in zip(values, finite, strict=True)]
    places = int(5 - np.floor(np.log10(largest)))
    pairs = zip(values, finite, strict=True)
    rounded = [round(float(v), places) if ok else None for v, ok in pairs]
    return [int(v) if v is not None and v == int(v) else v for v in rounded]


# Pieces.


def _line(x: Any, y: Any, name: str, color: str = "@blue", **more: Any) -> dict:
    line = {"color": color, "width": 2} | more.pop("line", {})
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "line": line,
    } | more


def _band(x: Any, low: Any, high: Any, name: str, color: str, **line: Any) -> list:
    """Two invisible lines, and what lies between them."""
    quiet = {"line": {"width": 0} | line, "hoverinfo": "skip", "legendgroup": name}
    return [
        _line(x, low, name, showlegend=False, **quiet),
        _line(x, high, name, fill="tonexty", fillcolor=color, **quiet),
    ]


def _dots(x: Any, y: Any, name: str = "data", **marker: Any) -> dict:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "marker": {"color": "@data", "size": 4, "opacity": 0.6} | marker,
    }


def _diagonal() -> dict:
    dashed = {"dash": "dash", "width": 1}
    quiet = {"showlegend": False, "hoverinfo": "skip"}
    return _line([0, 1], [0, 1], "equal", "@data", line=dashed, **quiet)


# Training.


def trace(history: Mapping[str, np.ndarray]) -> Figure | None:
    """Minus the bound, its running mean, and held-out scores where there are any."""
    nelbo = history["nelbo"]
    finite = np.isfinite(nelbo)
    when, values = history["iteration"][finite], nelbo[finite]
    if not len(values):
        return None
    smooth = running_mean(values)
    every = max(1, len(values) // _TRACE)
    faint = {"line": {"width": 1}, "opacity": 0.35, "hoverinfo": "skip"}
    data = [
        _line(when[::every], values[::every], "each minibatch", **faint),
        _line(when[-len(smooth) :][::every], smooth[::every], "running mean"),
    ]
    low, high = later_limits(values)
    for name, label, symbol in (
        ("refused", "refused step of q(u)", "x"),
        ("theta_refused", "refused draw of theta", "cross"),
    ):
        where = history["iteration"][history[name] > 0]
        if len(where):
            where = where[some_places(len(where), _MOST_DOTS)]
            marks = {"color": "@orange", "symbol": symbol, "size": 7}
            data.append(_dots(where, np.full(len(where), low), label, **marks))
    figure = _figure(
        "Minus the bound by iteration; lower is better.",
        data,
        "iteration",
        "minus the bound",
        yaxis={"range": [low, high]},
    )
    held = history.get("held_out", np.zeros(0))
    known = np.isfinite(held)
    if known.any():
        iteration = history["iteration"][known]
        style = {"mode": "lines+markers", "yaxis": "y2"}
        figure.data.append(
            _line(iteration, held[known], "held-out NLPD", "@orange", **style)
        )
        figure.layout["yaxis2"] = {
            "title": {"text": "held-out NLPD"},
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "automargin": True,
        }
    return figure


def restarts(starts: list[dict[str, Any]]) -> Figure | None:
    """The running means of all starts, and their scores."""
    data = []
    ends = []
    for number, start in enumerate(starts):
        nelbo = start["trace"].get("nelbo", np.zeros(0))
        finite = np.isfinite(nelbo)
        if not finite.any():
            continue
        values, when = nelbo[finite], start["trace"]["iteration"][finite]
        smooth = running_mean(values)
        every = max(1, len(smooth) // 200)
        name = f"start {number + 1}: {start['score']:.5g}"
        data.append(_line(when[-len(smooth) :][::every], smooth[::every], name))
        del data[-1]["line"]["color"]
        ends.append(later_limits(values))
    if len(data) < 2:
        return None
    low, high = np.min(ends), np.max(ends)
    return _figure(
        "The running means of all starts, with their scores (lower is better).",
        data,
        "iteration",
        "minus the bound",
        yaxis={"range": [float(low), float(high)]},
    )


# Data and scores.


def missing(names: list[str], ys: list[np.ndarray]) -> Figure | None:
    """The share of values that are missing, along the rows of the table."""
    if not any(np.isnan(y).any() for y in ys):
        return None
    longest = max(map(len, ys))
    stripes = min(_STRIPES, longest)
    first = np.ceil(np.arange(stripes) * longest / stripes)
    # By the rows themselves: an output may have fewer of them.
    shares = []
    for y in ys:
        which = np.arange(len(y)) * stripes // longest
        rows = np.bincount(which, minlength=stripes)
        absent = np.bincount(which, np.isnan(y), minlength=stripes)
        shares.append(np.where(rows > 0, absent / np.maximum(rows, 1), np.nan))
    heat = {
        "type": "heatmap",
        "x": numbers(first),
        "y": [text(name) for name in names],
        "z": [numbers(own) for own in shares],
        "colorscale": [[0.0, "@paper"], [1.0, "@orange"]],
        "zmin": 0,
        "zmax": 1,
        "hovertemplate": "%{y}, from row %{x}: %{z:.0%} missing<extra></extra>",
        "colorbar": {"title": {"text": "missing"}, "tickformat": ".0%"} | _THIN,
    }
    figure = _figure(
        "Where values are missing, along the rows of the table.",
        [heat],
        "row",
        "",
        height=_height(len(names)),
        yaxis={"autorange": "reversed"},
    )
    return figure._replace(wide=True)


def gains(facts: Facts) -> Figure | None:
    """How much less NLPD the model has than the marginal fit, per output."""
    names = [text(o.name) for o in facts.outputs if o.scored is not None]
    scored = [o.scored for o in facts.outputs if o.scored is not None]
    if not scored:
        return None
    data = []
    for label, color, each in (
        ("MotleyGP", "@blue", [s.log_prob for s in scored]),
        ("independent models", "@orange", [s.log_independent for s in scored]),
    ):
        gain = [
            value - s.log_marginal
            for value, s in zip(each, scored, strict=True)
            if value is not None
        ]
        if not gain:
            continue
        spread = [1.96 * g.std() / np.sqrt(len(g)) for g in gain]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": names,
                "x": numbers([g.mean() for g in gain]),
                "error_x": {
                    "type": "data",
                    "array": numbers(spread),
                    "color": "@ink",
                    "thickness": 1,
                    "width": 2,
                },
                "marker": {"color": color},
            }
        )
    return _figure(
        "NLPD gained over the marginal, with 95 % intervals; right of zero is better.",
        data,
        "nats per value",
        "",
        height=_height(len(names) * len(data)),
        yaxis={"autorange": "reversed"},
    )


def _height(bars: int) -> int:
    return int(np.clip(110 + 24 * bars, 220, 1400))


# Predictions.


class Grids(NamedTuple):
    """Inputs at which pictures need predictions, and the predictions there."""

    x: np.ndarray
    p: dict[str, AbstractPredictive]
    features: list[int]
    """Of partial dependences: the inputs that vary, in turn."""
    values: list[np.ndarray]


def grids(facts: Facts) -> Grids:
    """A line for one input, a square for two, and partial dependences for more."""
    low, high = facts.model.input_range_
    features: list[int] = []
    values: list[np.ndarray] = []
    if len(low) == 1:
        x = np.linspace(low, high, _CURVE)
    elif len(low) == 2:
        axes = [np.linspace(a, b, _MAP) for a, b in zip(low, high, strict=True)]
        x = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    else:
        features = sorted({p for o in facts.outputs for p in most_relevant(facts, o)})
        parts = []
        for place in features:
            own, every = crossed(facts.rows, place, _POINTS, _ROWS)
            values.append(own)
            parts.append(every.reshape(-1, len(low)))
        x = np.concatenate(parts)
    ones = [np.ones(len(x))] * len(facts.outputs)
    model = facts.model
    p = model._distributions(x, (), ones, [model._fitted], show=False)
    return Grids(x, p, features, values)


def most_relevant(facts: Facts, output: Output) -> list[int]:
    """The inputs that an output varies with most."""
    relevance = facts.relevance.to_numpy()[list(output.functions)]
    return np.argsort(-relevance.max(axis=0), kind="stable")[:_INPUTS].tolist()


def predictions(facts: Facts, output: Output, grid: Grids) -> Iterator[Figure]:
    """An output over its inputs."""
    if len(facts.features) == 1:
        yield _curve(facts, output, grid)
    elif len(facts.features) == 2:
        yield from _maps(facts, output, grid)
    else:
        yield from _dependences(facts, output, grid)


def _binary(output: Output) -> bool:
    return isinstance(output.likelihood, Bernoulli)


def _mean_label(output: Output) -> str:
    if not _binary(output):
        return f"mean of {output.name}"
    label = (output.classes or (0, 1))[1]
    return f"probability that {output.name} is {label}"


def _curve(facts: Facts, output: Output, grid: Grids) -> Figure:
    p, x = grid.p[output.name], grid.x[:, 0]
    data, yaxis = [], {}
    if output.scored is not None:
        keep = some_places(len(output.scored.y), _MOST_DOTS)
        dots = output.scored.x[keep, 0], output.scored.y[keep]
        data.append(_stems(*dots) if output.likelihood.counts else _dots(*dots))
    if _binary(output):
        caption = f"{_mean_label(output).capitalize()}."
        yaxis = {"range": [-0.05, 1.05]}
    else:
        low, high = p.interval(0.95).T
        steps = {"shape": "hvh"} if output.likelihood.discrete else {}
        data += _band(x, low, high, "95 % interval", "@band", **steps)
        caption = f"{output.name}: the mean and the 95 % interval."
    data.append(_line(x, p.mean, "probability" if _binary(output) else "mean"))
    figure = _figure(caption, data, facts.features[0], output.name, yaxis=yaxis)
    return figure._replace(wide=True)


def _stems(x: np.ndarray, y: np.ndarray) -> dict:
    """Counts as bars from zero."""
    width = float(np.ptp(x)) / 200.0 or 1.0
    return {
        "type": "bar",
        "x": numbers(x),
        "y": numbers(y),
        "width": width,
        "name": "data",
        "marker": {"color": "@data", "opacity": 0.6, "line": {"width": 0}},
    }


def _maps(facts: Facts, output: Output, grid: Grids) -> Iterator[Figure]:
    p = grid.p[output.name]
    across, up = np.unique(grid.x[:, 0]), np.unique(grid.x[:, 1])
    shape = len(up), len(across)
    every = [(_mean_label(output), p.mean)]
    # Of a binary output it follows from the probability.
    if not _binary(output):
        every.append((f"standard deviation of {output.name}", p.std))
    for label, values in every:
        limits = {"zmin": 0, "zmax": 1} if _binary(output) else {}
        heat = {
            "type": "heatmap",
            "x": numbers(across),
            "y": numbers(up),
            "z": [numbers(row) for row in values.reshape(shape)],
            "colorscale": "Viridis",
            "zsmooth": "best",
            "colorbar": _THIN,
            "hovertemplate": "%{x}, %{y}: %{z}<extra></extra>",
        } | limits
        data = [heat]
        if output.scored is not None:
            keep = some_places(len(output.scored.y), _MOST_DOTS)
            places = output.scored.x[keep].T
            values_there = [f"{value:.4g}" for value in output.scored.y[keep]]
            rim = {"color": "black", "width": 1}
            dots = _dots(*places, color="white", line=rim)
            hover = "data: %{text}<extra></extra>"
            data.append(dots | {"text": values_there, "hovertemplate": hover})
        caption = f"The {label}" + (", and where data are." if len(data) > 1 else ".")
        yield _figure(caption, data, *facts.features, height=400)


def _dependences(facts: Facts, output: Output, grid: Grids) -> Iterator[Figure]:
    rows = len(grid.x) // (len(grid.features) * _POINTS)
    for place in most_relevant(facts, output):
        number = grid.features.index(place)
        first = number * _POINTS * rows
        p = grid.p[output.name][slice(first, first + _POINTS * rows)]
        means = p.mean.reshape(_POINTS, rows)
        x = grid.values[number]
        low, high = np.quantile(means, [0.1, 0.9], axis=1)
        data = _band(x, low, high, "10 % to 90 % of the rows", "@band")
        data.append(_line(x, means.mean(axis=1), "average"))
        caption = (
            f"The {_mean_label(output)} by {facts.features[place]}, the other inputs "
            "staying as they are."
        )
        yaxis = {"range": [-0.05, 1.05]} if _binary(output) else {}
        yield _figure(caption, data, facts.features[place], output.name, yaxis=yaxis)


# Calibration.


def calibration(output: Output) -> Iterator[Figure]:
    """Whether what came is what was predicted."""
    scored = output.scored
    if scored is None or len(scored.y) < 2 * _BINS:
        return
    if _binary(output):
        yield _reliability(reliability_shares(scored.p, scored.y, _BINS))
        return
    yield _coverage(interval_shares(scored.pit))
    yield _pit(pit_density(scored.pit, _BINS))


def _reliability(shares: Shares) -> Figure:
    bars = {
        "type": "data",
        "symmetric": False,
        "array": numbers(shares.high - shares.place),
        "arrayminus": numbers(shares.place - shares.low),
        "color": "@grid",
        "thickness": 6,
        "width": 0,
    }
    chance = _dots(shares.place, shares.place, "chance", opacity=0.0)
    chance |= {"error_y": bars, "hoverinfo": "skip", "showlegend": False}
    line = _line(shares.place, shares.share, "observed", mode="lines+markers")
    ends = {"range": [-0.05, 1.05]}
    return _figure(
        "How often it came, against the probability that was given. Grey bars hold "
        "95 % of the shares if probabilities are right.",
        [chance, _diagonal(), line],
        "predicted probability",
        "observed share",
        xaxis=ends,
        yaxis=ends,
    )


def _coverage(shares: Shares) -> Figure:
    data = _band(shares.place, shares.low, shares.high, "chance", "@grey_band")
    data += [_diagonal(), _line(shares.place, shares.share, "observed")]
    return _figure(
        "The share of values inside intervals of each probability. Below the dashed "
        "line intervals are too narrow, above it too wide.",
        data,
        "probability of the interval",
        "share inside",
    )


def _pit(shares: Shares) -> Figure:
    width = 1.0 / len(shares.place)
    middle = shares.place + 0.5 * width
    bars = {
        "type": "bar",
        "x": numbers(middle),
        "y": numbers(shares.share),
        "width": width,
        "name": "observed",
        "marker": {"color": "@blue", "opacity": 0.6},
    }
    ends = np.array([0.0, 1.0])
    low, high = np.full(2, shares.low[0]), np.full(2, shares.high[0])
    band = _band(ends, low, high, "chance", "@grey_band")
    return _figure(
        "Where values fell in their predictive distributions: flat if predictions are "
        "right, high at both ends if they are too narrow, in the middle if too wide.",
        [bars, *band],
        "probability of a smaller value",
        "density",
    )


# The model.


def heat_map(caption: str, frame: pd.DataFrame, limit: float | None = None) -> Figure:
    """A frame of numbers of both signs."""
    values = frame.to_numpy()
    limit = limit or float(np.abs(values).max()) or 1.0
    rows = [text(str(row)) for row in frame.index]
    columns = [text(str(column)) for column in frame.columns]
    if rows == columns:
        # The names once, their numbers across.
        rows = [f"{name}  {n + 1}" for n, name in enumerate(rows)]
        columns = [str(n + 1) for n in range(len(columns))]
    elif len(set(columns)) < len(columns):
        columns = [f"{name} ({n + 1})" for n, name in enumerate(columns)]
    heat = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": [numbers(row) for row in np.round(values, 4)],
        "zmin": -limit,
        "zmax": limit,
        "colorscale": _DIVERGING,
        "colorbar": _THIN,
        "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>",
    }
    if values.size <= 100:
        heat["texttemplate"] = "%{z:.2f}"
    return _figure(
        caption,
        [heat],
        "",
        "",
        height=_height(len(frame)) + 20,
        # Names, even where they look like numbers.
        xaxis={"type": "category", "showgrid": False},
        yaxis={"autorange": "reversed", "showgrid": False},
    )


def relevance(facts: Facts) -> Figure | None:
    """How much the functions vary with each input, where there are several."""
    frame = facts.relevance
    if frame.shape[1] == 1:
        return None
    values = frame.to_numpy()
    order = np.argsort(-values.mean(axis=0), kind="stable")
    names = [text(str(frame.columns[p])) for p in order]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": numbers(values.mean(axis=0)[order]),
        "name": "mean",
        "marker": {"color": "@blue", "opacity": 0.6},
    }
    each = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(values[:, order].ravel()),
        "y": names * len(values),
        "text": [text(str(row)) for row in frame.index for _ in names],
        "hovertemplate": "%{text}: %{x:.3g}<extra></extra>",
        "name": "each function",
        "marker": {"color": "@ink", "size": 4, "opacity": 0.6},
    }
    return _figure(
        "How much the functions vary with each input: their slope, in standard "
        "deviations of both.",
        [bars, each],
        "relevance",
        "",
        height=_height(len(names)) + 40,
        yaxis={"autorange": "reversed"},
    )


def inducing(facts: Facts) -> Figure | None:
    """Where the inducing points are, for one or two inputs."""
    z = facts.model._theta()["inducing"]
    if z.shape[-1] > 2:
        return None
    data = []
    for group, points in enumerate(z):
        up = points[:, 1] if z.shape[-1] == 2 else np.full(len(points), group + 1)
        dots = _dots(points[:, 0], up, f"group {group + 1}", size=6, opacity=0.8)
        del dots["marker"]["color"]
        data.append(dots)
    names = [*facts.features, "group"][:2]
    return _figure("The inducing points of each group.", data, *names)
