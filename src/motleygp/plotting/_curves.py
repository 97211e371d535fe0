"""Predictions over one input."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from motleygp.plotting import _inputs
from motleygp.plotting._style import BAND_ALPHA, DATA, limit_to_shares
from motleygp.prediction.diagrams import crossed
from motleygp.prediction.predictive import AbstractPredictive
from motleygp.tables import frames

# The quantiles over the rows in the band of `partial_dependence`.
_SPREAD = [0.1, 0.9]
# A line turns at few of its rows; where other inputs vary as well, the means turn at
# two rows of three. Fewer rows than these may turn by chance.
_TURNS, _FEWEST_ROWS = 0.4, 10


@runtime_checkable
class _Predicts(Protocol):
    """A fitted `MotleyGP`, or its `independent()`."""

    def predict_dist(self, X: Any) -> dict[str, AbstractPredictive]: ...


def predictive_curve(
    ax: Axes,
    x: ArrayLike | pd.DataFrame,
    predictive: AbstractPredictive,
    *,
    coverage: float = 0.95,
    label: str | None = None,
) -> Axes:
    """An output over one input: its mean as a line, its central interval as a band.

    A binary output has no band, because an interval between 0 and 1 says nothing. The
    band of a count has steps, one per row, because its ends are whole numbers.

    With several inputs, only one may vary: see `along`. If others seem to vary too,
    because the means jump from row to row, each row is a dot with a bar for its
    interval, and no line connects them.

    **Arguments:**

    - `x`: the one input of the rows, or all of their inputs; then the label of the axis
      has the values of those that are fixed.
    """
    inputs, place = _one_that_varies(x, len(predictive))
    values = inputs.matrix[:, place]
    order = np.argsort(values, kind="stable")
    values, predictive = values[order], predictive[order]
    mean = predictive.mean
    if len(inputs.names) > 1:
        ax.set_xlabel(f"{inputs.names[place]} ({inputs.fixed(place)})")
    x = inputs.placed(ax.xaxis, place, values)
    if _jumps(values, mean):
        return _dots_with_bars(ax, x, predictive, coverage, label)
    binary = predictive.likelihood.binary
    stepped = predictive.likelihood.discrete and not binary
    (line,) = ax.plot(x, mean, label=label, zorder=3)
    if binary:
        limit_to_shares(ax)
        ax.set_ylabel("probability of 1")
        return ax
    low, high = predictive.interval(coverage).T
    ax.fill_between(
        x,
        low,
        high,
        step="mid" if stepped else None,
        color=line.get_color(),
        alpha=BAND_ALPHA,
        # The interval of a rare count may be only 0, which has no area.
        linewidth=1.0 if stepped else 0.0,
    )
    if stepped and ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def _one_that_varies(x: Any, num_rows: int) -> tuple[_inputs.Inputs, int]:
    """The inputs of the rows, and the number of the only one that varies."""
    inputs = _inputs.read(x, "x")
    if inputs.matrix.shape == (1, num_rows):
        inputs = _inputs.read(inputs.matrix.T, "x")
    if inputs.matrix.ndim != 2 or len(inputs.matrix) != num_rows:
        raise ValueError(
            f"`x` must have one value per row of `predictive`, {num_rows}; "
            f"got {inputs.matrix.shape}."
        )
    varying = np.flatnonzero((inputs.matrix != inputs.matrix[:1]).any(axis=0))
    if len(varying) > 1:
        first, second = (inputs.names[p] for p in varying[:2])
        raise ValueError(
            f"`x` must vary in one input only; got {first!r} and {second!r}, which "
            "both vary: take rows from `along`, or use `partial_dependence`."
        )
    return inputs, int(varying[0]) if len(varying) else 0


def _jumps(x: np.ndarray, mean: np.ndarray) -> bool:
    """Whether the means over sorted x are no line: they differ at the same x, or turn
    at most rows."""
    steps = np.diff(mean)
    steps = np.where(np.abs(steps) > 1e-6 * np.ptp(mean), steps, 0.0)
    if (steps[np.diff(x) == 0] != 0).any():
        return True
    turns = np.sum(steps[1:] * steps[:-1] < 0)
    return len(mean) >= _FEWEST_ROWS and bool(turns > _TURNS * len(mean))


def _dots_with_bars(
    ax: Axes,
    x: np.ndarray,
    predictive: AbstractPredictive,
    coverage: float,
    label: str | None,
) -> Axes:
    (dots,) = ax.plot(x, predictive.mean, "o", markersize=3, label=label, zorder=3)
    if predictive.likelihood.binary:
        limit_to_shares(ax)
        ax.set_ylabel("probability of 1")
        return ax
    low, high = predictive.interval(coverage).T
    ax.vlines(x, low, high, color=dots.get_color(), alpha=BAND_ALPHA, linewidth=1.0)
    return ax


def along(X: Any, feature: str | int | np.integer, *, num: int = 200) -> Any:
    """Rows in which one input goes from its smallest to its largest value in X, and the
    others stay at their medians, for `predict_dist` and `predictive_curve`.

    Returns a pandas frame if X is a frame, else an array.
    """
    _check_at_least("num", num, 2)
    inputs = _rows_of(X, None)
    place = _place(inputs.names, feature)
    # A median that occurs: a flag has no value between 0 and 1.
    middle = np.quantile(inputs.matrix, 0.5, axis=0, method="inverted_cdf")
    rows = np.tile(middle, (num, 1))
    own = inputs.matrix[:, place]
    rows[:, place] = np.linspace(own.min(), own.max(), num)
    return inputs.frame(rows) if frames.is_frame(X) else rows


def observations(
    ax: Axes, x: Any, y: ArrayLike, *, bars: bool = False, label: str = "data"
) -> Axes:
    """The observed values as dots or, with `bars`, as bars from zero, for counts.
    Missing values are left out."""
    inputs, x = _inputs.column(x, "x")
    y = frames.as_matrix(y, name="y").ravel()
    if x.shape != y.shape:
        raise ValueError(
            f"`y` must have one value per row of `x`, {len(x)}; got {len(y)}."
        )
    seen = ~np.isnan(y)
    x = inputs.placed(ax.xaxis, 0, x)
    if bars:
        ax.vlines(x[seen], 0.0, y[seen], color=DATA, alpha=0.6, label=label)
        return ax
    style = {"color": DATA, "s": 6, "linewidths": 0, "alpha": 0.6}
    ax.scatter(x[seen], y[seen], label=label, **style)
    return ax


def partial_dependence(
    ax: Axes,
    model: _Predicts,
    X: Any,
    feature: str | int | np.integer,
    output: str,
    *,
    num: int = 50,
    max_rows: int = 200,
    label: str | None = None,
) -> Axes:
    """The mean of an output as one input varies and the others stay as they are.

    At each of `num` values of the input, from its smallest to its largest in X, all
    rows of X are predicted with that value. The line is the average over the rows, and
    the band spans their 10 % to 90 % quantiles.

    **Arguments:**

    - `model`: a fitted `MotleyGP`, or its `independent()`.
    - `X`: rows like those of the fit, as an array or a frame.
    - `feature`: the input that varies, by name or number.
    - `max_rows`: the most rows of X to use; from more rows, a fixed random subset.
    """
    _check_at_least("num", num, 2)
    _check_at_least("max_rows", max_rows, 1)
    inputs = _rows_of(X, list(getattr(model, "feature_names_in_", [])))
    place = _place(inputs.names, feature)
    values, every = crossed(inputs.matrix, place, num, max_rows)
    rows = every.reshape(-1, len(inputs.names))
    # With names, so that the model can put the columns into its own order.
    named = inputs.frame(rows) if frames.is_frame(X) else rows
    predictions = model.predict_dist(named)
    if output not in predictions:
        raise ValueError(
            f"`output` must be one of {list(predictions)}; got {output!r}."
        )
    predictive = predictions[output]
    means = predictive.mean.reshape(num, -1)
    values = inputs.placed(ax.xaxis, place, values)
    (line,) = ax.plot(values, means.mean(axis=1), label=label, zorder=3)
    low, high = np.quantile(means, _SPREAD, axis=1)
    ax.fill_between(values, low, high, color=line.get_color(), alpha=BAND_ALPHA, lw=0)
    ax.set_xlabel(inputs.names[place])
    if predictive.likelihood.binary:
        limit_to_shares(ax)
        ax.set_ylabel(f"probability of {output}")
    else:
        ax.set_ylabel(f"mean of {output}")
    return ax


def _check_at_least(argument: str, value: int, fewest: int) -> None:
    if value < fewest:
        raise ValueError(f"`{argument}` must be at least {fewest}; got {value}.")


def _rows_of(X: Any, names: list[str] | None) -> _inputs.Inputs:
    """The rows of X, of which there is at least one."""
    inputs = _inputs.read(X, "X", names)
    if inputs.matrix.ndim != 2 or not inputs.matrix.size:
        raise ValueError(
            "`X` must have at least one row and column; got shape "
            f"{inputs.matrix.shape}."
        )
    return inputs


def _place(names: list[str], feature: str | int | np.integer) -> int:
    if isinstance(feature, str):
        if feature in names:
            return names.index(feature)
    elif 0 <= feature < len(names):
        return int(feature)
    raise ValueError(
        f"`feature` must be one of {names}, or a number from 0 to {len(names) - 1}; "
        f"got {feature!r}."
    )
