"""The time to one bound on all rows: T2, every library's parameters by our bound."""

import sys
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np

from comparison.match import score
from comparison.problems import settings_of, toy
from comparison.workers import EACH, OURS, Entry, FailedError, Pythons, Worker, started
from libraries.served import Arrays, Settings

CASES = MappingProxyType({"T2, P = 1": 1, "T2, P = 10": 10})
BUDGET, PIECE = 60.0, 2.0
BATCH, BAR = 256, 0.25
# The rates of the guides of GPflow and GPyTorch to natural gradients, and smaller
# natural steps for a library that fails at the first one.
RATES = {"natural_rate": 0.1, "adam_rate": 0.01}
SMALLER = (0.03, 0.01)
# The iterations of a usual run, and of a long one.
USUAL, LONG = 2000, 6000
ENTRIES = MappingProxyType(
    {
        OURS: Entry(OURS, {"horizon": USUAL}),
        f"{OURS}, {LONG} steps": Entry(OURS, {"horizon": LONG}),
        # A form that the others do not have.
        f"{OURS}, joint q(u)": Entry(OURS, {"horizon": USUAL, "joint": True}),
        **{name: entry for name, entry in EACH.items() if name != OURS},
    }
)


class Course(TypedDict):
    """Seconds of training, compilation included, and the bound then; the iterations;
    the natural rate; and the error that ended the run, if any."""

    seconds: list[float]
    bound: list[float]
    steps: int
    rate: float
    error: str


class _Run:
    """One competitor's run in pieces; the clock stands still while it is scored."""

    def __init__(self, worker: Worker, arrays: Arrays, settings: Settings, ours: bool):
        self.worker, self.arrays, self.ours = worker, arrays, ours
        self.settings, self.horizon = settings, settings.get("horizon", 10**9)
        self.rates = [settings["natural_rate"], *SMALLER]
        self._begin()

    def _begin(self) -> None:
        rate = self.rates.pop(0)
        own = self.settings | {"natural_rate": rate}
        self.clock, self.size = self.worker("build", own), 50
        self.course: Course = {
            "seconds": [],
            "bound": [],
            "steps": 0,
            "rate": rate,
            "error": "",
        }

    def ended(self) -> bool:
        """Whether the time, the horizon or the rates are used up."""
        over = self.course["steps"] >= self.horizon or self.clock >= BUDGET
        return over or bool(self.course["error"])

    def advance(self) -> None:
        """One piece, and the bound after it."""
        try:
            seconds = self.worker("run", self.size)
            bound = self._score()
        except FailedError as error:
            if self.rates:
                return self._begin()
            self.course["error"] = str(error)
            return None
        self.clock += seconds
        self.course["steps"] += self.size
        self.course["seconds"].append(self.clock)
        self.course["bound"].append(bound)
        per_chunk = 50 * seconds / self.size
        size = 50 * int(np.clip(PIECE / per_chunk, 1, 20))
        self.size = min(size, self.horizon - self.course["steps"])
        return None

    def _score(self) -> float:
        if self.ours:
            return self.worker("bound")
        bound = score(self.worker.parameters(self.arrays), self.settings)
        if not np.isfinite(bound):
            raise FailedError("our bound is not finite there")
        return bound


def measure(pythons: Pythons, label: str) -> dict[str, Course]:
    """The courses of all competitors, a piece of each in turn."""
    arrays = toy(CASES[label])
    settings = settings_of("mixed", BATCH, **RATES)
    with started(pythons, arrays, ENTRIES) as workers:
        runs = {
            name: _Run(
                worker,
                arrays,
                settings | dict(ENTRIES[name].settings),
                ENTRIES[name].library == OURS,
            )
            for name, worker in workers.items()
        }
        while going := {n: r for n, r in runs.items() if not r.ended()}:
            for run in going.values():
                run.advance()
            told = ", ".join(f"{n} {r.clock:.0f} s" for n, r in runs.items())
            print(f"  {label}: {told}", file=sys.stderr, flush=True)
    return {name: run.course for name, run in runs.items()}


def reached(course: Course, target: float) -> float:
    """Seconds until the bound was as high as this; infinity if it never was."""
    pairs = zip(course["seconds"], course["bound"], strict=True)
    return min((s for s, bound in pairs if bound >= target), default=np.inf)


def show(label: str, found: dict[str, Course]) -> None:
    """Print the bounds by time, and the bar."""
    times = (5, 10, 20, 30, 60)
    heads = "".join(f"{f'{t} s':>10}" for t in times)
    print(
        f"{label + ', bound after':28}{heads}{'best':>10}{'at s':>8}{'steps':>8}"
        f"{'rate':>7}"
    )
    best: dict[str, tuple[float, float]] = {}
    for name, course in found.items():
        top = max(course["bound"], default=-np.inf)
        best[name] = (top, reached(course, top))
        cells = [f"{_bound_at(course, t):10.1f}" for t in times]
        rate = "" if _is_ours(name) else f"{course['rate']:.2f}"
        print(
            f"{name:28}{''.join(cells)}{top:10.1f}{best[name][1]:8.1f}"
            f"{course['steps']:8}{rate:>7}  {course['error'][:40]}"
        )
    peer: Any = max((n for n in found if not _is_ours(n)), key=lambda n: best[n])
    target, seconds = best[peer]
    for name in filter(_is_ours, found):
        ratio = reached(found[name], target) / seconds
        print(
            f"  bar: at most {BAR} of the time of the best peer, {peer}; "
            f"{name}: {ratio:.3f}"
        )


def _is_ours(name: str) -> bool:
    return ENTRIES[name].library == OURS


def _bound_at(course: Course, seconds: float) -> float:
    """The bound at the last score before this time."""
    pairs = zip(course["seconds"], course["bound"], strict=True)
    return max(((s, b) for s, b in pairs if s <= seconds), default=(0.0, np.nan))[1]
