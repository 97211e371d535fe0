"""The inputs at which the parameter functions are evaluated."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from motleygp._types import SpanMoments


class Span(NamedTuple):
    """Rows `start:stop` of the sites, and the functions evaluated there."""

    start: int
    stop: int
    functions: tuple[int, ...]


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
        for start, stop, functions in self.spans:
            own = np.full(longest, start)
            own[: stop - start] = np.arange(start, stop)
            rows[list(functions)] = own
        return rows

    def split(
        self, mean: Float[Array, "J C"], var: Float[Array, "J C"]
    ) -> tuple[SpanMoments, ...]:
        """Split the moments of all functions at their `own_rows` by span."""
        return tuple(
            (
                pick(mean, span.functions)[:, : span.stop - span.start],
                pick(var, span.functions)[:, : span.stop - span.start],
            )
            for span in self.spans
        )


def everywhere(x: Float[Array, "N P"], num_functions: int) -> Sites:
    """All functions at all rows."""
    return Sites(x, (Span(0, x.shape[0], tuple(range(num_functions))),))


def join(parts: Sequence[tuple[Float[Array, "_ P"], tuple[int, ...]]]) -> Sites:
    """Sites from pairs of rows and the functions evaluated there."""
    ends = np.cumsum([0] + [x.shape[0] for x, _ in parts])
    spans = tuple(
        Span(int(ends[i]), int(ends[i + 1]), functions)
        for i, (_, functions) in enumerate(parts)
    )
    return Sites(jnp.concatenate([x for x, _ in parts]), spans)


def pick(array: Shaped[Array, "J ..."], functions: tuple[int, ...]) -> Array:
    """The rows of `array` for these functions.

    A slice if they are consecutive: it is cheaper than a gather, and its derivative
    even more so.
    """
    first, last = functions[0], functions[-1]
    if functions == tuple(range(first, last + 1)):
        return array[first : last + 1]
    return array[np.asarray(functions)]
