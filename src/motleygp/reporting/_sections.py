"""The sections of a report as plain data: tables, and places of figures."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from motleygp.prediction import inspection
from motleygp.reporting import _figures, _tables
from motleygp.reporting._facts import Facts
from motleygp.reporting._figures import Figure
from motleygp.reporting._format import shown
from motleygp.reporting._tables import Table


class Place(NamedTuple):
    """The place of a figure on the page; `height` is in pixels."""

    number: int
    caption: str
    height: int
    wide: bool


class Album:
    """All figures of a page, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    def add(self, figures: Iterable[Figure | None]) -> list[Place]:
        """Add the figures that exist; returns their places."""
        places = []
        for figure in figures:
            if figure is None:
                continue
            number, height = len(self.figures), figure.layout["height"]
            places.append(Place(number, figure.caption, height, figure.wide))
            self.figures.append(figure)
        return places


class Data(NamedTuple):
    """The section "Data"."""

    tables: list[Table]
    places: list[Place]


class Scores(NamedTuple):
    """The section "Scores". `sampled`: only some rows were scored; `compared`: there
    are independent models."""

    table: Table
    places: list[Place]
    num_rows: str
    num_scored: str
    sampled: bool
    compared: bool


class Sharing(NamedTuple):
    """The section "What sharing is worth". `words` tell how many outputs it helps."""

    table: Table
    words: str


class OutputPart(NamedTuple):
    """The part of the section "Outputs" about one output."""

    name: str
    likelihood: str
    places: list[Place]
    surprises: Table | None


class Part(NamedTuple):
    """A section with one table."""

    table: Table
    places: list[Place]


class ModelPart(NamedTuple):
    """The section "Model"; `processes` tells how many latent processes are in use."""

    table: Table
    places: list[Place]
    processes: str


def data(facts: Facts, ys: list[np.ndarray], album: Album) -> Data:
    """The inputs and outputs in training and in the data of the report."""
    tables = [_tables.outputs(facts), _tables.inputs(facts)]
    if facts.with_data:
        tables.append(_tables.values(facts, ys))
    names = [output.name for output in facts.outputs]
    return Data(tables, album.add([_figures.missing(names, ys, facts.labels)]))


def scores(facts: Facts, album: Album) -> Scores | None:
    """The scores of all outputs; none without data."""
    if not facts.with_data:
        return None
    return Scores(
        table=_tables.scores(facts),
        places=album.add([_figures.gains(facts)]),
        num_rows=shown(facts.num_rows),
        num_scored=shown(facts.num_scored),
        sampled=facts.num_scored < facts.num_rows,
        compared=facts.compared,
    )


def sharing(facts: Facts) -> Sharing | None:
    """What sharing is worth; none if it was not asked for."""
    if facts.sharing is None:
        return None
    table = _tables.sharing(facts.sharing)
    said = [row[-1] for row in table.rows[:-1]]
    helps, harms = (said.count(word) for word in (_tables.HELPS, _tables.HARMS))
    each = f"Of the {len(said)} outputs, sharing clearly helps {helps}"
    return Sharing(table, f"{each} and harms {harms}.")


def outputs(
    facts: Facts, album: Album, watch: Callable[[Sequence[Any]], Iterable[Any]]
) -> list[OutputPart]:
    """The predictions and the calibration of each output."""
    grid = _figures.grids(facts)
    parts = []
    for output in watch(facts.outputs):
        figures = [*_figures.predictions(facts, output, grid)]
        figures += _figures.calibration(output)
        places, surprises = album.add(figures), _tables.surprises(output)
        parts.append(OutputPart(output.name, output.likelihood.name, places, surprises))
    return parts


def training(facts: Facts, album: Album) -> Part:
    """The settings of training and its course."""
    fitted = facts.fitted
    figures = [_figures.trace(fitted.trace), _figures.restarts(fitted.starts)]
    return Part(_tables.training(facts), album.add(figures))


def model(facts: Facts, album: Album) -> ModelPart:
    """The parameters of the model."""
    correlation = _figures.heat_map(
        "Prior correlation between the functions at one input: how much the outputs "
        "share.",
        inspection.correlation(facts.fitted),
        1.0,
    )
    weights = _figures.heat_map(
        "The weight of each latent process in each function.",
        inspection.weights(facts.fitted),
    )
    relevance, inducing = _figures.relevance(facts), _figures.inducing(facts)
    places = album.add([correlation, weights, relevance, inducing])
    used = inspection.processes(facts.fitted)
    return ModelPart(_tables.lengthscales(facts), places, used)
