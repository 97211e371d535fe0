"""The functions and inputs of a fitted model."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from motleygp.plotting._style import BLUE

# Red above zero, blue below, white at zero.
_COLOURS = "RdBu_r"
# The most columns for which the cells show numbers.
_MOST_NUMBERS = 10
# The limits of the text size, in points, and its share of the height of a row.
_SMALLEST_TEXT, _LARGEST_TEXT, _TEXT_SHARE = 5.0, 10.0, 0.7
# The width of a number in a cell, in text sizes, with a margin.
_NUMBER_WIDTH = 3.4
# Shares of the limit beyond which a cell is dark, or gets a minus sign.
_DARK, _NOTABLE = 0.6, 0.05
# The most letters of a column label that is written horizontally.
_SHORT = 3


def heat_map(
    ax: Axes,
    frame: pd.DataFrame,
    *,
    limit: float | None = None,
    label: str | None = None,
) -> Axes:
    """The numbers of a frame as colours: `correlation()` or `weights()` of a model.

    Red is above zero and blue below. With few columns the cells show their numbers;
    with many, a minus sign marks cells below zero, so that they differ from the others
    in grey. If rows and columns have the same names, the rows are numbered, and the
    columns show these numbers.

    **Arguments:**

    - `limit`: the absolute value at which the colours end; by default 1 if rows and
      columns have the same names, as for a correlation, or else the largest one.
    - `label`: the label of the colour bar.
    """
    values = _numbers(frame)
    square = list(frame.index) == list(frame.columns)
    if limit is None:
        limit = 1.0 if square else float(np.abs(values).max()) or 1.0
    if not limit > 0:
        raise ValueError(f"`limit` must be above 0; got {limit}.")
    image = ax.imshow(values, cmap=_COLOURS, vmin=-limit, vmax=limit, aspect="auto")
    ax.figure.colorbar(image, ax=ax, label=label or "")
    rows, columns = [str(r) for r in frame.index], [str(c) for c in frame.columns]
    if square:
        columns = [str(number + 1) for number in range(len(columns))]
        rows = [f"{r}  {c}" for r, c in zip(rows, columns, strict=True)]
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(labelsize=_text_size(ax, max(values.shape)), length=0)
    ax.tick_params(axis="x", rotation=90 if max(map(len, columns)) > _SHORT else 0)
    _write_cells(ax, values, limit)
    return ax


def _write_cells(ax: Axes, values: np.ndarray, limit: float) -> None:
    """Write the number into each cell, or minus signs if there is no room."""
    num_columns = values.shape[1]
    size = _text_size(ax, max(values.shape))
    room = _points(ax)[0] / num_columns / _NUMBER_WIDTH
    numbers = num_columns <= _MOST_NUMBERS and room >= _SMALLEST_TEXT
    for (row, column), value in np.ndenumerate(values):
        share = value / limit
        text = f"{value:.2f}" if numbers else "\u2212" if share < -_NOTABLE else ""
        ax.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            color="white" if abs(share) > _DARK else "black",
            fontsize=min(size, room) if numbers else size,
        )


def relevance_bars(ax: Axes, frame: pd.DataFrame) -> Axes:
    """How much the functions vary with each input: `relevance()` of a model.

    A bar is the mean over the functions, and a dot is one function. The most relevant
    input comes first.
    """
    values = _numbers(frame)
    order = np.argsort(-values.mean(axis=0), kind="stable")
    places = np.arange(len(order))
    ax.barh(places, values.mean(axis=0)[order], color=BLUE, alpha=0.6)
    for row in values:
        ax.plot(row[order], places, "o", color="black", markersize=3, alpha=0.6)
    ax.set_yticks(places, [str(frame.columns[p]) for p in order])
    ax.tick_params(axis="y", labelsize=_text_size(ax, len(order)))
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("relevance: mean (bar) and functions (dots)")
    return ax


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    values = frame.to_numpy(dtype=float)
    if not values.size or not np.isfinite(values).all():
        raise ValueError(
            "`frame` must hold finite numbers, and at least one; "
            f"got {int((~np.isfinite(values)).sum())} others among {values.size}."
        )
    return values


def _text_size(ax: Axes, rows: int) -> float:
    """The text size that fits into a row, between a smallest and a largest size."""
    size = _TEXT_SHARE * _points(ax)[1] / rows
    return float(np.clip(size, _SMALLEST_TEXT, _LARGEST_TEXT))


def _points(ax: Axes) -> tuple[float, float]:
    """The width and height of the axes in points, before any layout."""
    extent = ax.get_window_extent()
    return 72.0 * extent.width / ax.figure.dpi, 72.0 * extent.height / ax.figure.dpi
