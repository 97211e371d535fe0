"""A shuffled order of any number of rows, entry by entry and without a table of it.

A Feistel network, (L, R) -> (R, L xor F(R)) on the two halves of the bits of a place,
is a permutation for any F. It permutes a power of 4 of places; one that lands beyond
the rows goes on from there until it is inside, which permutes the rows.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, UInt32

from motleygp._types import RandomKey

_ROUNDS = 8
_MOST_ROWS = 2**32
# Odd multipliers whose bits look random, as in other hash functions of 32 bits.
_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)


def shuffled(key: RandomKey, places: Int[Array, " B"], total: int) -> Int[Array, " B"]:
    """The rows, among so many, at these places of the order that belongs to the key."""
    if total > _MOST_ROWS:
        raise ValueError(f"`total` must be at most {_MOST_ROWS} rows; got {total}.")
    half = max(1, ((total - 1).bit_length() + 1) // 2)
    keys = jr.bits(key, (_ROUNDS,), jnp.uint32)

    def permuted(place: UInt32[Array, " B"]) -> UInt32[Array, " B"]:
        def one_round(i: Array, sides: tuple[Array, Array]) -> tuple[Array, Array]:
            left, right = sides
            return right, left ^ (_hashed(right, keys[i]) >> (32 - half))

        sides = place >> half, place & jnp.uint32((1 << half) - 1)
        left, right = jax.lax.fori_loop(0, _ROUNDS, one_round, sides)
        return (left << half) | right

    def outside(row: Array) -> Array:
        return row.astype(jnp.uint64) >= total

    rows = jax.lax.while_loop(
        lambda row: jnp.any(outside(row)),
        lambda row: jnp.where(outside(row), permuted(row), row),
        permuted(places.astype(jnp.uint32)),
    )
    return rows.astype(places.dtype)


def _hashed(value: UInt32[Array, " B"], key: UInt32[Array, ""]) -> UInt32[Array, " B"]:
    """32 bits that depend on all bits of both; the highest are the best mixed."""
    for factor in _FACTORS:
        value = (value ^ key) * jnp.uint32(factor)
        value = value ^ (value >> 15)
    return value
