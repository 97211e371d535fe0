"""Checks of inputs and values; errors name the first entry that breaks a rule."""

import numpy as np

from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.sharing import as_floats


def checked_inputs(x: np.ndarray, *, name: str = "X") -> np.ndarray:
    """`x` as a finite float matrix, or a `ValueError` that says what is wrong."""
    x = as_floats(x, f"`{name}`")
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
    # Checked here: scikit-learn's message names neither the row nor the column.
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        value = "NaN" if np.isnan(x[row, column]) else x[row, column]
        raise ValueError(
            f"`{name}` must be finite; got {value} in row {row}, column {column}."
        )
    return x


def checked_values(
    name: str, y: np.ndarray, num_rows: int, likelihood: AbstractLikelihood
) -> np.ndarray:
    """The values of one output as floats, NaN where missing, inside the support."""
    y = as_floats(y, f"output {name!r}")
    if y.shape != (num_rows,):
        raise ValueError(
            f"output {name!r} must have shape ({num_rows},), one value per row of `X`; "
            f"got {y.shape}."
        )
    check_support(name, y, likelihood)
    return y


def check_support(name: str, y: np.ndarray, likelihood: AbstractLikelihood) -> None:
    """Raise a `ValueError` that names the first observed value outside the support."""
    rows = np.flatnonzero(~np.isnan(y))
    outside = rows[~likelihood.in_support(y[rows])]
    if len(outside):
        raise ValueError(
            f"output {name!r} must be {likelihood.support} for the {likelihood.name} "
            f"likelihood; got {y[outside[0]]:g} in row {outside[0]}"
            f"{f' and {len(outside) - 1} more' if len(outside) > 1 else ''}."
        )


def check_varies(name: str, y: np.ndarray) -> None:
    """Raise a `ValueError` for an output whose observed values do not vary."""
    known = y[~np.isnan(y)]
    if not len(known):
        raise ValueError(f"output {name!r} must have observed values; got none.")
    if len(known) == 1:
        raise ValueError(f"output {name!r} must vary; got 1 sample.")
    if np.ptp(known) == 0:
        raise ValueError(
            f"output {name!r} must vary; every observed value is {known[0]:g}."
        )
