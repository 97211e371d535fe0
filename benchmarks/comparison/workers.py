"""The libraries' processes, seen from the process that compares them."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from libraries.served import Arrays, Settings

BENCHMARKS = Path(__file__).resolve().parents[1]
OURS, BARE = "MotleyGP", "bare calls"
SCRIPTS = MappingProxyType(
    {
        OURS: "in_motleygp",
        "GPflow": "in_gpflow",
        "GPyTorch": "in_gpytorch",
        "GPJax": "in_gpjax",
        BARE: "bare_calls",
    }
)
# One thread for each of the libraries' pools, and no programs compiled before.
ENVIRONMENT = MappingProxyType(
    {
        **dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"
        ),
        "MOTLEYGP_PROGRAM_CACHE": "off",
    }
)

Pythons = Mapping[str, Path]


class FailedError(RuntimeError):
    """A library could not do what it was told."""


class Worker:
    """One library with one problem. `import_memory` is in MB, before the first
    command."""

    def __init__(self, python: Path, script: str, problem: Path):
        self.script = script
        path = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", f"libraries.{script}", str(problem)],
            env=os.environ | ENVIRONMENT | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.import_memory = float(self._answer())

    def __call__(self, command: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None
        print(json.dumps([command, *arguments]), file=self.process.stdin, flush=True)
        return self._answer()

    def parameters(self, arrays: Arrays) -> Arrays:
        """The problem with the parameters that the library has reached."""
        with tempfile.TemporaryDirectory() as folder:
            path = self("save", str(Path(folder) / "found.npz"))
            with np.load(path) as stored:
                return arrays | dict(stored)

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise FailedError(f"{self.script}: the process ended")
        found = json.loads(line)
        if "error" in found:
            raise FailedError(f"{self.script}: {found['error']}")
        return found["value"]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Entry(NamedTuple):
    """A competitor: its library, and its settings that are not those of the rest."""

    library: str
    settings: Mapping[str, Any] = MappingProxyType({})


Entries = Mapping[str, Entry]
EACH: Entries = MappingProxyType(
    {name: Entry(name) for name in SCRIPTS if name != BARE}
)


@contextmanager
def started(
    pythons: Pythons, arrays: Arrays, entries: Entries = EACH
) -> Iterator[dict[str, Worker]]:
    """A process for each competitor."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = Path(folder) / "problem.npz"
        np.savez(path, allow_pickle=False, **arrays)
        workers = {}
        for name, (library, _) in entries.items():
            workers[name] = Worker(pythons[library], SCRIPTS[library], path)
            stack.callback(workers[name].close)
        yield workers


def built(
    workers: Mapping[str, Worker], settings: Settings, entries: Entries = EACH
) -> dict[str, float]:
    """Seconds that each competitor takes to build the model."""
    return {
        name: worker("build", settings | dict(entries[name].settings))
        for name, worker in workers.items()
    }
