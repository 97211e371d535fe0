"""Observed values against predictions. Missing values are left out."""

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from motleygp.plotting._style import (
    BLUE,
    REFERENCE,
    REFERENCE_BAND,
    limit_to_shares,
)
from motleygp.prediction import metrics
from motleygp.prediction.diagrams import (
    interval_shares,
    pit_density,
    reliability_shares,
)
from motleygp.prediction.predictive import AbstractPredictive


def reliability_curve(
    ax: Axes,
    predictive: AbstractPredictive,
    y: ArrayLike,
    *,
    bins: int = 10,
    label: str | None = None,
) -> Axes:
    """The share of ones against the predicted probability of a binary output: see
    `metrics.reliability`.

    The two are equal on the dashed line. If the probabilities are right, 95 % of the
    shares lie within the grey bars.
    """
    likelihood = predictive.likelihood
    if not likelihood.binary:
        raise ValueError(
            f"`predictive` must belong to a binary output; got {likelihood.name}."
        )
    predicted, observed, low, high = reliability_shares(predictive, y, bins)
    ax.vlines(predicted, low, high, color=REFERENCE_BAND, linewidth=6.0, zorder=1)
    _diagonal(ax)
    ax.plot(predicted, observed, "o-", markersize=4, label=label, zorder=3)
    ax.set_xlim(-0.05, 1.05)
    limit_to_shares(ax)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("observed share")
    return ax


def pit_histogram(
    ax: Axes,
    predictive: AbstractPredictive,
    y: ArrayLike,
    *,
    label: str | None = None,
    bins: int = 10,
) -> Axes:
    """The density of `metrics.pit`, which is 1 everywhere if the predictions are right.

    Then 95 % of the bars end in the grey band. High bars at both ends mean that the
    predictions are too narrow, and in the middle that they are too wide. High bars on
    the left mean that they are too high, and on the right that they are too low.
    """
    if bins < 2:
        raise ValueError(f"`bins` must be at least 2; got {bins}.")
    left, heights, low, high = pit_density(metrics.pit(predictive, y), bins)
    # In front of the bars, which would hide it.
    ax.axhspan(low[0], high[0], color=REFERENCE, alpha=0.3, linewidth=0.0, zorder=3)
    ax.axhline(1.0, color=REFERENCE, linestyle="--", linewidth=1.0, zorder=4)
    style = {"color": BLUE, "edgecolor": "white", "alpha": 0.5, "zorder": 2}
    ax.bar(left, heights, 1.0 / bins, align="edge", label=label, **style)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("probability integral transform")
    ax.set_ylabel("density")
    return ax


def coverage_curve(
    ax: Axes, predictive: AbstractPredictive, y: ArrayLike, *, label: str | None = None
) -> Axes:
    """The share of values inside the central intervals, by the intervals' probability.

    The two are equal on the dashed line; above it the intervals are too wide, below it
    too narrow. If the predictions are right, 95 % of the shares lie in the grey band.
    Values at the ends of a discrete output's intervals count in part, as in
    `metrics.pit`: in full, they would make every share too large.
    """
    levels, shares, low, high = interval_shares(metrics.pit(predictive, y))
    ax.fill_between(levels, low, high, color=REFERENCE_BAND, linewidth=0.0, zorder=1)
    _diagonal(ax)
    ax.plot(levels, shares, label=label, zorder=3)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("probability of the interval")
    ax.set_ylabel("observed share inside")
    return ax


def _diagonal(ax: Axes) -> None:
    style = {"color": REFERENCE, "linestyle": "--", "linewidth": 1.0, "zorder": 2}
    ax.plot([0.0, 1.0], [0.0, 1.0], **style)
