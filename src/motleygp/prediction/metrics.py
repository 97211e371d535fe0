"""Scores of one output's predictions, and tests of their calibration.

Functions of `p` and `y` take the predictive distribution of an output and its observed
values, in the user's units. An output with labels may be given them, or 0 and 1. Rows
where y is missing are left out.
"""

from typing import NamedTuple

import numpy as np
import scipy.special
import scipy.stats
from numpy.typing import ArrayLike
from sklearn.metrics import brier_score_loss

from motleygp.numerics.chunks import chunks
from motleygp.prediction.predictive import AbstractPredictive

# Draws for the CRPS: in total, the fewest and the most per row, and per chunk.
_NUM_DRAWS, _FEWEST_DRAWS, _MOST_DRAWS = 1 << 20, 1 << 6, 1 << 16
_CHUNK_DRAWS = 1 << 20

RandomState = int | np.random.Generator | None


# Scores.


def rmse(p: AbstractPredictive, y: ArrayLike) -> float:
    """The root of the mean of (y - E[y])^2."""
    values, seen = _values(p, y)
    return float(np.sqrt(np.mean((values[seen] - p.mean[seen]) ** 2)))


def mae(p: AbstractPredictive, y: ArrayLike) -> float:
    """The mean of |y - median|."""
    errors = _absolute_errors(*_observed(p, y))
    return float(np.mean(errors))


def nlpd(p: AbstractPredictive, y: ArrayLike) -> float:
    """Minus the mean of log p(y); infinite if a value is outside the support."""
    kept, values = _observed(p, y)
    return float(-np.mean(kept.log_prob(values)))


def accuracy(p: AbstractPredictive, y: ArrayLike) -> float:
    """The share of rows whose class is the more probable one, for a binary output."""
    probability, labels = _binary(p, y, "accuracy")
    return float(np.mean((probability > 0.5) == (labels == 1)))


def brier(p: AbstractPredictive, y: ArrayLike) -> float:
    """The mean of (P(y = 1) - y)^2, for a binary output."""
    probability, labels = _binary(p, y, "brier")
    # Rounding may push a probability slightly above 1, which scikit-learn refuses.
    return float(brier_score_loss(labels, np.clip(probability, 0, 1), pos_label=1))


def crps(
    p: AbstractPredictive, y: ArrayLike, *, random_state: RandomState = 0
) -> float:
    """The mean continuous ranked probability score, in the unit of y.

    The score of one row is the integral of (F(t) - 1{t >= y})^2, with F the predictive
    cdf, which equals

        E|Y - y| - 1/2 E|Y - Y'|,    Y, Y' ~ p independent.

    It is computed exactly for Gaussian, HetGaussian and Exponential outputs, and is the
    Brier score for binary ones. For other outputs it is estimated from a million draws,
    divided among the rows, with at least 64 and at most 65536 per row. The standard
    error of the mean is about a thousandth of it, and below a hundredth for a single
    row.
    """
    if p.likelihood.binary:
        return brier(p, y)
    values, seen = _values(p, y)
    closed = p[seen].crps_in_closed_form(values[seen])
    if closed is not None:
        return float(np.mean(closed))
    rng = _stream(random_state)
    number = min(max(_NUM_DRAWS // int(seen.sum()), _FEWEST_DRAWS), _MOST_DRAWS)

    scored, known = p[seen], values[seen]
    scores = [
        _sampled_crps(scored[rows].sample(number, rng), known[rows])
        for rows in chunks(len(scored), _CHUNK_DRAWS // number)
    ]
    return float(np.mean(np.concatenate(scores)))


def summary(p: AbstractPredictive, y: ArrayLike) -> dict[str, float]:
    """NLPD, RMSE, CRPS and coverage at 95 %; accuracy too for a binary output."""
    scores = {
        "nlpd": nlpd(p, y),
        "rmse": rmse(p, y),
        "crps": crps(p, y),
        "coverage95": coverage(p, y),
    }
    if p.likelihood.binary:
        scores["accuracy"] = accuracy(p, y)
    return scores


def _absolute_errors(p: AbstractPredictive, y: np.ndarray) -> np.ndarray:
    return np.abs(y - p.quantile(0.5)[:, 0])


def _sampled_crps(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The unbiased estimate from n draws of each row, of shape (n, N).

    For sorted draws x_(1) <= ... <= x_(n), the mean of |x_i - x_j| over pairs is
    2 sum_i (2i - n - 1) x_(i) / (n (n - 1)). An extreme draw raises both terms alike,
    so heavy tails do no harm.
    """
    # Both terms are distances, so y is subtracted first: no digits are lost far from 0.
    x = np.sort(draws - y, axis=0)
    n = len(x)
    weights = (2.0 * np.arange(1, n + 1) - n - 1.0) / (n * (n - 1.0))
    return np.mean(np.abs(x), axis=0) - weights @ x


# Calibration.


class Significance(NamedTuple):
    """The statistic of a test of calibration, and its p-value."""

    statistic: float
    pvalue: float


class Reliability(NamedTuple):
    """Rows of a binary output in bins of increasing probability."""

    predicted: np.ndarray
    """The mean of P(y = 1) in each bin."""
    observed: np.ndarray
    """The share of ones in each bin."""
    count: np.ndarray  # pyright: ignore[reportIncompatibleMethodOverride]
    """The number of rows in each bin."""


def coverage(p: AbstractPredictive, y: ArrayLike, level: float = 0.95) -> float:
    """The share of y in the central interval of probability `level`, ends included.

    The interval of a discrete output has a probability of at least `level`, and usually
    more, so its share is usually larger too.
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie strictly between 0 and 1; got {level}.")
    tail = 0.5 * (1.0 - level)
    low, high = tail, 1.0 - tail
    below, upto = _cdf_pair(*_observed(p, y))
    # The interval is [q(low), q(high)], where q(u) is the smallest t with F(t) >= u.
    # F does not decrease, so y >= q(u) iff F(y) >= u, which settles the lower end. At
    # the upper end, y > q(u) iff some t < y has F(t) >= u. For a discrete output the
    # best such t is the value before y: y <= q(u) iff P(Y < y) < u. For a continuous
    # output t may be arbitrarily close to y, where F(t) is close to F(y) but below it:
    # y <= q(u) iff F(y) <= u. This takes one cdf, and a search for q about twenty.
    not_above = below < high if p.likelihood.discrete else below <= high
    return float(np.mean((upto >= low) & not_above))


def pit(
    p: AbstractPredictive, y: ArrayLike, *, random_state: RandomState = 0
) -> np.ndarray:
    """The probability integral transform of each row, (N,); NaN where y is missing.

    It is F(y) for a continuous output and P(Y < y) + U P(Y = y) for a discrete one,
    with an independent uniform U for each row. It is uniform if y was drawn from p.
    """
    values, seen = _values(p, y)
    below, upto = _cdf_pair(p[seen], values[seen])
    if p.likelihood.discrete:
        uniform = _stream(random_state).random(len(upto))
        upto = below + uniform * (upto - below)
    transform = np.full(len(p), np.nan)
    transform[seen] = upto
    return transform


def uniformity(values: ArrayLike, *, bins: int = 10) -> Significance:
    """Pearson's chi-square test that values of `pit` are uniform on [0, 1].

    The p-value is valid for at least five values per bin. NaN is left out.
    """
    _check_bins(bins, 2)
    values = np.asarray(values, dtype=float).ravel()
    values = values[~np.isnan(values)]
    if not len(values):
        raise ValueError("`values` must have at least one number; got none.")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            "`values` must lie between 0 and 1; "
            f"got {values.min():g} to {values.max():g}."
        )
    count, _ = np.histogram(values, bins=bins, range=(0.0, 1.0))
    test = scipy.stats.chisquare(count)
    return Significance(float(test.statistic), float(test.pvalue))


def reliability(p: AbstractPredictive, y: ArrayLike, bins: int = 10) -> Reliability:
    """The share of ones among rows of similar probability, for a binary output.

    The bins have about equal counts, so their shares are about equally accurate; bins
    of equal width would be nearly empty where probabilities are rare. Rows of equal
    probability share a bin, so the order of the rows does not matter, and there may be
    fewer than `bins` bins.
    """
    # scikit-learn's `calibration_curve` does not return the counts, which the limits of
    # chance need, and interpolates the edges of its bins.
    _check_bins(bins, 1)
    probability, labels = _binary(p, y, "reliability")
    levels = np.arange(1, bins) / bins
    edges = np.unique(np.quantile(probability, levels, method="inverted_cdf"))
    index = np.searchsorted(edges, probability)
    count = np.bincount(index, minlength=len(edges) + 1)
    filled = count > 0
    count = count[filled]

    def bin_mean(of: np.ndarray) -> np.ndarray:
        return np.bincount(index, of, len(filled))[filled] / count

    return Reliability(bin_mean(probability), bin_mean(labels), count)


def reliability_test(p: AbstractPredictive, y: ArrayLike) -> Significance:
    """Spiegelhalter's test that the probabilities of a binary output are calibrated.

    It compares the Brier score with its expectation under y_n ~ Bernoulli(P_n):

        z = sum_n (y_n - P_n) (1 - 2 P_n) / sqrt(sum_n (1 - 2 P_n)^2 P_n (1 - P_n)),

    which is then about standard normal. The p-value is two-sided. Probabilities near
    1/2 hardly count.
    """
    probability, labels = _binary(p, y, "reliability_test")
    tilt = 1.0 - 2.0 * probability
    variance = np.sum(tilt**2 * probability * (1.0 - probability))
    if not variance > 0:
        raise ValueError(
            "`reliability_test` must have a probability other than 0, 1/2 and 1; "
            "got none."
        )
    z = float(np.sum((labels - probability) * tilt) / np.sqrt(variance))
    return Significance(z, float(2.0 * scipy.special.ndtr(-abs(z))))


def _cdf_pair(p: AbstractPredictive, y: np.ndarray) -> np.ndarray:
    """P(Y < y) and P(Y <= y), of shape (2, N); they differ for a discrete output."""
    upto = p.cdf(y)
    # The largest integer below y.
    below = p.cdf(np.ceil(y) - 1.0) if p.likelihood.discrete else upto
    # The weights of the quadrature sum to 1 only up to rounding.
    return np.clip(np.stack([below, upto]), 0.0, 1.0)


def _check_bins(bins: int, fewest: int) -> None:
    if bins < fewest:
        raise ValueError(f"`bins` must be at least {fewest}; got {bins}.")


def _stream(random_state: RandomState) -> np.random.Generator:
    """A random stream that is independent of values drawn from the same seed."""
    return np.random.default_rng(random_state).spawn(1)[0]


# Rows.


def _values(p: AbstractPredictive, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """y as floats, and whether each row is observed."""
    values = p.numbers(y)
    seen = ~np.isnan(values)
    if not seen.any():
        raise ValueError(f"`y` must have an observed value; got {len(p)} missing ones.")
    return values, seen


def _observed(
    p: AbstractPredictive, y: ArrayLike
) -> tuple[AbstractPredictive, np.ndarray]:
    """The observed rows of p and y."""
    values, seen = _values(p, y)
    return p[seen], values[seen]


def _binary(
    p: AbstractPredictive, y: ArrayLike, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """P(y = 1) and y of the observed rows; `what` is the caller, named in errors."""
    if not p.likelihood.binary:
        raise ValueError(
            f"`{what}` must be given a binary output, such as bernoulli; "
            f"got {p.likelihood.name}."
        )
    values, seen = _values(p, y)
    labels = values[seen]
    strange = labels[~p.likelihood.in_support(labels)]
    if len(strange):
        raise ValueError(f"`y` must be {p.likelihood.support}; got {strange[0]:g}.")
    # The mean of all rows before the selection: it is compiled per number of rows.
    return p.mean[seen], labels
