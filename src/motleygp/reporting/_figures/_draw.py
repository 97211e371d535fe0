"""The building blocks of figures, as plotly's JSON.

Colours are names such as "@ink". The page replaces them with its own colours, which
differ in dark mode and in print.
"""

from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

import numpy as np

# The largest number of values shown as dots.
MOST_DOTS = 800
# The style of colour bars.
THIN = {"thickness": 12}


class Figure(NamedTuple):
    """A figure: its caption, plotly's traces and layout, and whether it takes up a
    whole row of the page."""

    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    wide: bool = False


def figure(
    caption: str,
    data: list[dict[str, Any]],
    x: str,
    y: str,
    *,
    height: int = 340,
    xaxis: Mapping[str, Any] = {},
    yaxis: Mapping[str, Any] = {},
) -> Figure:
    """A figure with titles `x` and `y` of its axes; `xaxis` and `yaxis` are further
    plotly settings of theirs."""
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
    """A name, escaped: plotly interprets some HTML."""
    return escape(name, quote=False)


def numbers(values: Any) -> list[Any]:
    """Numbers rounded to about a hundred-thousandth of their range, `None` for those
    that are not finite; dates as text."""
    values = np.asarray(values)
    if values.dtype.kind == "M":
        return np.datetime_as_string(values).tolist()
    values = values.astype(float)
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


def line(x: Any, y: Any, name: str, color: str = "@blue", **more: Any) -> dict:
    """A line; `more` are further plotly settings."""
    style = {"color": color, "width": 2} | more.pop("line", {})
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "line": style,
    } | more


def band(x: Any, low: Any, high: Any, name: str, color: str, **style: Any) -> list:
    """Two invisible lines, and the filled area between them."""
    quiet = {"line": {"width": 0} | style, "hoverinfo": "skip", "legendgroup": name}
    return [
        line(x, low, name, showlegend=False, **quiet),
        line(x, high, name, fill="tonexty", fillcolor=color, **quiet),
    ]


def dots(x: Any, y: Any, name: str = "data", **marker: Any) -> dict:
    """Values as dots."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "marker": {"color": "@data", "size": 4, "opacity": 0.6} | marker,
    }


def diagonal() -> dict:
    """The dashed line on which observed and predicted shares are equal."""
    dashed = {"dash": "dash", "width": 1}
    quiet = {"showlegend": False, "hoverinfo": "skip"}
    return line([0, 1], [0, 1], "equal", "@data", line=dashed, **quiet)


def height(bars: int) -> int:
    """The height, in pixels, of a figure with this number of bars or rows."""
    return int(np.clip(110 + 24 * bars, 220, 1400))
