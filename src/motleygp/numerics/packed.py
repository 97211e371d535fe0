"""Second moments of a few Gaussians, packed along the first axis.

The rows are the variances v_1..v_L and then, unless the Gaussians are independent, the
covariances of the pairs (1, 2), (1, 3), ..., (2, 3), ...: L rows, or L (L + 1) / 2.
"""

import itertools as it
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from motleygp.numerics.library import library_of

# A variance below this is rounding error; the floor keeps d sqrt(v)/dv finite.
TINY_VARIANCE = 1e-18
# The same for a conditional variance, which is a difference: relative to the variance.
_ROUNDING = 1e-14


def pairs_of(size: int) -> list[tuple[int, int]]:
    """The pairs among so many, in the order of their covariances."""
    return list(it.combinations(range(size), 2))


def entries(
    size: int, pairs: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Where the packed entries of a matrix stand: the diagonal, then the pairs."""
    first, second = np.array([*((a, a) for a in range(size)), *pairs]).T
    return first, second


def num_packed(size: int) -> int:
    """The number of rows of correlated Gaussians."""
    return size * (size + 1) // 2


def rows_of_blocks(sizes: Sequence[int], num_rows: int) -> list[np.ndarray]:
    """The rows of each block, among the variances of all blocks and the covariances
    within each: those of Gaussians that are independent, or not, by `num_rows`."""
    first, next_pair = 0, sum(sizes)
    correlated = num_rows > next_pair
    found = []
    for size in sizes:
        num_pairs = len(pairs_of(size)) if correlated else 0
        pairs = np.arange(next_pair, next_pair + num_pairs)
        found.append(np.concatenate([np.arange(first, first + size), pairs]))
        first, next_pair = first + size, next_pair + num_pairs
    return found


def covariance(var: Any, size: int, a: int, b: int) -> Any:
    """The covariance of Gaussians a and b, or the variance if a = b."""
    if a == b:
        return var[a]
    if len(var) == size:
        return 0.0 * var[a]
    return var[size + pairs_of(size).index((min(a, b), max(a, b)))]


def unpacked(var: Any, size: int) -> Any:
    """The covariance matrices, along the first two axes."""
    library = library_of(var)
    each = range(size)
    return library.stack(
        [library.stack([covariance(var, size, a, b) for b in each]) for a in each]
    )


def packed(cov: Any) -> Any:
    """The rows of covariance matrices, given along the first two axes."""
    return cov[entries(len(cov), pairs_of(len(cov)))]


def sqrt_above(x: Any, floor: Any) -> Any:
    """The square root of max(x, floor), with the derivative as if x were not below."""
    if isinstance(x, np.ndarray):
        return np.sqrt(np.maximum(x, floor))
    return jnp.sqrt(x + jax.lax.stop_gradient(jnp.maximum(x, floor) - x))


def colour(
    var: Float[np.ndarray, "V *N"], z: Float[np.ndarray, "L K"]
) -> Float[np.ndarray, "L *N K"]:
    """C z, with C the lower Cholesky factors and z white noise, in NumPy."""
    rows = factor(var, len(z))
    return np.stack(
        [
            sum(np.multiply.outer(entry, z[k]) for k, entry in row.items())
            for row in rows
        ]
    )


def factor(var: Any, size: int) -> list[dict[int, Any]]:
    """The lower Cholesky factors: the entries of each row that are not 0, by column."""
    lower: list[dict[int, Any]] = []
    for a in range(size):
        row: dict[int, Any] = {}
        rest = var[a]
        for b in range(a if len(var) > size else 0):
            entry = covariance(var, size, a, b)
            for k in range(b):
                entry = entry - row[k] * lower[b][k]
            row[b] = entry / lower[b][b]
            rest = rest - row[b] ** 2
        floor = _ROUNDING * var[a] + TINY_VARIANCE
        lower.append({**row, a: sqrt_above(rest, floor)})
    return lower
