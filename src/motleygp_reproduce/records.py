"""The record of a run, and tables of records: one line per run, as CSV."""

import csv
import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax

from motleygp_reproduce.methods import Method

_LIBRARIES = ("motleygp", "jax", "equinox", "optax", "numpy")
_DIGITS = 6
DONE = "horizon"


class Cell(NamedTuple):
    """What a run is a start of: a set, a size of minibatches, and a method.

    `num_inputs` is 0 for sets that are not drawn; `batch_size` is 0 where the method
    plans its own.
    """

    data: str
    num_inputs: int
    batch_size: int
    method: Method


class Record(NamedTuple):
    """One run.

    - `ended`: "horizon", or why the run ended before it.
    - `seconds`: the time of training, with compilation where it was needed; on a CPU,
      that of the processor (`clock`).
    - `at`, `nelbo`: iterations, and minus the bound on the minibatches, averaged over
      the iterations since the one before.
    - `scored_at`, `nlpd`: iterations, and the test NLPDs of each output there.
    - `variance`: the smallest, the median and the largest sigma^2 of q(theta) at the
      end; empty for schemes without q(theta).
    """

    cell: Cell
    seed: int
    iterations: int
    ended: str
    seconds: float
    settings: dict[str, Any]
    at: list[int]
    nelbo: list[float]
    scored_at: list[int]
    nlpd: dict[str, list[float]]
    variance: list[float]

    @property
    def survived(self) -> bool:
        """Whether the run came to its end, with finite scores."""
        return self.ended == DONE

    @property
    def last(self) -> dict[str, float]:
        """The NLPDs at the end by output."""
        return {name: scores[-1] for name, scores in self.nlpd.items()}


_HEADER = (
    *("data", "num_inputs", "batch_size", "variant", "scheme", "seed"),
    *("iterations", "ended", "seconds", "settings", "at", "nelbo", "scored_at"),
    *("nlpd", "variance", "versions", "hardware"),
)


def read(path: Path) -> list[Record]:
    """The records of a file; none if it does not exist."""
    if not path.exists():
        return []
    lines = list(csv.reader(path.read_bytes()[: _end(path)].decode().splitlines()))
    if not lines or tuple(lines[0]) != _HEADER:
        raise ValueError(f"{str(path)!r} is not a table of runs: its header differs.")
    return [_read(dict(zip(_HEADER, line, strict=True))) for line in lines[1:]]


def _end(path: Path) -> int:
    """The end of the last whole line: a process that was killed while it wrote leaves
    a part of one. No cell has a line break."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def _read(line: dict[str, str]) -> Record:
    held = {
        name: json.loads(line[name])
        for name in ("settings", "at", "nelbo", "scored_at", "nlpd", "variance")
    }
    return Record(
        cell=Cell(
            line["data"],
            int(line["num_inputs"]),
            int(line["batch_size"]),
            Method(line["variant"], line["scheme"]),
        ),
        seed=int(line["seed"]),
        iterations=int(line["iterations"]),
        ended=line["ended"],
        seconds=float(line["seconds"]),
        **held,
    )


def add(path: Path, records: Iterable[Record], hardware: str) -> None:
    """Add records to a file, which is made with a header if it does not exist."""
    end = _end(path)
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    with path.open("a", newline="") as file:
        file.truncate(end)
        writer = csv.writer(file, lineterminator="\n")
        if not end:
            writer.writerow(_HEADER)
        for record in records:
            writer.writerow([*_line(record), versions, hardware])


def _line(record: Record) -> list[Any]:
    data, num_inputs, batch_size, method = record.cell
    return [
        *(data, num_inputs, batch_size, *method, record.seed),
        *(record.iterations, record.ended, f"{record.seconds:.2f}"),
        *map(_json, record[5:]),
    ]


def _json(value: Any) -> str:
    return json.dumps(_rounded(value), separators=(",", ":"))


def _rounded(value: Any) -> Any:
    """Numbers with as many digits as anyone reads."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def hardware() -> str:
    """The model name of the device."""
    device = jax.devices()[0]
    return _processor() if device.platform == "cpu" else device.device_kind


def _processor() -> str:
    """The model name of the processor, or its kind where the name is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine() or os.name
