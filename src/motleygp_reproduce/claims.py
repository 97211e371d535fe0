"""What the paper says of its experiments, as comparisons that its runs can decide."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from motleygp_reproduce.intervals import (
    Interval,
    distances,
    mean_nlpd,
    paired,
    values_of,
)
from motleygp_reproduce.methods import SCHEMES, Method
from motleygp_reproduce.records import Cell, Record

CONFIRMED, IN_PART, REFUTED, OPEN = (
    *("confirmed", "confirmed in part", "not confirmed", "not testable"),
)
# Of the paper's words on the size of sigma^2.
_TINY = 1e-15


class Place(NamedTuple):
    """The runs that a comparison takes: a set, its inputs, and the minibatches."""

    data: str
    num_inputs: int
    batch_size: int = 50

    def __str__(self) -> str:
        rows = "" if self.batch_size == 50 else f", minibatches of {self.batch_size}"
        return f"{self.data.upper()}, P = {self.num_inputs}{rows}"


class Quantity(NamedTuple):
    """A number of a run, and its name."""

    name: str
    of: Callable[[Record], float]


class Comparison(NamedTuple):
    """A quantity of one scheme minus that of another, which a claim says is above 0,
    or not different from it (`level`); of the distances from the median if `spread`."""

    place: Place
    quantity: Quantity
    more: str
    less: str
    level: bool = False
    spread: bool = False


class Claim(NamedTuple):
    """A statement of the paper, the experiment that decides it, and how."""

    says: str
    study: str
    comparisons: tuple[Comparison, ...]


class Verdict(NamedTuple):
    """A mark, and the numbers behind it."""

    mark: str
    evidence: str


NELBO = Quantity("NELBO", lambda record: record.nelbo[-1])
NLPD = Quantity("mean NLPD", mean_nlpd)


def of_output(name: str) -> Quantity:
    """The NLPD of one output at the end."""
    return Quantity(f"NLPD of {name}", lambda record: record.last[name])


def gain_of_output(name: str) -> Quantity:
    """The fall of the NLPD of one output from the first score to the end."""
    return Quantity(
        f"fall of the NLPD of {name}",
        lambda record: record.nlpd[name][0] - record.nlpd[name][-1],
    )


def at_score(number: int) -> Quantity:
    """The mean NLPD at the first, second, ... score."""
    return Quantity(
        "mean NLPD on the way",
        lambda record: float(np.mean([s[number] for s in record.nlpd.values()])),
    )


def _order(place: Place, quantity: Quantity, *schemes: str) -> tuple[Comparison, ...]:
    """That each scheme has more than the one before it."""
    pairs = itertools.pairwise(schemes)
    return tuple(Comparison(place, quantity, more, less) for less, more in pairs)


def _all(
    place: Place, quantity: Quantity, more: Sequence[str], less: str
) -> tuple[Comparison, ...]:
    return tuple(Comparison(place, quantity, each, less) for each in more)


_T2 = Place("t2", 10)
_DIMENSIONS = (2, 3, 4, 5, 10)
_TOYS = ("t1", "t2", "t3")
_BATCHES = {size: Place("t2", 10, size) for size in (10, 50, 200)}
_BEST_FIRST = ("fng", "hybrid", "adam", "sgd")

CLAIMS = (
    Claim(
        "FNG finds the lowest NELBO on T2 with P = 10, followed by HYB, Adam and SGD",
        "toy-convergence",
        _order(_T2, NELBO, *_BEST_FIRST),
    ),
    Claim(
        "SGD does not progress much, and has the poorest scores of the outputs",
        "toy-convergence",
        tuple(Comparison(_T2, NLPD, "sgd", s) for s in ("adam", "hybrid", "fng")),
    ),
    Claim(
        "Adam ends in many different poor minima: its scores vary more than those of "
        "HYB and FNG",
        "toy-convergence",
        tuple(Comparison(_T2, NLPD, "adam", s, spread=True) for s in ("hybrid", "fng")),
    ),
    Claim(
        "On the Bernoulli output, Adam hardly moves, while FNG finds better solutions",
        "toy-convergence",
        (
            Comparison(_T2, gain_of_output("bernoulli3"), "fng", "adam"),
            *_all(_T2, of_output("bernoulli3"), ("adam", "hybrid", "sgd"), "fng"),
        ),
    ),
    Claim(
        "HYB has smaller error bars than Adam and SGD",
        "toy-convergence",
        tuple(Comparison(_T2, NLPD, s, "hybrid", spread=True) for s in ("adam", "sgd")),
    ),
    Claim(
        "HYB is similar to FNG on the HetGaussian and Exponential outputs",
        "toy-convergence",
        tuple(
            Comparison(_T2, of_output(name), "hybrid", "fng", level=True)
            for name in ("hetgaussian1", "exponential5")
        ),
    ),
    Claim(
        "HYB has difficulty with the Beta and Bernoulli outputs, where FNG is better",
        "toy-convergence",
        tuple(
            Comparison(_T2, of_output(name), "hybrid", "fng")
            for name in ("beta2", "bernoulli3")
        ),
    ),
    Claim(
        "On the Bernoulli output, the scores of FNG vary more than those of the others",
        "toy-convergence",
        tuple(
            Comparison(_T2, of_output("bernoulli3"), "fng", s, spread=True)
            for s in ("hybrid", "adam", "sgd")
        ),
    ),
    Claim(
        "FNG has the best scores on all toys for P > 1, followed by HYB, Adam and SGD",
        "toy-dimensions",
        tuple(
            comparison
            for toy in _TOYS
            for p in _DIMENSIONS
            for comparison in _order(Place(toy, p), NLPD, *_BEST_FIRST)
        ),
    ),
    Claim(
        "HYB is better than FNG for P = 1",
        "toy-dimensions",
        tuple(Comparison(Place(toy, 1), NLPD, "fng", "hybrid") for toy in _TOYS),
    ),
    Claim(
        "FNG has the smallest variance in general",
        "toy-dimensions",
        tuple(
            Comparison(Place(toy, p), NLPD, scheme, "fng", spread=True)
            for toy in _TOYS
            for p in (1, *_DIMENSIONS)
            for scheme in ("hybrid", "adam", "sgd")
        ),
    ),
    Claim(
        "Beyond P = 10, all methods behave alike except SGD, which is slow",
        "toy-dimensions",
        tuple(
            Comparison(Place(toy, 20), NLPD, s, "fng", level=s != "sgd")
            for toy in _TOYS
            for s in ("hybrid", "adam", "sgd")
        ),
    ),
    Claim(
        "Natural gradients gain more from larger minibatches: with 200 rows, FNG and "
        "HYB are ahead of Adam and SGD on the way",
        "toy-batch",
        tuple(
            Comparison(_BATCHES[200], at_score(0), more, less)
            for more in ("adam", "sgd")
            for less in ("hybrid", "fng")
        ),
    ),
    Claim(
        "With smaller minibatches, FNG usually performs better than the others",
        "toy-batch",
        _all(_BATCHES[10], NLPD, ("hybrid", "adam", "sgd"), "fng"),
    ),
)


def judge(claim: Claim, records: Sequence[Record], variant: str) -> Verdict:
    """Whether the runs of one variant bear a claim out."""
    found = [(each, _interval(each, records, variant)) for each in claim.comparisons]
    known = [(each, own) for each, own in found if not np.isnan(own.middle)]
    if not records:
        return Verdict(OPEN, "the experiment has not been run")
    if not known:
        return Verdict(OPEN, "fewer than two starts survive in both methods")
    held = sum(_holds(each, own) for each, own in known)
    mark = IN_PART if held else REFUTED
    if held == len(claim.comparisons):
        mark = CONFIRMED
    return Verdict(mark, _evidence(known, held, len(claim.comparisons)))


def _holds(comparison: Comparison, own: Interval) -> bool:
    if comparison.level:
        return not (own.above or own.below)
    return own.above


def _interval(
    comparison: Comparison, records: Sequence[Record], variant: str
) -> Interval:
    """The paired difference that a comparison asks for."""
    place, quantity, *schemes = comparison[:4]
    values = []
    for scheme in schemes:
        cell = Cell(*place, Method(variant, scheme))
        own = values_of((r for r in records if r.cell == cell), quantity.of)
        values.append(distances(own) if comparison.spread else own)
    return paired(values[0], values[1])


# Differences that are told one by one; more are counted.
_MOST_TOLD = 4


def _evidence(
    known: Sequence[tuple[Comparison, Interval]], held: int, total: int
) -> str:
    if len(known) > _MOST_TOLD:
        opposite = sum(own.below and not each.level for each, own in known)
        return (
            f"{held} of {total} differences hold, {opposite} are reversed, the "
            "intervals of the others contain 0"
        )
    return "; ".join(_told(each, own) for each, own in known)


def _told(comparison: Comparison, own: Interval) -> str:
    more, less = (SCHEMES[s] for s in (comparison.more, comparison.less))
    spread = "spread of the " if comparison.spread else ""
    return f"{spread}{comparison.quantity.name}, {more} - {less}: {own}"


def smallest_variances(records: Sequence[Record], variant: str) -> Verdict:
    """The remark on q(theta): sigma^2 <= 1e-15 in general at the end."""
    method = Method(variant, "fng")
    ends = [r.variance for r in records if r.cell.method == method and r.variance]
    if not ends:
        return Verdict(OPEN, "no run of FNG")
    low, middle, high = np.median(ends, axis=0)
    mark = CONFIRMED if middle <= _TINY else REFUTED
    return Verdict(
        mark,
        f"medians over {len(ends)} runs: smallest {low:.1e}, median {middle:.1e}, "
        f"largest {high:.1e}",
    )
