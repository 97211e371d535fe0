"""Observations as the bound sees them: blocks of rows shared by some outputs."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from motleygp.likelihoods import AbstractLikelihood


class Block(eqx.Module):
    """Rows of inputs, and the outputs that were all observed there.

    Outputs with the same rows share a block, and so share their projections; an
    output with inputs or missing values of its own has a block of its own.
    `total` is how many rows the block has in the full data. `weight` says how often
    each value counts, once by default; `log_exposure` is added to the log rate of
    outputs that count over periods of their own.
    """

    x: Float[Array, "N P"]
    y: Float[Array, "D N"]
    outputs: tuple[int, ...] = eqx.field(static=True)
    total: int = eqx.field(static=True)
    weight: Float[Array, "D N"] | None = None
    log_exposure: Float[Array, "D N"] | None = None

    @property
    def scale(self) -> float:
        """What a sum over these rows is multiplied by to stand for the full sum."""
        return self.total / self.x.shape[0]

    def take(self, rows: Int[Array, " B"]) -> "Block":
        """A minibatch: some of the rows, standing for all."""
        return self._some(rows, self.total)

    def part(self, rows: np.ndarray | slice) -> "Block":
        """Some of the rows, standing for themselves alone."""
        return self._some(rows, len(self.x[rows]))

    def _some(self, rows: Any, total: int) -> "Block":
        def own(values: Array | None) -> Array | None:
            return None if values is None else values[:, rows]

        weight, log_exposure = own(self.weight), own(self.log_exposure)
        x, y = self.x[rows], self.y[:, rows]
        return Block(x, y, self.outputs, total, weight, log_exposure)


Dataset = tuple[Block, ...]


def make_dataset(
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    *,
    names: Sequence[str] | None = None,
    weights: Sequence[np.ndarray] | None = None,
    exposures: Sequence[np.ndarray] | None = None,
    complete: bool = True,
) -> Dataset:
    """Check one (x, y) pair per output, and gather the outputs that share rows.

    A row whose y is NaN is not observed: it is left out, for that output alone.
    `weights` and `exposures` have one vector per output, as long as its y. Outputs must
    have values, which vary, unless the data need not be `complete`.
    """
    names = [f"y{d}" for d in range(len(ys))] if names is None else list(names)
    if not len(xs) == len(ys) == len(likelihoods) == len(names):
        raise ValueError(
            "there must be one x, one y, one likelihood and one name per output; got "
            f"{len(xs)}, {len(ys)}, {len(likelihoods)} and {len(names)}."
        )
    if not ys:
        raise ValueError("at least one output is needed; got none.")
    gathered: dict[int, list[int]] = {}
    inputs: list[np.ndarray] = []
    columns: list[dict[str, np.ndarray]] = []
    for d, (name, likelihood) in enumerate(zip(names, likelihoods, strict=True)):
        rows, x, y = observed(name, xs[d], ys[d], likelihood)
        if complete:
            check_varies(name, y)
        if d and x.shape[1] != inputs[0].shape[1]:
            raise ValueError(
                f"`X` must have the same columns for every output; got "
                f"{inputs[0].shape[1]} for {names[0]!r} and {x.shape[1]} for {name!r}."
            )
        inputs.append(x)
        same = next((c for c in gathered if np.array_equal(inputs[c], x)), d)
        if len(y):
            gathered.setdefault(same, []).append(d)
        columns.append({"y": y})
        if weights is not None:
            columns[d]["weight"] = weights[d][rows]
        if exposures is not None:
            columns[d]["log_exposure"] = np.log(exposures[d][rows])
    return tuple(
        Block(
            x=jnp.asarray(inputs[first]),
            outputs=tuple(outputs),
            total=len(inputs[first]),
            **{
                key: jnp.asarray(np.stack([columns[d][key] for d in outputs]))
                for key in columns[0]
            },
        )
        for first, outputs in gathered.items()
    )


def hold_out(
    rng: np.random.Generator, data: Dataset, fraction: float
) -> tuple[Dataset, Dataset]:
    """The data in two: what is left, and a random `fraction` of each block's rows."""
    left, held = [], []
    for block in data:
        order = rng.permutation(block.total)
        cut = min(max(1, round(fraction * block.total)), block.total - 1)
        for parts, rows in ((held, order[:cut]), (left, np.sort(order[cut:]))):
            parts.append(block.part(rows))
    return tuple(left), tuple(held)


def checked_inputs(x: np.ndarray, *, name: str = "X") -> np.ndarray:
    """`x` as a float matrix without gaps, or a `ValueError` that says what is wrong."""
    try:
        x = np.asarray(x, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must hold numbers; got {type(x).__name__}."
        ) from None
    if x.ndim != 2:
        raise ValueError(
            f"`{name}` must have shape (N, P); got {x.shape}. Reshape your data: "
            "X[:, None] makes a column of a vector, X[None] a row."
        )
    for number, what in zip(x.shape, ("sample", "feature"), strict=True):
        if not number:
            raise ValueError(
                f"`{name}` must have rows and columns; got 0 {what}(s) "
                f"(shape={x.shape}) while a minimum of 1 is required."
            )
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        value = "NaN" if np.isnan(x[row, column]) else x[row, column]
        raise ValueError(
            f"`{name}` must be finite; got {value} in row {row}, column {column}."
        )
    return x


def observed(
    name: str, x: np.ndarray, y: np.ndarray, likelihood: AbstractLikelihood
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The observed rows of one output, inside the support: their numbers, x and y."""
    x = checked_inputs(x)
    try:
        y = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"output {name!r} must hold numbers.") from None
    if y.shape != x.shape[:1]:
        raise ValueError(
            f"output {name!r} must have shape ({len(x)},), one value per row of `X`; "
            f"got {y.shape}."
        )
    rows = np.flatnonzero(~np.isnan(y))
    check_support(name, y, rows, likelihood)
    return rows, x[rows], y[rows]


def check_support(
    name: str, y: np.ndarray, rows: np.ndarray, likelihood: AbstractLikelihood
) -> None:
    """A `ValueError` that names the first of these rows that cannot occur."""
    outside = rows[~likelihood.in_support(y[rows])]
    if len(outside):
        raise ValueError(
            f"output {name!r} must be {likelihood.support} for the {likelihood.name} "
            f"likelihood; got {y[outside[0]]:g} in row {outside[0]}"
            f"{f' and {len(outside) - 1} more' if len(outside) > 1 else ''}."
        )


def check_varies(name: str, y: np.ndarray) -> None:
    """The observed values of an output, of which a model can learn something."""
    if not len(y):
        raise ValueError(f"output {name!r} must have observed values; got none.")
    if len(y) == 1:
        raise ValueError(f"output {name!r} must vary; got 1 sample.")
    if np.ptp(y) == 0:
        raise ValueError(
            f"output {name!r} must vary; every observed value is {y[0]:g}."
        )
