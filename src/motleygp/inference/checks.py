"""Checks of inputs and values; errors name the first entry that breaks a rule."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.sharing import as_floats
from motleygp.tables.rows import row_name

# Beyond these sizes, squares overflow or underflow.
_SMALLEST, _LARGEST = 1e-150, 1e150


def check_matrix(x: np.ndarray, *, name: str = "X") -> None:
    """Raise a `ValueError` unless x is a matrix with rows and columns."""
    if x.ndim != 2:
        raise ValueError(
            f"`{name}` must have shape (N, P); got {x.shape}. Reshape your data: "
            "X[:, None] turns a vector into a column, X[None] into a row."
        )
    for number, what in zip(x.shape, ("sample", "feature"), strict=True):
        if not number:
            raise ValueError(
                f"`{name}` must have rows and columns; got 0 {what}(s) "
                f"(shape={x.shape}) while a minimum of 1 is required."
            )


def checked_inputs(
    x: np.ndarray,
    *,
    name: str = "X",
    labels: pd.Index | None = None,
    features: Sequence[str] | None = None,
) -> np.ndarray:
    """`x` as a finite float matrix, or a `ValueError` that says what is wrong.

    `labels` and `features` are the users' names of the rows and columns.
    """
    x = as_floats(x, f"`{name}`")
    check_matrix(x, name=name)
    # Checked here: scikit-learn's message names neither the row nor the column.
    bad = np.argwhere(~(np.abs(x) <= _LARGEST))
    if len(bad):
        row, column = (int(place) for place in bad[0])
        value = x[row, column]
        if np.isfinite(value):
            rule, seen = f"at most {_LARGEST:g} in size", f"{value:g}"
        else:
            rule, seen = "finite", "NaN" if np.isnan(value) else f"{value:g}"
        place = column if features is None else repr(features[column])
        raise ValueError(
            f"`{name}` must be {rule}; got {seen} in {row_name(labels, row)}, "
            f"column {place}."
        )
    return x


def check_length(name: str, y: np.ndarray, num_rows: int) -> None:
    """Raise a `ValueError` unless an output has one value per row of its inputs."""
    if y.shape != (num_rows,):
        raise ValueError(
            f"output {name!r} must have shape ({num_rows},), one value per row of `X`; "
            f"got {y.shape}."
        )


def checked_values(
    name: str,
    y: np.ndarray,
    num_rows: int,
    likelihood: AbstractLikelihood,
    labels: pd.Index | None = None,
) -> np.ndarray:
    """The values of one output as floats, NaN where missing, inside the support."""
    y = as_floats(y, f"output {name!r}")
    check_length(name, y, num_rows)
    check_support(name, y, likelihood, labels)
    return y


def check_finite(name: str, y: np.ndarray, labels: pd.Index | None = None) -> None:
    """Raise a `ValueError` for an infinite value of an output."""
    infinite = np.flatnonzero(np.isinf(y))
    if len(infinite):
        row = int(infinite[0])
        raise ValueError(
            f"output {name!r} must be finite; got {y[row]} in {row_name(labels, row)}."
        )


def check_support(
    name: str,
    y: np.ndarray,
    likelihood: AbstractLikelihood,
    labels: pd.Index | None = None,
) -> None:
    """Raise a `ValueError` that names the first observed value outside the support, or
    too large to be squared."""
    rule = f"{likelihood.support} for the {likelihood.name} likelihood"
    outside = outside_support(y, likelihood)
    if not len(outside):
        rule = f"at most {_LARGEST:g} in size"
        outside = np.flatnonzero(np.abs(y) > _LARGEST)
    if len(outside):
        raise ValueError(
            f"output {name!r} must be {rule}; got {y[outside[0]]:g} in "
            f"{row_name(labels, int(outside[0]))}"
            f"{f' and {len(outside) - 1} more' if len(outside) > 1 else ''}."
        )


def outside_support(y: np.ndarray, likelihood: AbstractLikelihood) -> np.ndarray:
    """The rows of the observed values that are outside the support."""
    rows = np.flatnonzero(~np.isnan(y))
    return rows[~likelihood.in_support(y[rows])]


def check_varies(
    name: str,
    y: np.ndarray,
    likelihood: AbstractLikelihood,
    labels: pd.Index | None = None,
) -> None:
    """Raise a `ValueError` for an output whose observed values do not vary, vary too
    little for the likelihood, or are all too small to be squared."""
    known = y[~np.isnan(y)]
    if not len(known):
        raise ValueError(f"output {name!r} must have observed values; got none.")
    if len(known) == 1:
        raise ValueError(f"output {name!r} must vary; got 1 sample.")
    if np.ptp(known) == 0:
        raise ValueError(
            f"output {name!r} must vary; every observed value is {known[0]:g}."
        )
    row = int(np.nanargmax(np.abs(y)))
    if abs(y[row]) < _SMALLEST:
        raise ValueError(
            f"output {name!r} must have a value of at least {_SMALLEST:g} in size; "
            f"the largest is {y[row]:g} in {row_name(labels, row)}: use another unit."
        )
    finest, spread = likelihood.resolution(known), float(np.std(known))
    if spread < finest:
        raise ValueError(
            f"output {name!r} must have a standard deviation of at least {finest:.1g} "
            f"for the {likelihood.name} likelihood, or be gaussian; got {spread:.1g}."
        )
