"""Differences between two methods over their starts, with intervals."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from motleygp_reproduce.records import Record

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean difference, half the length of its interval, and the number of starts of
    each method; NaN where fewer than two are left."""

    middle: float
    reach: float
    counts: tuple[int, ...]

    def __str__(self) -> str:
        if np.isnan(self.middle):
            return "-"
        low, high = self.middle - self.reach, self.middle + self.reach
        return f"{self.middle:+.4g} [{low:+.4g}, {high:+.4g}]"

    @property
    def above(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.middle - self.reach > 0.0

    @property
    def below(self) -> bool:
        return self.middle + self.reach < 0.0


def mean_nlpd(record: Record) -> float:
    """The mean over the outputs at the end."""
    return float(np.mean(list(record.last.values())))


def values_of(
    records: Iterable[Record], of: Callable[[Record], float] = mean_nlpd
) -> dict[int, float]:
    """A number of each run that survives, by seed."""
    return {r.seed: of(r) for r in records if r.survived}


def paired(first: dict[int, float], second: dict[int, float]) -> Interval:
    """The mean difference of the starts in both, with Student's interval."""
    both = sorted(first.keys() & second.keys())
    values = np.array([first[seed] - second[seed] for seed in both])
    if len(values) < 2:
        return Interval(np.nan, np.nan, (len(values),))
    error = values.std(ddof=1) / np.sqrt(len(values))
    reach = scipy.stats.t.ppf(0.5 + LEVEL / 2, len(values) - 1) * error
    return Interval(float(values.mean()), float(reach), (len(values),))


def unpaired(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The difference of the means of different starts, with Welch's interval."""
    counts = (len(first), len(second))
    if min(counts) < 2:
        return Interval(np.nan, np.nan, counts)
    found = scipy.stats.ttest_ind(first, second, equal_var=False)
    low, high = found.confidence_interval(LEVEL)
    return Interval(
        float(np.mean(first) - np.mean(second)), float(0.5 * (high - low)), counts
    )


def distances(values: dict[int, float]) -> dict[int, float]:
    """How far each value is from the median: means of these compare spreads, as in the
    test of Brown and Forsythe."""
    middle = float(np.median(list(values.values()))) if values else 0.0
    return {seed: abs(value - middle) for seed, value in values.items()}
