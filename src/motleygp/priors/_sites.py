"""The inputs at which the parameter functions are evaluated."""

import itertools as it
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from motleygp._types import SpanMoments

Blocks = tuple[tuple[int, ...], ...]


class Span(NamedTuple):
    """Rows `start:stop` of the sites, and the functions evaluated there, in blocks;
    the covariances within a block count."""

    start: int
    stop: int
    blocks: Blocks

    @property
    def functions(self) -> tuple[int, ...]:
        """The functions of all blocks."""
        return tuple(j for block in self.blocks for j in block)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of functions within a block."""
        return pairs_within(self.blocks)


class Sites(eqx.Module):
    """Rows of inputs, in spans; each function is evaluated at the rows of one span.

    A prior whose functions share projections computes them once, at every row; a prior
    whose functions have their own projections computes each at its own rows only.
    """

    x: Float[Array, "N P"]
    spans: tuple[Span, ...] = eqx.field(static=True)

    def own_rows(self, num_functions: int) -> Int[np.ndarray, "J C"]:
        """The rows of each function, padded with the first to the longest span."""
        longest = max(span.stop - span.start for span in self.spans)
        rows = np.zeros((num_functions, longest), dtype=int)
        for span in self.spans:
            own = np.full(longest, span.start)
            own[: span.stop - span.start] = np.arange(span.start, span.stop)
            rows[list(span.functions)] = own
        return rows

    def split(
        self, mean: Float[Array, "J C"], var: Float[Array, "V C"]
    ) -> tuple[SpanMoments, ...]:
        """Split the moments of all functions at their `own_rows` by span: the means,
        and the variances, with the covariances of the `pairs` if there are any."""
        parts, done = [], len(mean)
        for span in self.spans:
            size, num_pairs = span.stop - span.start, 0
            own = pick(var, span.functions)[:, :size]
            if len(var) > len(mean):
                num_pairs = len(span.pairs)
                pairs = var[done : done + num_pairs, :size]
                own = jnp.concatenate([own, pairs])
            parts.append((pick(mean, span.functions)[:, :size], own))
            done += num_pairs
        return tuple(parts)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of all spans."""
        return [pair for span in self.spans for pair in span.pairs]


def everywhere(x: Float[Array, "N P"], num_functions: int) -> Sites:
    """All functions at all rows, each by itself."""
    return join([(x, apart(range(num_functions)))])


def apart(functions: Iterable[int]) -> Blocks:
    """Each function in a block by itself: their covariances do not count."""
    return tuple((j,) for j in functions)


def join(parts: Sequence[tuple[Float[Array, "_ P"], Blocks]]) -> Sites:
    """Sites from pairs of rows and the functions evaluated there."""
    ends = np.cumsum([0] + [x.shape[0] for x, _ in parts])
    spans = tuple(
        Span(int(ends[i]), int(ends[i + 1]), blocks)
        for i, (_, blocks) in enumerate(parts)
    )
    return Sites(jnp.concatenate([x for x, _ in parts]), spans)


def pairs_within(blocks: Blocks) -> list[tuple[int, int]]:
    """The pairs of functions in the same block, block by block."""
    return [pair for block in blocks for pair in it.combinations(block, 2)]


def pick(array: Shaped[Array, "J ..."], functions: tuple[int, ...]) -> Array:
    """The rows of `array` for these functions.

    A slice if they are consecutive: it is cheaper than a gather, and its derivative
    even more so.
    """
    first, last = functions[0], functions[-1]
    if functions == tuple(range(first, last + 1)):
        return array[first : last + 1]
    return array[np.asarray(functions)]
