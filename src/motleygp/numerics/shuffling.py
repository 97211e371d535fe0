"""A shuffled order of any number of rows, entry by entry and without a table of it.

A Feistel network takes the bits of a place as two halves, and in turn adds a function
of one half to the other, L -> L xor F(R) and R -> R xor G(L): each is its own inverse,
so together they are a permutation for any F and G. It permutes a power of 2 of places;
one that lands beyond the rows goes on from there until it is inside, which permutes the
rows.
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
    bits = max(2, (total - 1).bit_length())
    keys = jr.bits(key, (_ROUNDS,), jnp.uint32)

    def permuted(place: UInt32[Array, " B"]) -> UInt32[Array, " B"]:
        sizes = bits // 2, bits - bits // 2
        halves = place >> sizes[1], place & jnp.uint32((1 << sizes[1]) - 1)
        # Written out: as a loop, the rounds would be a hundred programs a step.
        for number in range(_ROUNDS):
            (half, other), size = halves, sizes[number % 2]
            moved = half ^ (_hashed(other, keys[number]) >> (32 - size))
            halves = other, moved
        return (halves[0] << sizes[1]) | halves[1]

    def move(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        row, going = carry
        row = jnp.where(going, permuted(row), row)
        return row, row.astype(jnp.uint64) >= total

    # The first move of all places is in the loop too, so that the program has one.
    start = places.astype(jnp.uint32), jnp.ones(places.shape, bool)
    rows, _ = jax.lax.while_loop(lambda carry: jnp.any(carry[1]), move, start)
    return rows.astype(places.dtype)


def _hashed(value: UInt32[Array, " B"], key: UInt32[Array, ""]) -> UInt32[Array, " B"]:
    """32 bits that depend on all bits of both; the highest are the best mixed."""
    for factor in _FACTORS:
        value = (value ^ key) * jnp.uint32(factor)
        value = value ^ (value >> 15)
    return value
