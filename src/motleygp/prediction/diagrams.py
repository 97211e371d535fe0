"""The numbers behind the figures of `plotting` and of the report."""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from motleygp.numerics.chunks import some_places
from motleygp.prediction import metrics
from motleygp.prediction.predictive import AbstractPredictive

# The quantiles between which 95 % of the shares of calibrated predictions lie.
_TAILS = (0.025, 0.975)
# The window of the running mean is 1/40 of the run; its first part is 1/10.
_WINDOW, _FIRST = 40, 10
_DAY = np.timedelta64(1, "D") / np.timedelta64(1, "ms")


class Shares(NamedTuple):
    """Observed shares by `place`, and the limits `low` and `high` between which 95 % of
    them lie if the predictions are calibrated."""

    place: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def reliability_shares(
    predictive: AbstractPredictive, y: ArrayLike, bins: int
) -> Shares:
    """The share of ones in bins of rows with similar predicted probabilities."""
    predicted, observed, count = metrics.reliability(predictive, y, bins)
    # Rounding may push a mean probability slightly beyond 0 or 1.
    predicted = np.clip(predicted, 0.0, 1.0)
    return Shares(predicted, observed, *_chance(count, predicted))


def pit_density(transform: np.ndarray, bins: int) -> Shares:
    """The density of `metrics.pit` in each bin, at its left edge."""
    values = transform[~np.isnan(transform)]
    count, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    low, high = bins * _chance(len(values), np.full(bins, 1.0 / bins))
    return Shares(edges[:-1], bins * count / len(values), low, high)


def interval_shares(transform: np.ndarray) -> Shares:
    """The share of values inside the central interval of each probability, from
    `metrics.pit`."""
    values = transform[~np.isnan(transform)]
    levels = np.linspace(0.0, 1.0, 101)
    # A value with transform u lies in the interval of probability 2 |u - 1/2|, and in
    # all wider ones.
    needed = np.sort(np.abs(2.0 * values - 1.0))
    shares = np.searchsorted(needed, levels, side="right") / len(values)
    return Shares(levels, shares, *_chance(len(values), levels))


def _chance(count: int | np.ndarray, probability: np.ndarray) -> np.ndarray:
    """The limits of 95 % of the shares among `count` rows: (2, ...)."""
    ends = [scipy.stats.binom.ppf(tail, count, probability) for tail in _TAILS]
    return np.stack(ends) / count


def running_mean(values: np.ndarray) -> np.ndarray:
    """The mean over a sliding window of 1/40 of the values, from the first full window
    on."""
    width = max(1, len(values) // _WINDOW)
    return np.convolve(values, np.ones(width) / width, mode="valid")


def later_limits(values: np.ndarray) -> tuple[float, float]:
    """Axis limits around all but the first tenth of the values, which would flatten the
    rest, with a margin."""
    later = values[len(values) // _FIRST :]
    low, high = float(later.min()), float(later.max())
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def crossed(
    matrix: np.ndarray, place: int, num: int, max_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """`num` values of one input from its smallest to its largest, and the rows with
    this input set to each value: (num, rows, P)."""
    values = np.linspace(matrix[:, place].min(), matrix[:, place].max(), num)
    rows = matrix[some_places(len(matrix), max_rows)]
    every = np.repeat(rows[None], num, axis=0)
    every[:, :, place] = values[:, None]
    return values, every


def date_columns(x: Any) -> list[int]:
    """The numbers of the columns of an array, a series or a frame that hold dates."""
    known = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(known, nw.Series):
        known = known.to_frame()
    if isinstance(known, nw.DataFrame):
        types = [series.dtype for series in known.iter_columns()]
        return [p for p, dtype in enumerate(types) if dtype in (nw.Date, nw.Datetime)]
    if not isinstance(x, np.ndarray) or x.dtype.kind != "M":
        return []
    return list(range(x.shape[-1] if x.ndim > 1 else 1))


def as_dates(days: ArrayLike) -> np.ndarray:
    """Days since 1970, which the model sees, as the dates that the user knows."""
    return np.asarray(np.rint(np.asarray(days) * _DAY)).astype("datetime64[ms]")
