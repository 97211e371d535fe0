"""Checks of the data that a user gives to an estimator: inputs, values, weights and
exposures."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motleygp import likelihoods as lik
from motleygp.estimator.weighing import weighed
from motleygp.inference.checks import (
    check_finite,
    check_support,
    checked_inputs,
    outside_support,
)
from motleygp.inference.conditioning import Observed
from motleygp.inference.observations import (
    Observations,
    check_exposed,
    exposed,
    observe,
)
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.sharing import once_each
from motleygp.prediction import Fitted
from motleygp.progress import console
from motleygp.tables import Column, Table, frames, infer
from motleygp.tables.arguments import by_output, check_per_row, per_row
from motleygp.tables.rows import labels_of, row_name


def ordered(fitted: Fitted, X: Any) -> Any:
    """X with the columns of the fit in their order, if both have names."""
    frames.check_dense(X)
    if isinstance(X, Mapping):
        return {name: ordered(fitted, x) for name, x in X.items()}
    if isinstance(X, list | tuple):
        return [ordered(fitted, x) for x in X]
    if not fitted.inputs_named or not frames.is_frame(X):
        return X
    names = frames.features(X) or []
    absent = [name for name in fitted.inputs if name not in names]
    if absent:
        raise ValueError(f"`X` must have the column {absent[0]!r}; got {names}.")
    return frames.select(X, list(fitted.inputs))


def check_columns(fitted: Fitted, x: np.ndarray) -> np.ndarray:
    """x, or a `ValueError` if the fit had another number of columns."""
    # scikit-learn's `validate_data` would refuse columns in another order, which
    # `ordered` allows, and warn of arrays after a fit to a frame. The message is
    # scikit-learn's.
    if x.ndim == 2 and x.shape[1] != len(fitted.inputs):
        raise ValueError(
            f"X has {x.shape[1]} features, but MotleyGP is expecting "
            f"{len(fitted.inputs)} features as input."
        )
    return x


def check_dates(fitted: Fitted, x: Any, matrix: np.ndarray) -> None:
    """Raise a `ValueError` for whole numbers where the fit had dates."""
    if not any(fitted.dates):
        return
    for name, date, kind in zip(
        fitted.inputs, fitted.dates, frames.kinds(x, matrix), strict=False
    ):
        if date and kind == "integer":
            raise ValueError(
                f"`X` must have dates in column {name!r}, as in `fit`; got whole "
                "numbers."
            )


def new_inputs(fitted: Fitted, X: Any) -> np.ndarray:
    """New inputs as a checked matrix with the columns of the fit."""
    chosen = ordered(fitted, X)
    x = frames.as_matrix(chosen)
    check_dates(fitted, chosen, x)
    features, labels = frames.features(chosen), labels_of(X)
    return check_columns(fitted, checked_inputs(x, labels=labels, features=features))


def check_names(fitted: Fitted, names: Iterable[str], *, partly: bool = False) -> None:
    """Raise a `ValueError` unless these are the fit's outputs, or some (`partly`)."""
    found, known = set(names), set(fitted.outputs)
    if not (found <= known if partly else found == known):
        raise ValueError(
            f"`Y` must have the outputs {list(fitted.outputs)}; got {list(names)}."
        )


def inferred(outputs: Any, table: Table) -> tuple[list[Any], list[infer.Choice]]:
    """The entry of `outputs` for each output, with a likelihood in the place of "auto",
    and the choices made."""
    entries = dict(zip(table.names, by_output(outputs, table.names), strict=True))
    columns = {
        name: (column.values, column.kind)
        for name, column in zip(table.names, table.columns, strict=True)
        if isinstance(entries[name], str) and entries[name] == "auto"
    }
    for name, labels in zip(table.names, table.labels, strict=True):
        if name in columns:
            check_finite(name, columns[name][0], labels)
    choices = infer.infer_outputs(columns)
    chosen = {choice.name: choice.likelihood for choice in choices}
    return list((entries | chosen).values()), choices


class Read(NamedTuple):
    """Data to train on: as a table, and checked; the likelihoods, and those of them
    that were inferred."""

    table: Table
    observed: Observations
    likelihoods: list[AbstractLikelihood]
    choices: list[infer.Choice]


def read(
    outputs: Any, X: Any, Y: Any, sample_weight: Any, exposure: Any, *, show: bool
) -> Read:
    """The arguments of `fit`, converted and checked. Likelihoods that are inferred are
    shown (`show`), and warned about if they are in doubt."""
    table = weighed(frames.as_table(X, Y), sample_weight, exposure)
    entries, choices = inferred(outputs, table)
    if choices and show:
        console().print(infer.table(choices))
    infer.warn(choices)
    likelihoods = [lik.get(entry) for entry in entries]
    observed = observations(table, likelihoods, exposure, complete=True)
    return Read(table, observed, likelihoods, choices)


def observations(
    table: Table,
    likelihoods: Sequence[AbstractLikelihood],
    exposure: Any = None,
    *,
    complete: bool = False,
) -> Observations:
    """Checked observations of a table with its weights; `exposure` is as it came."""
    exposures = table.exposures
    if exposures is not None:
        check_exposed(exposure, table.names, likelihoods)
        exposures = exposed(exposures, likelihoods)
    return observe(
        table.names,
        table.xs,
        table.ys,
        likelihoods,
        weights=table.weights,
        exposures=exposures,
        labels=table.labels,
        features=table.features,
        complete=complete,
    )


def new_observations(
    fitted: Fitted,
    X: Any,
    Y: Any,
    sample_weight: Any = None,
    exposure: Any = None,
    *,
    partly: bool = False,
    to_score: bool = False,
) -> Observations:
    """New data in the order of the fitted outputs, with NaN for outputs not in Y.

    Values outside the support of their likelihood are an error or, `to_score`, left out
    with a warning: their log density would make every score infinite.
    """
    chosen = ordered(fitted, X)
    table = frames.as_table(chosen, Y, fitted.classes_by_output)
    check_names(fitted, table.names, partly=partly)
    once_each(lambda x: check_columns(fitted, x), table.xs)
    for x, matrix in zip(frames.inputs(chosen, table.names), table.xs, strict=True):
        check_dates(fitted, x, matrix)
    table = weighed(_completed(table, fitted.outputs), sample_weight, exposure)
    likelihoods = fitted.model.likelihoods
    if to_score:
        table = table._replace(
            columns=[
                _possible(name, column, likelihood, labels)
                for name, column, likelihood, labels in zip(
                    table.names, table.columns, likelihoods, table.labels, strict=True
                )
            ]
        )
    return observations(table, likelihoods, exposure)


def _possible(
    name: str, column: Column, likelihood: AbstractLikelihood, labels: pd.Index | None
) -> Column:
    """The column without the values outside the support, of which a warning tells."""
    y = column.values
    if (outside := outside_support(y, likelihood)).size:
        more = f" and {outside.size - 1} more" if outside.size > 1 else ""
        warnings.warn(
            f"output {name!r} is scored without {y[outside[0]]:g} in "
            f"{row_name(labels, int(outside[0]))}{more}: {likelihood.name} gives a "
            f"density only to {likelihood.support}.",
            stacklevel=2,
        )
        y = y.copy()
        y[outside] = np.nan
    return column._replace(values=y)


def _completed(table: Table, names: Sequence[str]) -> Table:
    """The table with these outputs in this order: missing throughout where it has
    none, at the rows of its first output."""
    places = [table.names.index(n) if n in table.names else None for n in names]
    each = [place or 0 for place in places]
    gaps = Column(np.full(table.xs[0].shape[:1], np.nan), "real")
    return table._replace(
        xs=[table.xs[d] for d in each],
        columns=[gaps if d is None else table.columns[d] for d in places],
        names=list(names),
        labels=[table.labels[d] for d in each],
    )


class NewRows(NamedTuple):
    """Rows to predict: the checked matrix of inputs, and their labels."""

    x: np.ndarray
    labels: pd.Index | None


def new_rows(fitted: Fitted, X: Any, given: Any = None) -> NewRows:
    """New inputs with the columns of the fit; rows without labels have those of the
    given outputs."""
    owners = [X] if given is None else [X, *frames.vectors(given).values()]
    labels = next((own for o in owners if (own := labels_of(o)) is not None), None)
    return NewRows(new_inputs(fitted, X), labels)


def new_exposures(fitted: Fitted, exposure: Any, rows: NewRows) -> list[np.ndarray]:
    """The exposure of each row of each output: 1 where none is given."""
    if exposure is None:
        return [np.ones(len(rows.x)) for _ in fitted.outputs]
    number, likelihoods = len(fitted.outputs), fitted.model.likelihoods
    check_exposed(exposure, fitted.outputs, likelihoods)
    lengths, labels = [len(rows.x)] * number, [rows.labels] * number
    found = per_row(exposure, fitted.outputs, lengths, labels, "exposure")
    for own in found:
        check_per_row("exposure", own, rows.labels, zero=False)
    return exposed(found, likelihoods)


def given_outputs(
    fitted: Fitted, Y: Any, rows: NewRows, exposures: Sequence[np.ndarray]
) -> list[Observed]:
    """The outputs of Y, in the units of the model."""
    columns = frames.as_columns(Y, fitted.classes_by_output, rows.labels)
    check_names(fitted, columns, partly=True)
    found = []
    for name, column in columns.items():
        d = fitted.outputs.index(name)
        likelihood, y = fitted.model.likelihoods[d], column.values
        if y.shape != (len(rows.x),):
            raise ValueError(
                f"output {name!r} must have one value per row of `X`, {len(rows.x)}; "
                f"got {len(y)}."
            )
        check_support(name, y, likelihood, rows.labels)
        inside = fitted.scaling.output(d, y)
        functions = fitted.model.blocks[d]
        found.append(Observed(likelihood, functions, inside, np.log(exposures[d])))
    return found
