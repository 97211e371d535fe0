"""The numbers behind the pictures of `plotting` and those of the report."""

from typing import NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from motleygp.prediction import metrics
from motleygp.prediction.predictive import AbstractPredictive

# Of the shares that chance alone gives to calibrated predictions.
_TAILS = (0.025, 0.975)
# The running mean's window is a fortieth of the run, its beginning a tenth.
_WINDOW, _FIRST = 40, 10


class Shares(NamedTuple):
    """Observed shares at some places, and where 95 % of them lie by chance alone if
    predictions are right."""

    place: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def reliability_shares(
    predictive: AbstractPredictive, y: ArrayLike, bins: int
) -> Shares:
    """The share of ones among rows of about one probability."""
    predicted, observed, count = metrics.reliability(predictive, y, bins)
    return Shares(predicted, observed, *_chance(count, predicted))


def pit_density(transform: np.ndarray, bins: int) -> Shares:
    """The density of `metrics.pit` in bins, at their left ends."""
    values = transform[~np.isnan(transform)]
    count, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    low, high = bins * _chance(len(values), np.full(bins, 1.0 / bins))
    return Shares(edges[:-1], bins * count / len(values), low, high)


def interval_shares(transform: np.ndarray) -> Shares:
    """The share of values in central intervals of each probability, from
    `metrics.pit`."""
    values = transform[~np.isnan(transform)]
    levels = np.linspace(0.0, 1.0, 101)
    # A value lies in the interval of probability 2 |u - 1/2|, and in wider ones.
    needed = np.sort(np.abs(2.0 * values - 1.0))
    shares = np.searchsorted(needed, levels, side="right") / len(values)
    return Shares(levels, shares, *_chance(len(values), levels))


def _chance(count: int | np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Where 95 % of the shares lie among so many rows of this probability: (2, ...)."""
    ends = [scipy.stats.binom.ppf(tail, count, probability) for tail in _TAILS]
    return np.stack(ends) / count


def running_mean(values: np.ndarray) -> np.ndarray:
    """Of the fortieth part of all values before and up to each; fewer at the start are
    left out."""
    width = max(1, len(values) // _WINDOW)
    return np.convolve(values, np.ones(width) / width, mode="valid")


def later_limits(values: np.ndarray) -> tuple[float, float]:
    """The ends of all but the first iterations, which would flatten the others, with
    some room."""
    later = values[len(values) // _FIRST :]
    low, high = float(later.min()), float(later.max())
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def crossed(
    matrix: np.ndarray, place: int, num: int, max_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Values of one input from its smallest to its largest, and rows in which each
    stands with the others as they are: (num, rows, P)."""
    values = np.linspace(matrix[:, place].min(), matrix[:, place].max(), num)
    rows = matrix[some_places(len(matrix), max_rows)]
    every = np.repeat(rows[None], num, axis=0)
    every[:, :, place] = values[:, None]
    return values, every


def some_places(total: int, most: int) -> np.ndarray:
    """Up to so many of all rows, in order, always the same ones."""
    if total <= most:
        return np.arange(total)
    # At random and not every so many: rows may repeat themselves by the day.
    return np.sort(np.random.default_rng(0).choice(total, most, replace=False))
