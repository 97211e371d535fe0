"""Observations in the form that the bound takes: blocks of rows shared by outputs."""

import functools as ft
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from motleygp.inference.checks import (
    check_varies,
    checked_inputs,
    checked_values,
)
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.sharing import aligned, once_each, one_object

# An output shares a block if it has values in at least this share of the block's rows.
# With fewer, a minibatch of the block would hold too few of its values.
_LEAST_OBSERVED = 0.25


class Block(eqx.Module):
    """Rows of inputs, and the values of some outputs there.

    Outputs of one block share their projections. `total` is the number of rows of the
    block in the full data. `weight` multiplies the log likelihood of each value, by
    default 1: a value of weight 0 is missing, and its y only a place-holder.
    `log_exposure` is added to the log rate of counts.
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

    @property
    def num_values(self) -> int:
        """The number of observed values."""
        if self.weight is None:
            return self.y.size
        return int(np.count_nonzero(np.asarray(self.weight)))

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
    """One output in NumPy: its number, and its observed values; no exposure or weight
    is 1. `inputs` are those of all rows of its block, and `rows` tells which of them
    have a value; `None` stands for all."""

    output: int
    inputs: np.ndarray
    rows: np.ndarray | None
    y: np.ndarray
    exposure: np.ndarray | None
    weight: np.ndarray | None

    def x(self) -> np.ndarray:
        """The inputs of the values: a copy if some are missing."""
        return self.inputs if self.rows is None else self.inputs[self.rows]


def columns_of(data: Dataset) -> Iterator[Column]:
    """The observed values of each output, one output after the other."""
    for block in data:
        inputs = np.asarray(block.x)
        for place, d in enumerate(block.outputs):
            own = ft.partial(_row_of, place)
            weight = own(block.weight)
            rows = None if weight is None or weight.all() else weight > 0
            log_exposure = own(block.log_exposure, rows)
            exposure = None if log_exposure is None else np.exp(log_exposure)
            y, weight = own(block.y, rows), own(block.weight, rows)
            assert y is not None
            yield Column(d, inputs, rows, y, exposure, weight)


def _row_of(
    place: int, values: Array | None, some: np.ndarray | None = None
) -> np.ndarray | None:
    """Some values of one output."""
    if values is None:
        return None
    own = np.asarray(values)[place]
    return own if some is None else own[some]


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
    """Blocks of outputs with the same input object that have values in many of the same
    rows; an output without observed values is in no block."""
    seen = [~np.isnan(y) for y in ys]
    alike: dict[int, list[int]] = {}
    for d, x in enumerate(xs):
        if seen[d].any():
            alike.setdefault(id(x), []).append(d)
    return tuple(
        _block(outputs, xs, ys, seen, weights, exposures)
        for own in alike.values()
        for outputs in _sharing(own, seen)
    )


def _sharing(outputs: list[int], seen: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """Lists of outputs, each observed in enough of the rows that its list has in all;
    the outputs with the most values come first."""
    left = sorted(outputs, key=lambda d: -np.count_nonzero(seen[d]))
    while left:
        rows, taken = np.zeros_like(seen[left[0]]), []
        for d in left:
            union = rows | seen[d]
            least = _LEAST_OBSERVED * np.count_nonzero(union)
            if np.count_nonzero(seen[d]) >= least:
                rows, taken = union, [*taken, d]
        yield sorted(taken)
        left = [d for d in left if d not in taken]


def _block(
    outputs: list[int],
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    seen: Sequence[np.ndarray],
    weights: Sequence[np.ndarray] | None,
    exposures: Sequence[np.ndarray] | None,
) -> Block:
    """The rows in which any of these outputs was observed."""
    rows = np.any([seen[d] for d in outputs], axis=0)
    total = int(np.count_nonzero(rows))
    complete = all(np.count_nonzero(seen[d]) == total for d in outputs)
    kept = slice(None) if total == len(rows) else rows  # a slice makes no copy
    x, shape = xs[outputs[0]], (len(outputs), total)
    if total < len(rows):
        x = np.compress(rows, x, axis=0, out=aligned((total, x.shape[1])))
    y = aligned(shape)
    weight = None if complete and weights is None else aligned(shape)
    log_exposure = None if exposures is None else aligned(shape)
    for place, d in enumerate(outputs):
        observed = seen[d][kept]
        y[place] = ys[d][kept]
        y[place, ~observed] = y[place, observed.argmax()]
        if weight is not None:
            weight[place] = 1.0 if weights is None else weights[d][kept]
            weight[place, ~observed] = 0.0
        if exposures is not None and log_exposure is not None:
            log_exposure[place] = 0.0
            np.log(exposures[d][kept], where=observed, out=log_exposure[place])
    return Block(
        x=jax.device_put(x),
        y=jax.device_put(y),
        outputs=tuple(outputs),
        total=total,
        weight=None if weight is None else jax.device_put(weight),
        log_exposure=None if log_exposure is None else jax.device_put(log_exposure),
    )
