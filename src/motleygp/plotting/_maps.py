"""Predictions over two inputs."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.tri import Triangulation

from motleygp.plotting import _inputs
from motleygp.prediction.predictive import AbstractPredictive
from motleygp.tables import frames

# The lightness changes evenly, so the map can be read in grey.
_COLOURS = "viridis"


def predictive_map(
    ax: Axes, x: Any, predictive: AbstractPredictive, *, what: str = "mean"
) -> Axes:
    """The mean or the standard deviation of an output over two inputs, as colours.

    Rows that form a grid, in any order, are drawn as cells. Scattered rows are the
    corners of triangles with interpolated colours. The column names of a frame label
    the axes.

    **Arguments:**

    - `x`: the inputs of the rows, (N, 2).
    - `what`: "mean" or "std".
    """
    if what not in ("mean", "std"):
        raise ValueError(f"`what` must be 'mean' or 'std'; got {what!r}.")
    inputs = _inputs.read(x, "x")
    matrix = inputs.matrix
    if matrix.shape != (len(predictive), 2):
        raise ValueError(
            "`x` must have two columns and one row per row of `predictive`, "
            f"{len(predictive)}; got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        strange = matrix[~np.isfinite(matrix)][0]
        raise ValueError(f"`x` must hold finite numbers; got {strange}.")
    across = inputs.placed(ax.xaxis, 0, matrix[:, 0])
    matrix = np.stack([across, inputs.placed(ax.yaxis, 1, matrix[:, 1])], axis=1)
    norm = Normalize()
    if what == "std":
        values, label = predictive.std, "standard deviation"
    elif predictive.likelihood.binary:
        values, label = predictive.mean, "probability of 1"
        # The same colours for all maps of probabilities, so that they can be compared.
        norm = Normalize(0.0, 1.0)
    else:
        values, label = predictive.mean, "mean"
    ax.figure.colorbar(_coloured(ax, matrix, values, norm), ax=ax, label=label)
    if frames.is_frame(x):
        ax.set_xlabel(inputs.names[0])
        ax.set_ylabel(inputs.names[1])
    return ax


def inducing_points(ax: Axes, z: Any, *, label: str = "inducing points") -> Axes:
    """Inducing points as crosses over two inputs, or as ticks along the axis of one.

    `z` has shape (..., M, P), as `parameters()["inducing"]` has.
    """
    points = frames.as_matrix(z, name="z")
    if points.ndim < 2 or points.shape[-1] not in (1, 2):
        raise ValueError(
            f"`z` must have shape (..., M, 1) or (..., M, 2); got {points.shape}."
        )
    points = points.reshape(-1, points.shape[-1])
    if points.shape[1] == 1:
        # Data units on the x axis, fractions of the axes on the y axis.
        style = {"marker": "|", "color": "black", "transform": ax.get_xaxis_transform()}
        ax.scatter(points[:, 0], np.full(len(points), 0.02), label=label, **style)
        return ax
    # Black on white is visible on every colour.
    ax.scatter(*points.T, marker="x", color="white", s=36, linewidths=3.0)
    ax.scatter(*points.T, marker="x", color="black", s=24, linewidths=1.2, label=label)
    return ax


def _coloured(
    ax: Axes, x: np.ndarray, values: np.ndarray, norm: Normalize
) -> ScalarMappable:
    across, column = np.unique(x[:, 0], return_inverse=True)
    up, row = np.unique(x[:, 1], return_inverse=True)
    style: dict[str, Any] = {"cmap": _COLOURS, "norm": norm, "rasterized": True}
    if min(len(across), len(up)) > 1 and len(across) * len(up) == len(x):
        grid = np.full((len(up), len(across)), np.nan)
        grid[row, column] = values
        # Repeated rows leave a cell empty, so they form no grid.
        if not np.isnan(grid).any():
            return ax.pcolormesh(across, up, grid, shading="nearest", **style)
    return ax.tripcolor(_triangles(x), values, shading="gouraud", **style)


def _triangles(x: np.ndarray) -> Triangulation:
    """A triangulation of inputs scaled to equal ranges, so that units do not matter."""
    centred = x - x.mean(axis=0)
    scaled = centred / np.maximum(np.abs(centred).max(axis=0), np.finfo(float).tiny)
    if np.linalg.matrix_rank(scaled) < 2:
        raise ValueError(
            f"`x` must have three rows that are not on a line; got {len(x)} on one."
        )
    return Triangulation(x[:, 0], x[:, 1], Triangulation(*scaled.T).triangles)
