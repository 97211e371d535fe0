"""Observations as the bound sees them: blocks of rows shared by some outputs."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from motleygp.likelihoods import AbstractLikelihood


class Block(eqx.Module):
    """Rows of inputs, and the outputs that were all observed there.

    Outputs with the same rows share a block, and so share their projections; an
    output with inputs or missing values of its own has a block of its own.
    `total` is how many rows the block has in the full data.
    """

    x: Float[Array, "N P"]
    y: Float[Array, "D N"]
    outputs: tuple[int, ...] = eqx.field(static=True)
    total: int = eqx.field(static=True)

    @property
    def scale(self) -> float:
        """What a sum over these rows is multiplied by to stand for the full sum."""
        return self.total / self.x.shape[0]

    def take(self, rows: Int[Array, " B"]) -> "Block":
        """A minibatch: some of the rows, standing for all."""
        return Block(self.x[rows], self.y[:, rows], self.outputs, self.total)


Dataset = tuple[Block, ...]


def make_dataset(
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    *,
    names: Sequence[str] | None = None,
) -> Dataset:
    """Check one (x, y) pair per output, and gather the outputs that share rows.

    A row whose y is NaN is not observed: it is left out, for that output alone.
    """
    names = [f"y{d}" for d in range(len(ys))] if names is None else list(names)
    if not len(xs) == len(ys) == len(likelihoods) == len(names):
        raise ValueError(
            "there must be one x, one y, one likelihood and one name per output; got "
            f"{len(xs)}, {len(ys)}, {len(likelihoods)} and {len(names)}."
        )
    if not ys:
        raise ValueError("at least one output is needed; got none.")
    gathered: dict[int, tuple[np.ndarray, list[int], list[np.ndarray]]] = {}
    inputs: list[np.ndarray] = []
    for d, (name, likelihood) in enumerate(zip(names, likelihoods, strict=True)):
        x, y = checked_output(name, xs[d], ys[d], likelihood)
        if d and x.shape[1] != inputs[0].shape[1]:
            raise ValueError(
                f"`X` must have the same columns for every output; got "
                f"{inputs[0].shape[1]} for {names[0]!r} and {x.shape[1]} for {name!r}."
            )
        inputs.append(x)
        same = next((c for c in gathered if np.array_equal(inputs[c], x)), d)
        _, outputs, columns = gathered.setdefault(same, (x, [], []))
        outputs.append(d)
        columns.append(y)
    return tuple(
        Block(jnp.asarray(x), jnp.asarray(np.stack(columns)), tuple(outputs), len(x))
        for x, outputs, columns in gathered.values()
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
            x, y = block.x[rows], block.y[:, rows]
            parts.append(Block(x, y, block.outputs, len(rows)))
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
        raise ValueError(f"`{name}` must have shape (N, P); got {x.shape}.")
    if 0 in x.shape:
        raise ValueError(f"`{name}` must have rows and columns; got shape {x.shape}.")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"`{name}` must be finite; got {x[row, column]} in row {row}, "
            f"column {column}."
        )
    return x


def checked_output(
    name: str, x: np.ndarray, y: np.ndarray, likelihood: AbstractLikelihood
) -> tuple[np.ndarray, np.ndarray]:
    """The observed rows of one output, inside the support and not all equal."""
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
    seen = ~np.isnan(y)
    if not seen.any():
        raise ValueError(f"output {name!r} must have observed values; got none.")
    rows = np.flatnonzero(seen)
    outside = rows[~likelihood.in_support(y[rows])]
    if len(outside):
        raise ValueError(
            f"output {name!r} must be {likelihood.support} for the {likelihood.name} "
            f"likelihood; got {y[outside[0]]:g} in row {outside[0]}"
            f"{f' and {len(outside) - 1} more' if len(outside) > 1 else ''}."
        )
    if np.ptp(y[rows]) == 0:
        raise ValueError(
            f"output {name!r} must vary; every observed value is {y[rows[0]]:g}."
        )
    return x[rows], y[rows]
