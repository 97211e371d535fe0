"""A process that trains one model of one library, as told line by line.

Each library lives in an environment of its own, so this module needs only NumPy. A
line on the standard input is a JSON list, a command and its arguments; the answer is
one JSON line. The clock runs only while the library works: minibatches are drawn
before it starts, and imports are done before the first command.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Arrays = dict[str, np.ndarray]
Settings = dict[str, Any]


class Trained(Protocol):
    """A model in training."""

    def run(self, rows: np.ndarray) -> None:
        """One iteration for each row of `rows`, the places of its minibatch."""

    def bound(self) -> float:
        """The library's own bound on all rows, at the current parameters."""
        ...

    def parameters(self) -> Arrays:
        """Z, length-scales, weights, noise, and the whitened q(u), in the form of the
        problem's own arrays."""
        ...


Build = Callable[[Arrays, Settings], Trained]


class _Served:
    """The commands."""

    def __init__(self, build: Build, problem: str):
        with np.load(problem) as stored:
            self.arrays = dict(stored)
        self.build_model = build
        self.rng = np.random.default_rng(0)
        self.settings: Settings = {}
        self.model: Trained | None = None

    def build(self, settings: Settings) -> float:
        """Seconds to build the model."""
        self.settings = settings
        begun = time.perf_counter()
        self.model = self.build_model(self.arrays, settings)
        return time.perf_counter() - begun

    def run(self, num_steps: int) -> float:
        """Seconds for so many iterations."""
        assert self.model is not None
        num_rows = len(self.arrays["X"])
        batch = min(self.settings["batch"], num_rows)
        rows = np.stack(
            [self.rng.choice(num_rows, batch, False) for _ in range(num_steps)]
        )
        begun = time.perf_counter()
        self.model.run(rows)
        return time.perf_counter() - begun

    def bound(self) -> float:
        assert self.model is not None
        return self.model.bound()

    def save(self, path: str) -> str:
        """Write the parameters to a file."""
        assert self.model is not None
        np.savez(path, allow_pickle=False, **self.model.parameters())
        return path

    def memory(self) -> float:
        """The most memory that the process has held so far, in MB."""
        # Not ru_maxrss, which begins with the memory of the process that started this.
        status = Path("/proc/self/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
        return float(peak) / 1024.0


def serve(build: Build) -> None:
    """Obey until the input ends. A command that fails answers with its error."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # The libraries may print; their words must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    served = _Served(build, sys.argv[1])

    def answer(**found: Any) -> None:
        print(json.dumps(found), file=answers, flush=True)

    answer(value=served.memory())
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        try:
            answer(value=getattr(served, command)(*arguments))
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}"[:500])
