"""Weights and exposures of the rows of a table; rows of weight 0 are left out."""

from typing import Any

import numpy as np
import pandas as pd

from motleygp.inference.checks import check_length, check_matrix
from motleygp.inference.observations import of_weight
from motleygp.numerics.sharing import once_each, one_object
from motleygp.tables.arguments import check_per_row, per_row
from motleygp.tables.frames import Table


def weighed(table: Table, sample_weight: Any = None, exposure: Any = None) -> Table:
    """The table with the weight and exposure of each row of each output.

    A value of weight 0 becomes missing, and a row whose weight is 0 for every output
    that shares its inputs is left out before anything else is checked.
    """
    once_each(check_matrix, table.xs)
    lengths = [len(x) for x in table.xs]
    for name, y, length in zip(table.names, table.ys, lengths, strict=True):
        check_length(name, y, length)
    if exposure is not None:
        given = per_row(exposure, table.names, lengths, table.labels, "exposure")
        table = table._replace(exposures=given)
    if sample_weight is not None:
        weights = per_row(
            sample_weight, table.names, lengths, table.labels, "sample_weight"
        )
        table = _without_weightless(table, weights)
    if table.exposures is not None:
        for own, labels in zip(table.exposures, table.labels, strict=True):
            check_per_row("exposure", own, labels, zero=False)
    return table


def _without_weightless(table: Table, weights: list[np.ndarray]) -> Table:
    """The table without rows of weight 0."""
    for own, labels in zip(weights, table.labels, strict=True):
        check_per_row("sample_weight", own, labels, zero=True)
    columns = [
        column._replace(values=of_weight(name, column.values, own))
        for name, column, own in zip(table.names, table.columns, weights, strict=True)
    ]
    xs = one_object(table.xs)
    kept: dict[int, np.ndarray] = {}
    for x, own in zip(xs, weights, strict=True):
        kept[id(x)] = kept.get(id(x), False) | (own > 0)
    exposures = table.exposures
    if exposures is not None:
        # The exposure of a value that does not count does not count either.
        each = zip(weights, exposures, strict=True)
        exposures = [np.where(own > 0, e, 1.0) for own, e in each]
    table = table._replace(xs=xs, columns=columns, weights=weights, exposures=exposures)
    return _only(table, [kept[id(x)] for x in xs])


def _only(table: Table, kept: list[np.ndarray]) -> Table:
    """Some rows of each output; the same ones for outputs that share their inputs."""
    if all(rows.all() for rows in kept):
        return table
    of = {id(x): rows for x, rows in zip(table.xs, kept, strict=True)}

    def parts(values: list[np.ndarray] | None) -> list[np.ndarray] | None:
        if values is None:
            return None
        return [own[rows] for own, rows in zip(values, kept, strict=True)]

    return table._replace(
        xs=once_each(lambda x: x[of[id(x)]], table.xs),
        columns=[
            column._replace(values=column.values[rows])
            for column, rows in zip(table.columns, kept, strict=True)
        ],
        labels=[
            _numbered(labels, len(rows))[rows]
            for labels, rows in zip(table.labels, kept, strict=True)
        ],
        weights=parts(table.weights),
        exposures=parts(table.exposures),
    )


def _numbered(labels: pd.Index | None, length: int) -> pd.Index:
    """The labels of rows, or their numbers."""
    return pd.RangeIndex(length) if labels is None else labels
