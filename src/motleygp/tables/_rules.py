"""The rules behind `outputs="auto"`: see `infer`.

Each rule gives a verdict on the sorted observed values of one output.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.special
import scipy.stats

# From here on every float is a whole number, so being whole says nothing.
_ALL_WHOLE = 2.0**53
# With fewer rows, varying noise cannot be told from constant noise: ten rows in each of
# five regions of the inputs give the noise of a region to within a quarter.
_ENOUGH_ROWS = 50
# Rating scales have up to ten levels, or eleven from 0 to 10.
_FEW_LEVELS = 11
# Levels repeat: the median level has at least this many rows. Few values repeat in a
# handful of rows, or beside the zeros of a column that is mostly 0.
_REPEATS = 3
# The largest count is rare; the top of a rating scale is often common.
_TOP_SHARE = 0.1
# How far below its bound a statistic of counts may fall by chance, in standard
# deviations: about once in a thousand columns.
_SIGMAS = 3.0
# If the variance is k times the mean, the inputs of a Poisson must explain the share
# 1 - 1/k of it. Two thirds are common, from where there is a warning; nine tenths are
# rare, and whatever they leave unexplained makes the intervals too narrow.
_OVERDISPERSED, _TOO_DISPERSED = 3.0, 10.0
# A Poisson of this rate has a skewness of 0.2. If nearly all values are larger, a
# normal fits every row as well, whatever the inputs explain, and learns its noise.
_NORMAL_RATE, _LOW = 25.0, 0.01
# Larger numbers are amounts. A Poisson of rate 100 is nearly normal, with a skewness of
# 0.1, so a normal fits as well and may have another noise. Both limits must be reached:
# counts may have a long tail, and counts of a few hundred are common.
_LARGE_MEDIAN, _LARGE_MAXIMUM = 100.0, 1000.0
# Below a tenth, 1 - y is about 1 and a Beta is nearly a Gamma.
_SMALL_SHARE = 0.1
# Proportions usually reach one half; positive numbers in a large unit need not.
_USUAL_SHARE = 0.5
# Percentages that vary come near 100. The maximum of a column in another unit is
# between 90 and 100 by chance, about one time in twenty.
_PERCENT_REACH = (90.0, 100.0)
# Standard deviations between the mean and 0: a Gamma has a skewness of 2/5 here, and
# less beyond; a normal puts 3e-7 of its mass below 0.
_FAR_FROM_ZERO = 5.0
# Below this relative spread, beta is a normal in all but rounding errors.
_NARROW = 1e-5
# In nats: odds of 20 to 1 between two fits with the same number of parameters.
_CLEAR = 3.0
# Beyond these sizes, variances and their ratios overflow or underflow.
_SQUARABLE = (1e-150, 1e150)


class Verdict(NamedTuple):
    """A `Choice` without a name; its doubts are the clauses of the warning."""

    likelihood: str
    reason: str
    alternatives: tuple[str, ...]
    doubts: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        return (self.likelihood, *self.alternatives)


def judge(y: np.ndarray, kind: str) -> Verdict:
    levels, counts = np.unique(y, return_counts=True)
    if len(levels) == 2:
        return _two_values(y, levels, kind)
    few = len(levels) <= _FEW_LEVELS and bool(np.median(counts) >= _REPEATS)
    if y.min() >= 0 and _whole(y):
        return _whole_numbers(y, len(levels), few)
    if few:
        return _few_levels(y, len(levels))
    if y.min() >= 0 and _SMALL_SHARE <= y.max() <= 1:
        return _proportion(y)
    return _quantity(y)


def _two_values(y: np.ndarray, levels: np.ndarray, kind: str) -> Verdict:
    low, high = (number(level) for level in levels)
    share = f"{100 * np.mean(y == levels[1]):.3g}%"
    if levels[0] == 0 and levels[1] == 1:
        seen, one = ("true or false", "true") if kind == "bool" else ("0 or 1", "1")
        return Verdict("bernoulli", f"{seen}, {share} are {one}", ())
    return Verdict(
        "gaussian",
        f"two values, {low} and {high}, {share} are {high}",
        (),
        (f"it has only two values: code {low} as 0 and {high} as 1 for bernoulli",),
    )


def _whole_numbers(y: np.ndarray, num_levels: int, few: bool) -> Verdict:
    """Rule 2, and the verdict on whole numbers that are not counts."""
    spread = f"variance {_dispersion(y):.3g} times the mean"
    other = _few_levels(y, num_levels) if few else _quantity(y)
    if (impossible := _not_poisson(y)) is not None:
        alternatives, doubt = (*other.alternatives, "poisson"), (impossible,)
    elif (large := _large_for_counts(y)) is not None:
        alternatives, doubt = ("poisson", *other.alternatives), (large,)
    elif _dispersion(y) > _TOO_DISPERSED:
        return _dispersed(y, other)
    elif np.quantile(y, _LOW) >= _NORMAL_RATE:
        spread += f", nearly all above {_NORMAL_RATE:g}, where a normal fits as well"
        alternatives, doubt = ("poisson", *other.alternatives), ()
    else:
        reason = f"whole numbers {_range(y)}, {num_levels} distinct, {spread}"
        return Verdict("poisson", reason, other.candidates, _doubts_of_counts(y, few))
    reason = f"whole numbers, {spread}; {other.reason}"
    return Verdict(other.likelihood, reason, alternatives, (*doubt, *other.doubts))


def _dispersed(y: np.ndarray, other: Verdict) -> Verdict:
    """Counts that vary too much for a Poisson. They are real, never Gamma: if none of
    them is 0, a new one may be."""
    ratio, known = _dispersion(y), _real(len(y))
    real = other.likelihood if other.likelihood in known else known[0]
    doubt = (
        f"its variance is {ratio:.3g} times its mean, which poisson can fit only if "
        f"the inputs explain {100 * (1 - 1 / ratio):.3g}% of it"
    )
    reason = (
        f"whole numbers {_range(y)}, variance {ratio:.3g} times the mean, more than "
        "inputs usually explain"
    )
    others = [name for name in other.candidates if name != real]
    return Verdict(real, reason, ("poisson", *others), (doubt, *_percentages(y)))


def _not_poisson(y: np.ndarray) -> str | None:
    """Why the values cannot be Poisson, whatever the rates are, or `None`."""
    # Varying rates only add variance, var[y] = E[rate] + var[rate], and zeros: by
    # Jensen, P(y = 0) = E[exp(-rate)] >= exp(-E[rate]).
    ratio = _dispersion(y)
    if ratio < 1 - _SIGMAS * math.sqrt(2 / len(y)):
        return f"its variance is {ratio:.3g} times its mean, too small for poisson"
    zeros, expected = int(np.sum(y == 0)), len(y) * math.exp(-np.mean(y))
    if zeros < expected - _SIGMAS * math.sqrt(expected):
        return (
            f"it has {_plural(zeros, 'zero')}, where poisson would have about "
            f"{round(expected)} or more"
        )
    return None


def _large_for_counts(y: np.ndarray) -> str | None:
    if np.median(y) < _LARGE_MEDIAN or y.max() < _LARGE_MAXIMUM:
        return None
    return (
        f"its values, {_range(y)}, are large for counts, and poisson would fix their "
        "standard deviation at the square root of their mean"
    )


def _doubts_of_counts(y: np.ndarray, few: bool) -> tuple[str, ...]:
    ratio, doubts = _dispersion(y), _percentages(y)
    if ratio > _OVERDISPERSED:
        doubts += (
            f"its variance is {ratio:.3g} times its mean, which poisson can fit only "
            "if the inputs explain the excess",
        )
    if few and np.mean(y == y.max()) > _TOP_SHARE:
        doubts += (
            f"many values equal the largest, {number(y.max())}, as on a rating scale, "
            "and there is no likelihood for ordered categories yet",
        )
    return doubts


def _few_levels(y: np.ndarray, num_levels: int) -> Verdict:
    return Verdict(
        "gaussian",
        f"{num_levels} levels, {_range(y)}, in {len(y)} rows",
        (),
        (
            f"it has only {num_levels} levels, and there is no likelihood for ordered "
            "categories yet",
        ),
    )


def _proportion(y: np.ndarray) -> Verdict:
    ends = {"zero": int(np.sum(y == 0)), "one": int(np.sum(y == 1))}
    if any(ends.values()):
        return _closed_proportion(y, ends)
    if np.std(y) < _NARROW * min(np.mean(y), np.mean(1.0 - y)):
        real, also = _real(len(y))
        return Verdict(real, f"real, {_range(y)}, too narrow for beta", (also,))
    doubts = ()
    if y.max() < _USUAL_SHARE:
        doubts = (
            f"nothing is above {number(y.max())}, so it may be a positive number "
            "rather than a proportion",
        )
    others = tuple(name for name in _quantity(y).candidates if name != "beta")
    top = number(y.max())
    top = "just below 1" if top == "1" else top
    reason = f"strictly between 0 and 1, {number(y.min())} to {top}"
    return Verdict("beta", reason, others, doubts)


def _closed_proportion(y: np.ndarray, ends: Mapping[str, int]) -> Verdict:
    """Proportions with some zeros or ones, of which `ends` has the counts."""
    real, also = _real(len(y))
    reason = f"between 0 and 1, {sum(ends.values())} of {len(y)} are 0 or 1"
    found = " and ".join(_plural(count, end) for end, count in ends.items() if count)
    doubt = f"beta does not allow its {found}: to use beta, move them into (0, 1)"
    if ends["one"]:
        return Verdict(real, reason, (also,), (doubt,))
    # Without ones, it may also be a positive number that is sometimes 0.
    other = _quantity(y)
    return Verdict(real, reason, other.alternatives, (doubt, *other.doubts))


def _quantity(y: np.ndarray) -> Verdict:
    """Rules 5 and 6: a number that is neither a count nor a proportion."""
    if y.min() > 0:
        verdict = _positive(y)
    elif y.min() == 0:
        verdict = _with_zeros(y)
    else:
        real, also = _real(len(y))
        verdict = Verdict(real, f"real, {_range(y)}, {len(y)} rows", (also,))
    return verdict._replace(doubts=verdict.doubts + _percentages(y))


def _positive(y: np.ndarray) -> Verdict:
    real, also = _real(len(y))
    beta = ("beta",) if y.max() < 1 else ()
    seen = f"positive, {_range(y)}"
    if _far_from_zero(y):
        reason = f"{seen}, mean over {_FAR_FROM_ZERO:g} standard deviations above 0"
        return Verdict(real, reason, (also, "gamma", *beta))
    over_normal, over_exponential = _gamma_gains(y)
    gap = f"{abs(over_normal):.3g}"
    if over_normal > _CLEAR:
        exponential = ("exponential",) if over_exponential < _CLEAR else ()
        reason = f"{seen}, gamma fits better than a normal by {gap} nats"
        return Verdict("gamma", reason, (*exponential, real, also, *beta))
    if over_normal < -_CLEAR:
        reason = f"{seen}, a normal fits better than gamma by {gap} nats"
        return Verdict(real, reason, (also, "gamma", *beta))
    reason = f"{seen}, a normal and gamma fit equally well, {gap} nats apart"
    doubt = "its values are positive, and gamma fits them about as well as a normal"
    return Verdict(real, reason, ("gamma", also, *beta), (doubt,))


def _with_zeros(y: np.ndarray) -> Verdict:
    real, also = _real(len(y))
    zeros = int(np.sum(y == 0))
    return Verdict(
        real,
        f"not negative, {_range(y)}, {zeros} of {len(y)} are 0",
        # The only likelihood of numbers that are at least 0.
        ("exponential", also),
        (
            f"gamma does not allow its {_plural(zeros, 'zero')}, and there is no "
            "likelihood with a point mass at 0 yet",
        ),
    )


def _real(num_rows: int) -> tuple[str, str]:
    """The likelihood for real numbers, and its alternative."""
    if num_rows < _ENOUGH_ROWS:
        return "gaussian", "hetgaussian"
    return "hetgaussian", "gaussian"


def _percentages(y: np.ndarray) -> tuple[str, ...]:
    low, high = _PERCENT_REACH
    if y.min() < 0 or not low <= y.max() <= high:
        return ()
    return ("it may hold percentages, which divided by 100 would be proportions",)


def extremes(y: np.ndarray) -> tuple[str, ...]:
    sizes = np.abs(y[y != 0])
    (low, high), tiny = _SQUARABLE, np.finfo(float).tiny
    # Numbers below `tiny` are 0 in compiled programs, and have no logarithm there.
    if low <= sizes.max() <= high and sizes.min() >= tiny:
        return ()
    return (
        f"its values, {_range(y)}, are outside the usable range of floats: use another "
        "unit",
    )


# Statistics.


def _whole(y: np.ndarray) -> bool:
    return bool((y == np.floor(y)).all() and np.abs(y).max() < _ALL_WHOLE)


def _dispersion(y: np.ndarray) -> float:
    """The variance over the mean: 1 for a Poisson of constant rate."""
    return float(np.var(y, ddof=1) / np.mean(y))


def _far_from_zero(y: np.ndarray) -> bool:
    # In units of the largest value, so that squares neither overflow nor underflow.
    z = y / y.max()
    return bool(np.mean(z) > _FAR_FROM_ZERO * np.std(z))


def _gamma_gains(y: np.ndarray) -> tuple[float, float]:
    """The gains of the best Gamma over the best normal and exponential, in nats.

    All three scale with y, so the gains do not depend on its unit.
    """
    z, logs = y / y.max(), np.log(y) - np.log(y.max())
    log_mean, mean_log = math.log(np.mean(z)), float(np.mean(logs))
    # Values that underflow in this unit are still positive.
    positive = np.maximum(z, np.finfo(float).tiny)
    shape = scipy.stats.gamma.fit(positive, floc=0)[0]
    gamma = shape * (math.log(shape) - log_mean + mean_log - 1) - mean_log
    gamma -= scipy.special.gammaln(shape)
    normal = -0.5 * (math.log(2 * math.pi * np.var(z)) + 1)
    exponential = -log_mean - 1
    return float(len(y) * (gamma - normal)), float(len(y) * (gamma - exponential))


# Texts.


def number(value: float) -> str:
    if value == round(value) and abs(value) < 1e9:
        return f"{round(value)}"
    return f"{value:.4g}"


def _range(y: np.ndarray) -> str:
    return f"{number(y.min())} to {number(y.max())}"


def _plural(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'s' if count != 1 else ''}"
