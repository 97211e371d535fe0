"""Whether what came is what was predicted. Missing values are left out."""

import numpy as np
import scipy.stats
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from motleygp import metrics
from motleygp.likelihoods import Bernoulli
from motleygp.plotting._style import (
    BLUE,
    REFERENCE,
    REFERENCE_BAND,
    limit_to_shares,
)
from motleygp.predictive import AbstractPredictive

# Of the shares that chance alone gives to calibrated predictions.
_TAILS = (0.025, 0.975)


def reliability_curve(
    ax: Axes,
    predictive: AbstractPredictive,
    y: ArrayLike,
    *,
    bins: int = 10,
    label: str | None = None,
) -> Axes:
    """Of a binary output, the share of ones against the probability: see
    `metrics.reliability`.

    A grey bar at each point spans where 95 % of such shares lie if the probabilities
    are right; the dashed line is where they are equal.
    """
    likelihood = predictive.likelihood
    if not isinstance(likelihood, Bernoulli):
        raise ValueError(
            f"`predictive` must be of a bernoulli output; got {likelihood.name}."
        )
    predicted, observed, count = metrics.reliability(predictive, y, bins)
    low, high = _chance(count, predicted)
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
    bins: int = 10,
    label: str | None = None,
) -> Axes:
    """The density of `metrics.pit`, which is 1 everywhere if predictions are right.

    The grey band is where 95 % of the bars lie then. Bars that are high at both ends
    show predictions too narrow, in the middle too wide, at one end off to that side.
    """
    if bins < 2:
        raise ValueError(f"`bins` must be at least 2; got {bins}.")
    values = metrics.pit(predictive, y)
    values = values[~np.isnan(values)]
    count, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    low, high = bins * _chance(len(values), 1.0 / bins)
    # In front of the bars, which would hide it.
    ax.axhspan(low, high, color=REFERENCE, alpha=0.3, linewidth=0.0, zorder=3)
    ax.axhline(1.0, color=REFERENCE, linestyle="--", linewidth=1.0, zorder=4)
    style = {"color": BLUE, "edgecolor": "white", "alpha": 0.5, "zorder": 2}
    heights = bins * count / len(values)
    ax.bar(edges[:-1], heights, 1.0 / bins, align="edge", label=label, **style)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("probability integral transform")
    ax.set_ylabel("density")
    return ax


def coverage_curve(
    ax: Axes,
    predictive: AbstractPredictive,
    y: ArrayLike,
    *,
    label: str | None = None,
) -> Axes:
    """The share of values in the central intervals against the intervals' probability.

    Above the dashed line, where the two are equal, intervals are too wide; below it too
    narrow. The grey band is where 95 % of the shares lie if predictions are right. The
    ends of a discrete output's interval count in part, as in `metrics.pit`: all of them
    would make every share too large.
    """
    values = metrics.pit(predictive, y)
    values = values[~np.isnan(values)]
    levels = np.linspace(0.0, 1.0, 101)
    # A value lies in the interval of probability 2 |u - 1/2|, and in wider ones.
    needed = np.sort(np.abs(2.0 * values - 1.0))
    shares = np.searchsorted(needed, levels, side="right") / len(values)
    low, high = _chance(len(values), levels)
    ax.fill_between(levels, low, high, color=REFERENCE_BAND, linewidth=0.0, zorder=1)
    _diagonal(ax)
    ax.plot(levels, shares, label=label, zorder=3)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("probability of the interval")
    ax.set_ylabel("observed share inside")
    return ax


def _chance(count: int | np.ndarray, probability: float | np.ndarray) -> np.ndarray:
    """Where 95 % of the shares lie among so many rows of this probability: (2, ...)."""
    ends = [scipy.stats.binom.ppf(tail, count, probability) for tail in _TAILS]
    return np.stack(ends) / count


def _diagonal(ax: Axes) -> None:
    style = {"color": REFERENCE, "linestyle": "--", "linewidth": 1.0, "zorder": 2}
    ax.plot([0.0, 1.0], [0.0, 1.0], **style)
