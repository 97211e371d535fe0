"""Checks of the data that a user gives to an estimator: inputs, values, weights and
exposures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from motleygp.inference.checks import check_support, checked_inputs
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
from motleygp.tables import frames


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


def new_inputs(fitted: Fitted, X: Any) -> np.ndarray:
    """New inputs as a checked matrix with the columns of the fit."""
    x = frames.as_matrix(ordered(fitted, X))
    return check_columns(fitted, checked_inputs(x))


def check_names(fitted: Fitted, names: Iterable[str], *, partly: bool = False) -> None:
    """Raise a `ValueError` unless these are the fit's outputs, or some (`partly`)."""
    found, known = set(names), set(fitted.outputs)
    if not (found <= known if partly else found == known):
        raise ValueError(
            f"`Y` must have the outputs {list(fitted.outputs)}; got {list(names)}."
        )


def observations(
    names: Sequence[str],
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    sample_weight: Any = None,
    exposure: Any = None,
    *,
    complete: bool = False,
) -> Observations:
    """Checked inputs, values, weights and exposures."""
    lengths = [len(x) for x in xs]
    rows: dict[str, list[np.ndarray]] = {}
    if sample_weight is not None:
        weights = frames.per_row(sample_weight, names, lengths, "sample_weight")
        rows["weights"] = weights
    if exposure is not None:
        exposures = checked_exposures(exposure, names, lengths, likelihoods)
        rows["exposures"] = exposures
    return observe(names, xs, ys, likelihoods, complete=complete, **rows)


def checked_exposures(
    exposure: Any,
    names: Sequence[str],
    lengths: Sequence[int],
    likelihoods: Sequence[AbstractLikelihood],
) -> list[np.ndarray]:
    """The exposure of each row of each output: 1 for outputs that are not counts."""
    check_exposed(exposure, names, likelihoods)
    return exposed(frames.per_row(exposure, names, lengths, "exposure"), likelihoods)


def new_exposures(fitted: Fitted, exposure: Any, num_rows: int) -> list[np.ndarray]:
    """The exposure of each row of each output: 1 where none is given."""
    if exposure is None:
        return [np.ones(num_rows) for _ in fitted.outputs]
    lengths = [num_rows] * len(fitted.outputs)
    likelihoods = fitted.model.likelihoods
    return checked_exposures(exposure, fitted.outputs, lengths, likelihoods)


def new_observations(
    fitted: Fitted,
    X: Any,
    Y: Any,
    sample_weight: Any = None,
    exposure: Any = None,
    *,
    partly: bool = False,
) -> Observations:
    """New data in the order of the fitted outputs, with NaN for outputs not in Y."""
    table = frames.as_table(ordered(fitted, X), Y, fitted.classes_by_output)
    check_names(fitted, table.names, partly=partly)
    once_each(lambda x: check_columns(fitted, x), table.xs)
    xs, ys = [], []
    for name in fitted.outputs:
        place = table.names.index(name) if name in table.names else None
        x = table.xs[place or 0]
        xs.append(x)
        ys.append(np.full(len(x), np.nan) if place is None else table.ys[place])
    likelihoods = fitted.model.likelihoods
    return observations(fitted.outputs, xs, ys, likelihoods, sample_weight, exposure)


def given_outputs(
    fitted: Fitted, Y: Any, num_rows: int, exposures: Sequence[np.ndarray]
) -> list[Observed]:
    """The outputs of Y, in the units of the model."""
    columns = frames.as_columns(Y, fitted.classes_by_output)
    check_names(fitted, columns, partly=True)
    found = []
    for name, column in columns.items():
        d = fitted.outputs.index(name)
        likelihood, y = fitted.model.likelihoods[d], column.values
        if y.shape != (num_rows,):
            raise ValueError(
                f"output {name!r} must have one value per row of `X`, {num_rows}; "
                f"got {len(y)}."
            )
        check_support(name, y, likelihood)
        inside = fitted.scaling.output(d, y)
        functions = fitted.model.blocks[d]
        found.append(Observed(likelihood, functions, inside, np.log(exposures[d])))
    return found
