"""Rows held out of training, whole across the outputs that share them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from motleygp.inference.observations import Observations
from motleygp.likelihoods import AbstractLikelihood

# The rest, and the held-out rows.
Parts: TypeAlias = tuple[np.ndarray, np.ndarray]


def hold_out(
    rng: np.random.Generator,
    observed: Observations,
    likelihoods: Sequence[AbstractLikelihood],
    fraction: float,
) -> tuple[Observations, Observations]:
    """Split off a random `fraction` of the rows: the rest, and these rows.

    A row is held out of all outputs that share their inputs. In both parts, a binary
    output has both classes; any other output has a value among the held-out rows, and
    different values in the rest. Some rows change sides where chance does not do that.

    **Raises:** `ValueError` when an output has too few values for both parts.
    """
    parts: list[dict[int, np.ndarray]] = [{}, {}]
    for x in observed.distinct_inputs():
        own = [d for d, other in enumerate(observed.xs) if other is x]
        split = _Split([(observed.ys[d], likelihoods[d].binary) for d in own])
        order = rng.permutation(len(split.rows))
        cut = min(max(1, round(fraction * len(order))), len(order) - 1)
        left, held = split.mended(order, cut)
        short = split.lacking((left, held)).any(axis=0)
        if short.any():
            d = own[int(np.argmax(short))]
            binary = likelihoods[d].binary
            raise ValueError(_too_few(observed.names[d], observed.ys[d], binary))
        for part, rows in zip(parts, (np.sort(left), held), strict=True):
            part[id(x)] = split.rows[rows]
    rest, apart = (observed.part(part) for part in parts)
    return rest, apart


def _too_few(name: str, y: np.ndarray, binary: bool) -> str:
    known = y[~np.isnan(y)]
    if binary:
        ones = int(np.sum(known == 1))
        zeros = len(known) - ones
        return (
            f"`validation_fraction` needs at least two values of each class of output "
            f"{name!r}, to train on and to hold out; got {zeros} of class 0 and {ones} "
            "of class 1."
        )
    return (
        f"`validation_fraction` needs a value of output {name!r} to hold out beside "
        f"two different ones to train on; got {known.tolist()[:5]}."
    )


class _Split:
    """The observed rows of outputs that share their inputs, and what two parts of them
    lack: the rest, and the held-out rows.

    An output needs two different values in the rest. Of the held-out rows, a binary
    output needs two and any other output one.
    """

    def __init__(self, outputs: Sequence[tuple[np.ndarray, bool]]):
        ys = np.stack([y for y, _ in outputs])
        self.rows = np.flatnonzero(~np.isnan(ys).all(axis=0))
        self.ys = ys[:, self.rows]
        held = np.asarray([2 if binary else 1 for _, binary in outputs])
        self.needs = (np.full(len(outputs), 2), held)

    def lacking(self, parts: Parts) -> np.ndarray:
        """The number of different values that each part lacks, by output."""
        found = [_different(self.ys[:, part]) for part in parts]
        return np.maximum(np.asarray(self.needs) - found, 0)

    def mended(self, order: np.ndarray, cut: int) -> Parts:
        """The rows after and before the cut in this order. As long as that makes up for
        a lack, a row changes sides, and another one changes back if it can."""
        parts: Parts = (order[cut:], order[:cut])
        while (lack := int(self.lacking(parts).sum())) > 0:
            better = self._first(parts, self._wanted(parts), lack - 1)
            if better is None:
                return parts
            parts = better
        for giver, size in enumerate((len(order) - cut, cut)):
            while len(parts[giver]) > size:
                places = ((giver, place) for place in range(len(parts[giver])))
                smaller = self._first(parts, places, 0)
                if smaller is None:
                    break
                parts = smaller
        return parts

    def _wanted(self, parts: Parts) -> Iterator[tuple[int, int]]:
        """The rows that could make up for a lack: their part, and their place in it."""
        for taker, d in np.argwhere(self.lacking(parts)):
            giver = 1 - int(taker)
            there, here = self.ys[d, parts[giver]], self.ys[d, parts[taker]]
            wanted = ~np.isnan(there) & ~np.isin(there, here)
            for place in np.flatnonzero(wanted):
                yield giver, int(place)

    def _first(
        self, parts: Parts, places: Iterable[tuple[int, int]], most: int
    ) -> Parts | None:
        """The parts after the first change of sides that leaves at most this lack."""
        for giver, place in places:
            row = parts[giver][place]
            less, more = (
                np.delete(parts[giver], place),
                np.append(parts[1 - giver], row),
            )
            new = (less, more) if giver == 0 else (more, less)
            if self.lacking(new).sum() <= most:
                return new
        return None


def _different(ys: np.ndarray) -> np.ndarray:
    """0, 1 or 2 for each row of values: none, all the same, or different ones."""
    known = ~np.isnan(ys)
    low = np.where(known, ys, np.inf).min(axis=1, initial=np.inf)
    high = np.where(known, ys, -np.inf).max(axis=1, initial=-np.inf)
    return known.any(axis=1).astype(int) + (low < high)
