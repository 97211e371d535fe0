"""What a fitted model says of its functions and inputs."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from motleygp.plotting._style import BLUE

# Red for above zero, blue for below, white between.
_COLOURS = "RdBu_r"
# Columns up to which numbers in the cells are worth reading.
_MOST_NUMBERS = 10
# Sizes of text, in points, and the share of a row's height that it takes.
_SMALLEST_TEXT, _LARGEST_TEXT, _TEXT_SHARE = 5.0, 10.0, 0.7
# The width of a cell's number, in sizes of its text, with some room.
_NUMBER_WIDTH = 3.4
# Shares of the largest value beyond which a cell is dark, or worth a sign.
_DARK, _NOTABLE = 0.6, 0.05
# Letters up to which a column's label has room across.
_SHORT = 3


def heat_map(
    ax: Axes,
    frame: pd.DataFrame,
    *,
    limit: float | None = None,
    label: str | None = None,
) -> Axes:
    """A frame's numbers as colours: `correlation()`, `weights()` of a model.

    Red is above zero and blue below. Cells show their numbers where there are few
    columns; where there are many, a minus sign marks those below zero, which would
    otherwise be lost in grey. Where rows and columns have the same names, the columns
    show the rows' numbers.

    **Arguments:**

    - `limit`: the size at which colours end; by default 1 for a frame that has the same
      rows and columns, as a correlation has, and its largest number otherwise.
    - `label`: of the colour bar.
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
    """The number in each cell, or a sign where there is no room for it."""
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

    A bar is the mean over the functions, a dot one of them. The input that matters most
    comes first.
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
    ax.set_xlabel("relevance: mean of the functions, and each")
    return ax


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    values = frame.to_numpy(dtype=float)
    if not values.size or not np.isfinite(values).all():
        raise ValueError(
            "`frame` must hold finite numbers, one at least; "
            f"got {int((~np.isfinite(values)).sum())} others among {values.size}."
        )
    return values


def _text_size(ax: Axes, rows: int) -> float:
    """What fits into a row, as long as it can be read."""
    size = _TEXT_SHARE * _points(ax)[1] / rows
    return float(np.clip(size, _SMALLEST_TEXT, _LARGEST_TEXT))


def _points(ax: Axes) -> tuple[float, float]:
    """The width and height of the axes, before any layout."""
    extent = ax.get_window_extent()
    return 72.0 * extent.width / ax.figure.dpi, 72.0 * extent.height / ax.figure.dpi
