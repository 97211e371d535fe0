"""The runs of one cell: its data, its method, and the records of its starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import motleygp as mg
from motleygp import optim
from motleygp.datasets import Problem
from motleygp_reproduce import authors, published
from motleygp_reproduce.courses import Course, nlpd_by_output, train
from motleygp_reproduce.library import Setup, Sizes, default_setup, paper_setup
from motleygp_reproduce.methods import AUTHORS, DEFAULT
from motleygp_reproduce.records import Cell, Record
from motleygp_reproduce.studies import Study

# The points of the trace that are kept of each run.
_POINTS = 50


def run_cell(
    study: Study, cell: Cell, seeds: Sequence[int], data_dir: Path | None = None
) -> list[Record]:
    """The records of these starts."""
    problem = load(cell, data_dir)
    together = {} if jax.default_backend() == "cpu" else {"together": len(seeds)}
    if cell.method.variant == AUTHORS:
        known = authors.settings_of(cell.data, num_inputs=cell.num_inputs)
        known = known._replace(batch_size=cell.batch_size)
        scheme, size = cell.method.scheme, study.iterations
        own = published.run(problem, known, scheme, seeds, size, study.marks)
        return [record(cell, c, own.settings | together) for c in own.courses]
    found = setup(study, cell, problem)
    courses = train(
        found.task,
        seeds,
        study.marks,
        lambda solved: nlpd_by_output(problem, found.scaling, solved),
    )
    return [record(cell, own, found.settings | together) for own in courses]


def load(cell: Cell, data_dir: Path | None) -> Problem:
    """The data of a cell: one draw of a toy, or the first split of a set."""
    if cell.num_inputs:
        return mg.datasets.load(cell.data, num_inputs=cell.num_inputs)
    return mg.datasets.load(cell.data, data_dir=data_dir)


def setup(study: Study, cell: Cell, problem: Problem) -> Setup:
    """The task of a cell of the library's own schemes."""
    if cell.method.variant == DEFAULT:
        return default_setup(problem, **study.given_to_default)
    paper = mg.datasets.info(cell.data).paper
    assert paper is not None and paper.num_inducing is not None
    sizes = Sizes(
        paper.num_latents, paper.num_inducing, cell.batch_size, study.iterations
    )
    initial_p = optim.paper_initial_p(cell.num_inputs)
    return paper_setup(problem, cell.method.scheme, sizes, initial_p=initial_p)


def record(cell: Cell, course: Course, settings: dict[str, Any]) -> Record:
    """The record of a run, with a shorter trace."""
    at, nelbo = thinned(course.nelbo)
    marks = sorted(course.scores)
    names = course.scores[marks[0]] if marks else {}
    return Record(
        cell=cell,
        seed=course.seed,
        iterations=len(course.nelbo),
        ended=course.ended,
        seconds=course.seconds,
        settings=settings,
        at=at,
        nelbo=nelbo,
        scored_at=marks,
        nlpd={name: [course.scores[mark][name] for mark in marks] for name in names},
        variance=spread(course.variance),
    )


def thinned(nelbo: np.ndarray) -> tuple[list[int], list[float]]:
    """The means of the trace over parts of equal length, and the ends of these."""
    parts = np.array_split(nelbo, min(_POINTS, len(nelbo))) if len(nelbo) else []
    ends = np.cumsum([len(part) for part in parts]).astype(int)
    return ends.tolist(), [float(np.mean(part)) for part in parts]


def spread(variance: np.ndarray) -> list[float]:
    """The smallest, the median and the largest."""
    if not len(variance):
        return []
    return [float(v) for v in np.quantile(variance, (0.0, 0.5, 1.0))]
