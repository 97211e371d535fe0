"""Observations in the form that the bound takes: blocks of rows shared by outputs."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from motleygp.inference.checks import (
    check_varies,
    checked_inputs,
    checked_values,
)
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.sharing import once_each, one_object


class Block(eqx.Module):
    """Rows of inputs, and the outputs that were all observed there.

    Outputs with the same rows share a block, and so share their projections; an output
    with its own inputs or missing values has its own block. `total` is the number of
    rows of the block in the full data. `weight` multiplies the log likelihood of each
    value, by default 1; `log_exposure` is added to the log rate of counts.
    """

    x: Float[Array, "N P"]
    y: Float[Array, "D N"]
    outputs: tuple[int, ...] = eqx.field(static=True)
    total: int = eqx.field(static=True)
    weight: Float[Array, "D N"] | None = None
    log_exposure: Float[Array, "D N"] | None = None

    @property
    def scale(self) -> float:
        """The factor that makes a sum over these rows an estimate of the full sum."""
        return self.total / self.x.shape[0]

    def take(self, rows: Int[Array, " B"]) -> "Block":
        """A minibatch: some of the rows, which stand for all of them."""
        return self._some(rows, self.total)

    def part(self, rows: np.ndarray | slice) -> "Block":
        """Some of the rows, which stand only for themselves."""
        return self._some(rows, len(self.x[rows]))

    def _some(self, rows: Any, total: int) -> "Block":
        def own(values: Array | None) -> Array | None:
            return None if values is None else values[:, rows]

        weight, log_exposure = own(self.weight), own(self.log_exposure)
        x, y = self.x[rows], self.y[:, rows]
        return Block(x, y, self.outputs, total, weight, log_exposure)


Dataset = tuple[Block, ...]


class Column(NamedTuple):
    """One output in NumPy: its number, and its rows; no exposure or weight is 1."""

    output: int
    x: np.ndarray
    y: np.ndarray
    exposure: np.ndarray | None
    weight: np.ndarray | None


def columns_of(data: Dataset) -> Iterator[Column]:
    """The outputs of a dataset, one by one."""

    def own(values: Array | None, place: int) -> np.ndarray | None:
        return None if values is None else np.asarray(values[place])

    for block in data:
        x = np.asarray(block.x)
        for place, d in enumerate(block.outputs):
            log_exposure = own(block.log_exposure, place)
            exposure = None if log_exposure is None else np.exp(log_exposure)
            y, weight = np.asarray(block.y[place]), own(block.weight, place)
            yield Column(d, x, y, exposure, weight)


def make_dataset(
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    *,
    names: Sequence[str] | None = None,
    weights: Sequence[np.ndarray] | None = None,
    exposures: Sequence[np.ndarray] | None = None,
) -> Dataset:
    """Check one (x, y) pair per output, and gather the outputs that share rows.

    A row whose y is NaN is left out for that output only. `weights` and `exposures`
    have one vector per output, as long as its y.
    """
    names = [f"y{d}" for d in range(len(ys))] if names is None else list(names)
    xs, ys = checked_pairs(xs, ys, likelihoods, names)
    for name, y, likelihood in zip(names, ys, likelihoods, strict=True):
        check_varies(name, y, likelihood)
    return gather(xs, ys, weights=weights, exposures=exposures)


def checked_pairs(
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    names: Sequence[str],
    labels: Sequence[pd.Index | None] | None = None,
    features: Sequence[str] | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Checked inputs and values of each output; equal inputs become one object.

    `labels` and `features` are the users' names of the rows and input columns.
    """
    if not len(xs) == len(ys) == len(likelihoods) == len(names):
        raise ValueError(
            "`xs`, `ys`, `likelihoods` and `names` must have one entry per output; got "
            f"{len(xs)}, {len(ys)}, {len(likelihoods)} and {len(names)}."
        )
    if not ys:
        raise ValueError("`ys` must have at least one output; got none.")
    rows = [None] * len(xs) if labels is None else list(labels)
    own = {id(x): own for x, own in zip(xs, rows, strict=True)}

    def check(x: np.ndarray) -> np.ndarray:
        return checked_inputs(x, labels=own[id(x)], features=features)

    checked = one_object(once_each(check, xs))
    for name, x in zip(names, checked, strict=True):
        if x.shape[1] != checked[0].shape[1]:
            raise ValueError(
                f"`X` must have the same columns for every output; got "
                f"{checked[0].shape[1]} for {names[0]!r} and {x.shape[1]} for {name!r}."
            )
    values = [
        checked_values(name, y, len(x), likelihood, own)
        for name, x, y, likelihood, own in zip(
            names, checked, ys, likelihoods, rows, strict=True
        )
    ]
    return checked, values


def gather(
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    *,
    weights: Sequence[np.ndarray] | None = None,
    exposures: Sequence[np.ndarray] | None = None,
) -> Dataset:
    """Blocks of the outputs with the same input object and the same observed rows; an
    output without observed values is in no block."""
    seen = [~np.isnan(y) for y in ys]
    gathered: dict[tuple[int, bytes], list[int]] = {}
    for d, own in enumerate(seen):
        if own.any():
            gathered.setdefault((id(xs[d]), own.tobytes()), []).append(d)
    columns: dict[str, Sequence[np.ndarray]] = {"y": ys}
    if weights is not None:
        columns["weight"] = weights
    if exposures is not None:
        columns["log_exposure"] = [np.log(exposure) for exposure in exposures]
    blocks = []
    for outputs in gathered.values():
        rows = seen[outputs[0]]
        x = jnp.asarray(xs[outputs[0]][rows])
        stacked = {
            key: jnp.asarray(np.stack([column[d][rows] for d in outputs]))
            for key, column in columns.items()
        }
        blocks.append(Block(x=x, outputs=tuple(outputs), total=len(x), **stacked))
    return tuple(blocks)
