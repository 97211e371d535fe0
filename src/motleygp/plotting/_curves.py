"""Predictions over one input."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from motleygp.plotting._style import BAND_ALPHA, DATA, limit_to_shares
from motleygp.prediction.diagrams import crossed
from motleygp.prediction.predictive import AbstractPredictive
from motleygp.tables import frames

# The quantiles over the rows in the band of `partial_dependence`.
_SPREAD = [0.1, 0.9]


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
    """
    x = frames.as_matrix(x, name="x").ravel()
    if x.shape != (len(predictive),):
        raise ValueError(
            f"`x` must have one value per row of `predictive`, {len(predictive)}; "
            f"got {x.shape}."
        )
    order = np.argsort(x)
    x, predictive = x[order], predictive[order]
    binary = predictive.likelihood.binary
    stepped = predictive.likelihood.discrete and not binary
    (line,) = ax.plot(x, predictive.mean, label=label, zorder=3)
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


def observations(
    ax: Axes, x: Any, y: ArrayLike, *, bars: bool = False, label: str = "data"
) -> Axes:
    """The observed values as dots or, with `bars`, as bars from zero, for counts.
    Missing values are left out."""
    x = frames.as_matrix(x, name="x").ravel()
    y = frames.as_matrix(y, name="y").ravel()
    if x.shape != y.shape:
        raise ValueError(
            f"`y` must have one value per row of `x`, {len(x)}; got {len(y)}."
        )
    seen = ~np.isnan(y)
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
    matrix = frames.as_matrix(X)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"`X` must have at least one row and column; got shape {matrix.shape}."
        )
    names = _feature_names(model, X, matrix.shape[1])
    place = _place(names, feature)
    values, every = crossed(matrix, place, num, max_rows)
    rows = every.reshape(-1, len(names))
    # With names, so that the model can put the columns into its own order.
    named = pd.DataFrame(rows, columns=names) if frames.is_frame(X) else rows
    predictions = model.predict_dist(named)
    if output not in predictions:
        raise ValueError(
            f"`output` must be one of {list(predictions)}; got {output!r}."
        )
    predictive = predictions[output]
    means = predictive.mean.reshape(num, -1)
    (line,) = ax.plot(values, means.mean(axis=1), label=label, zorder=3)
    low, high = np.quantile(means, _SPREAD, axis=1)
    ax.fill_between(values, low, high, color=line.get_color(), alpha=BAND_ALPHA, lw=0)
    ax.set_xlabel(names[place])
    if predictive.likelihood.binary:
        limit_to_shares(ax)
        ax.set_ylabel(f"probability of {output}")
    else:
        ax.set_ylabel(f"mean of {output}")
    return ax


def _check_at_least(argument: str, value: int, fewest: int) -> None:
    if value < fewest:
        raise ValueError(f"`{argument}` must be at least {fewest}; got {value}.")


def _feature_names(model: _Predicts, X: Any, number: int) -> list[str]:
    """The names of the columns of X, or of those of the fit, or "x0", "x1", ..."""
    fitted = frames.features(X) if frames.is_frame(X) else None
    fitted = fitted or list(getattr(model, "feature_names_in_", []))
    return fitted if len(fitted) == number else [f"x{p}" for p in range(number)]


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
