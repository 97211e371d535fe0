"""The practical limit: our step beside the bare calls that it needs."""

import statistics
from types import MappingProxyType
from typing import TypedDict

from comparison.problems import five_types, gaussians, settings_of
from comparison.workers import BARE, OURS, Entry, Pythons, built, started
from libraries.served import Arrays, Settings

ENTRIES = MappingProxyType({OURS: Entry(OURS), BARE: Entry(BARE)})
BAR, ROUNDS = 2.5, 15
# Kind, M, batch, number of inputs.
CASES = MappingProxyType(
    {
        "five types, M = 80, batch 50": ("mixed", 80, 50, 10),
        "five types, M = 200, batch 1024": ("mixed", 200, 1024, 10),
        "Gaussian, M = 40, batch 50, P = 1": ("gaussian", 40, 50, 1),
        "Gaussian, M = 320, batch 1024, P = 21": ("gaussian", 320, 1024, 21),
    }
)


class Limit(TypedDict):
    """Milliseconds of our step and of the calls by part, with the number of calls; and
    the ratio of the sums."""

    ours: float
    parts: dict[str, tuple[int, float]]
    ratio: float


def problem_of(label: str) -> tuple[Arrays, Settings]:
    """The problem behind a label."""
    kind, num_inducing, batch, num_inputs = CASES[label]
    mixed = kind == "mixed"
    arrays = five_types(num_inducing) if mixed else gaussians(num_inducing, num_inputs)
    return arrays, settings_of(kind, batch, chunk=50 if batch < 1000 else 10)


def measure(pythons: Pythons, label: str) -> Limit:
    """The figures of one case."""
    arrays, settings = problem_of(label)
    chunk, rounds = settings["chunk"], []
    with started(pythons, arrays, ENTRIES) as workers:
        built(workers, settings, ENTRIES)
        for _ in range(ROUNDS + 1):
            seconds = workers[OURS]("run", chunk)
            workers[BARE]("run", chunk)
            parts = workers[BARE].parameters({})
            rounds.append((1e3 * seconds / chunk, parts))
    rounds = rounds[1:]  # the first one compiles
    totals = [sum(1e3 * part[1] for part in parts.values()) for _, parts in rounds]
    return {
        "ours": statistics.median(ours for ours, _ in rounds),
        "parts": {
            name: (
                int(rounds[0][1][name][0]),
                statistics.median(1e3 * float(parts[name][1]) for _, parts in rounds),
            )
            for name in rounds[0][1]
        },
        "ratio": statistics.median(
            ours / total for (ours, _), total in zip(rounds, totals, strict=True)
        ),
    }


def show(label: str, found: Limit) -> None:
    """Print the parts, their sum, and the bar."""
    print(f"{label:42}{'calls':>7}{'ms a step':>11}")
    for name, (count, ms) in found["parts"].items():
        print(f"  {name:40}{count:7}{ms:11.3f}")
    print(f"{'bare calls':49}{sum(ms for _, ms in found['parts'].values()):11.3f}")
    print(f"{'MotleyGP':49}{found['ours']:11.3f}")
    print(f"  bar: at most {BAR} times the bare calls: {found['ratio']:.2f}")
