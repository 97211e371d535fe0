"""Evaluation in chunks of rows, so that its memory does not grow with their number."""

import functools as ft
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

_CHUNK_ROWS = 2048


def chunks(total: int, rows: int = _CHUNK_ROWS) -> list[slice]:
    """Slices of equal size, except for the last, that cover all rows."""
    starts = range(0, total, rows)
    return [slice(start, min(start + rows, total)) for start in starts]


def some_places(total: int, most: int) -> np.ndarray:
    """The places of at most `most` of `total` rows, in order, always the same ones."""
    if total <= most:
        return np.arange(total)
    # At random, not at regular intervals: the rows may have a daily cycle.
    return np.sort(np.random.default_rng(0).choice(total, most, replace=False))


def in_chunks(
    fn: Callable[..., Array | np.ndarray],
    *arrays: np.ndarray,
    watch: Callable[[list[slice]], Iterable[slice]] = iter,
) -> np.ndarray:
    """Apply `fn` to the rows chunk by chunk and join; rows run along the last axis.

    The last chunk is padded with its first row, so that one program serves all chunks.
    `watch` iterates over the chunks and may show progress.
    """
    total = arrays[0].shape[-1]
    size = min(_CHUNK_ROWS, 1 << max(0, total - 1).bit_length())
    joined = None
    for rows in watch(chunks(total, size)):
        pieces = [a[..., rows] for a in arrays]
        length = pieces[0].shape[-1]
        fill = [np.repeat(p[..., :1], size - length, axis=-1) for p in pieces]
        whole = [np.concatenate(pair, -1) for pair in zip(pieces, fill, strict=True)]
        part = np.asarray(fn(*map(jnp.asarray, whole)))[..., :length]
        if joined is None:
            joined = np.empty((*part.shape[:-1], total), part.dtype)
        joined[..., rows] = part
    assert joined is not None
    return joined


def by_chunks(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of arrays whose last axis is rows, and of results that have rows, too,
    applied chunk by chunk. In NumPy, the last chunk may be smaller."""

    @ft.wraps(method)
    def whole(self: Any, *arrays: np.ndarray) -> Any:
        total = arrays[-1].shape[-1]
        if total <= _CHUNK_ROWS:
            return method(self, *arrays)
        parts = [
            method(self, *(a[..., rows] for a in arrays)) for rows in chunks(total)
        ]
        return jax.tree.map(lambda *p: np.concatenate(p, -1), *parts)

    return whole
