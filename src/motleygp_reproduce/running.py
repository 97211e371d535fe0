"""An experiment from its plan to its files, which can be stopped and goes on."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import joblib
import numpy as np
from rich.console import Console

from motleygp.progress import restarts_bar
from motleygp_reproduce import records
from motleygp_reproduce.cells import load, run_cell
from motleygp_reproduce.figures import draw
from motleygp_reproduce.methods import AUTHORS, DEFAULT, PAPER, Method
from motleygp_reproduce.records import Cell, Record
from motleygp_reproduce.studies import Study
from motleygp_reproduce.summary import summary

RUNS, SUMMARY = "runs.csv", "summary.md"
# The starts of one task: if the experiment is stopped, so many are done again.
_AT_A_TIME = 5
# Seconds of one run of 1000 iterations on one core, and of compiling for a part.
_SECONDS = {AUTHORS: 3.0, PAPER: 2.0, DEFAULT: 30.0}
_COMPILING = 4.0


class Part(NamedTuple):
    """Starts of a cell that run in one process."""

    cell: Cell
    seeds: tuple[int, ...]


def reproduce(
    study: Study,
    folder: Path,
    *,
    methods: Sequence[Method] | None = None,
    jobs: int = 1,
    data_dir: Path | None = None,
    quiet: bool = False,
) -> list[Record]:
    """Run what is missing of an experiment, and write its runs, figures and summary
    into a folder. Ctrl-C keeps the runs that are complete.

    Returns all its records.
    """
    folder.mkdir(parents=True, exist_ok=True)
    console, path = Console(markup=False), folder / RUNS
    found = records.read(path)
    left = missing(study, found, methods)
    count = sum(len(part.seeds) for part in left)
    minutes = 60.0 * predicted_hours(study, left) / jobs
    wait = f"{minutes / 60:.1f} hours" if minutes > 60 else f"{minutes:.1f} minutes"
    console.print(f"{study.title}: {count} runs, predicted {wait}", soft_wrap=True)
    try:
        with restarts_bar(count, show=not quiet) as update:
            done = 0
            for own in _run(study, left, jobs, data_dir):
                records.add(path, own, records.hardware())
                found += own
                done += len(own)
                update(done)
    finally:
        wanted = set(study.cells)
        found = [own for own in found if own.cell in wanted]
        if found:
            _write(study, folder, found, data_dir)
            console.print(f"Runs, figures and summary: {folder}", soft_wrap=True)
    return found


def _run(
    study: Study, parts: Sequence[Part], jobs: int, data_dir: Path | None
) -> Iterable[list[Record]]:
    if jobs == 1:
        return (run_cell(study, *part, data_dir) for part in parts)
    runs: Any = joblib.Parallel(jobs, return_as="generator_unordered")
    return runs(joblib.delayed(run_cell)(study, *part, data_dir) for part in parts)


def missing(
    study: Study, found: Iterable[Record], methods: Sequence[Method] | None = None
) -> list[Part]:
    """The starts without a record, in parts."""
    done = {(own.cell, own.seed) for own in found}
    parts = []
    for cell in study.cells:
        if methods is not None and cell.method not in methods:
            continue
        seeds = study.seeds(cell)
        left = [seed for seed in seeds if (cell, seed) not in done]
        size = _AT_A_TIME if jax.default_backend() == "cpu" else len(seeds)
        parts += [
            Part(cell, tuple(left[at : at + size])) for at in range(0, len(left), size)
        ]
    return parts


def predicted_hours(study: Study, parts: Iterable[Part]) -> float:
    """The hours that these parts take on one core."""
    thousands = study.iterations / 1000
    seconds = (
        _COMPILING + len(part.seeds) * thousands * _SECONDS[part.cell.method.variant]
        for part in parts
    )
    return sum(seconds) / 3600


def constants_of(
    found: Iterable[Record], data_dir: Path | None = None
) -> dict[tuple[str, int], float]:
    """The mean NLPD of the constant fit to each set that occurs."""
    cells = {own.cell[:2]: own.cell for own in found}
    return {
        place: float(np.mean([*load(cell, data_dir).constant_nlpd().values()]))
        for place, cell in cells.items()
    }


def _write(
    study: Study, folder: Path, found: Sequence[Record], data_dir: Path | None
) -> None:
    """Write the figures and the summary."""
    pictures = draw(study, found)
    for name, figure in pictures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
    constants = constants_of(found, data_dir)
    (folder / SUMMARY).write_text(summary(study, found, constants, list(pictures)))
