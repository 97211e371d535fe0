"""Rounds of iterations that alternate between the competitors.

The machine may be busy. In a round, each competitor runs for a moment, so that the
noise falls on all of them; ratios are taken within a round, and then their median.
"""

import statistics
from collections.abc import Mapping
from typing import Any, TypedDict

from comparison.workers import (
    BARE,
    OURS,
    Entries,
    Pythons,
    Worker,
    built,
    started,
)
from libraries.served import Arrays, Settings

# In a chunk: these compile one program for many iterations.
COMPILED = (OURS, "GPJax")


class Timed(TypedDict):
    """A competitor's figures: seconds, milliseconds per iteration, MB.

    `first` is from the call that builds the model to the end of the first iteration,
    or of the first chunk. `peak` is the most memory that the process has held, `memory`
    how much more that is than the most that its imports held.
    """

    first: float
    ms: float
    ratio: float
    peak: float
    memory: float


def rounds_of(
    workers: Mapping[str, Worker], sizes: Mapping[str, int], number: int
) -> dict[str, list[float]]:
    """Milliseconds per iteration of each competitor, round by round."""
    found: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(number):
        for name, worker in workers.items():
            seconds = worker("run", sizes[name])
            found[name].append(1e3 * seconds / sizes[name])
    return found


def timed(
    pythons: Pythons,
    arrays: Arrays,
    settings: Settings,
    entries: Entries,
    *,
    rounds: int,
    steps: int = 20,
) -> dict[str, Timed]:
    """The figures of all competitors; `ratio` is ours by theirs."""
    chunk = settings["chunk"]
    with started(pythons, arrays, entries) as workers:
        seconds = built(workers, settings, entries)
        sizes, firsts = {}, {}
        for name, worker in workers.items():
            compiled = entries[name].library in COMPILED
            sizes[name] = max(chunk, steps // chunk * chunk) if compiled else steps
            firsts[name] = seconds[name] + worker("run", chunk if compiled else 1)
        rounds_of(workers, sizes, 1)  # caches, and what compiles at a second call
        found = rounds_of(workers, sizes, rounds)
        peaks = {n: w("memory") for n, w in workers.items()}
        imports = {n: w.import_memory for n, w in workers.items()}
    ours = found[OURS]
    return {
        name: {
            "first": firsts[name],
            "ms": statistics.median(times),
            "ratio": statistics.median(a / b for a, b in zip(ours, times, strict=True)),
            "peak": peaks[name],
            "memory": peaks[name] - imports[name],
        }
        for name, times in found.items()
    }


def fastest(found: Mapping[str, Any]) -> str:
    """The fastest peer."""
    peers = [name for name in found if name not in (OURS, BARE)]
    return min(peers, key=lambda name: found[name]["ms"])
