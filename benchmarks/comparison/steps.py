"""The step on the five-output benchmark, at two sizes."""

from types import MappingProxyType
from typing import TypedDict

from comparison import limit
from comparison.problems import five_types, settings_of
from comparison.timing import Timed, fastest, timed
from comparison.workers import OURS, Entry, Pythons

# "Stock" is the library's own way, in which a likelihood sees variances alone; the
# other form keeps the covariances of an output's functions, as MotleyGP does.
STOCK = {"covariances": False}
ENTRIES = MappingProxyType(
    {
        OURS: Entry(OURS),
        "GPflow, stock": Entry("GPflow", STOCK),
        "GPflow": Entry("GPflow"),
        "GPyTorch, stock": Entry("GPyTorch", STOCK),
        "GPyTorch": Entry("GPyTorch"),
        "GPJax": Entry("GPJax"),
    }
)
# M, batch; and the bar: our step by that of the fastest peer.
CASES = MappingProxyType({"M = 80, batch 50": 0.2, "M = 200, batch 1024": 0.4})
KIND = "five types, "  # of a case of `limit`
SIZES = MappingProxyType(dict(zip(CASES, ((80, 50), (200, 1024)), strict=True)))


class Found(TypedDict):
    """The figures of all libraries, and the milliseconds of our step's bare calls."""

    libraries: dict[str, Timed]
    bare: float


def measure(pythons: Pythons, label: str) -> Found:
    """The figures of one size."""
    num_inducing, batch = SIZES[label]
    number = 50 if batch < 1000 else 10
    settings = settings_of("mixed", batch, chunk=number)
    arrays = five_types(num_inducing)
    found = timed(pythons, arrays, settings, ENTRIES, rounds=15, steps=number)
    calls = limit.measure(pythons, KIND + label)["parts"]
    return {"libraries": found, "bare": sum(ms for _, ms in calls.values())}


def show(label: str, found: Found) -> None:
    """Print the figures, the bar, and how low a bar could be."""
    print(f"{KIND + label:34}{'ms a step':>10}{'ours / it':>11}", end="")
    print(f"{'first s':>9}{'peak MB':>9}{'training MB':>13}")
    for name, own in found["libraries"].items():
        print(
            f"{name:34}{own['ms']:10.2f}{own['ratio']:11.3f}{own['first']:9.1f}"
            f"{own['peak']:9.0f}{own['memory']:13.0f}"
        )
    print(f"{'bare calls of our step':34}{found['bare']:10.2f}")
    best = fastest(found["libraries"])
    ratio, theirs = (found["libraries"][best][key] for key in ("ratio", "ms"))
    print(f"  bar: at most {CASES[label]} of the fastest peer's; {best}: ", end="")
    print(f"{ratio:.3f}; our bare calls alone: {found['bare'] / theirs:.3f}")
