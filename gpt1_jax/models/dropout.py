"""Section 4.1, "residual, embedding, and attention dropouts with a rate of 0.1": the masks.

A mask is a pure function of the step: each element is a hash of (seed, step, layer, site), its row
(and head) and its place in that row. So a mask is the same on any mesh, under scan or unrolled,
with or without rematerialisation or microbatches, after any interruption, and in a kernel that
makes only its tile. An element costs a dozen integer operations and no memory, because XLA fuses
them.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# The sites of the released code (train.py 81, 128, 137, 165, 188). The numbers are part of the
# mask: never renumber.
EMBEDDING, ATTENTION, ATTENTION_OUT, MLP_OUT, CLASSIFIER = range(5)
LARGEST = 1 << 16  # rows or columns of a mask: each is indexed with 16 bits of the counter


class Key(NamedTuple):
    """Decides every mask of a forward pass. None in its place means evaluation, without dropout.

    seed, step: uint32 scalars. row: the global number of the batch's first row (a microbatch starts
    inside a batch).
    """

    seed: jax.Array
    step: jax.Array
    row: jax.Array | int = 0


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=('key', 'layer'), meta_fields=('site', 'rate')
)
@dataclasses.dataclass(frozen=True)
class Dropout:
    """The dropout of one site in one layer: `drop(x)` drops elements of x.

    Nothing is dropped if key is None or rate is 0.
    """

    key: Key | None
    layer: jax.Array | int = 0  # uint32
    site: int = EMBEDDING
    rate: float = 0.0

    def at(self, site: int, rate: float) -> 'Dropout':
        return dataclasses.replace(self, site=site, rate=rate if self.key is not None else 0.0)

    def __call__(self, x: jax.Array, offsets: Sequence[Any] | None = None) -> jax.Array:
        """Zeroes each element of x with probability `rate`, and divides the others by 1 - rate.

        x: [rows, ..., i, j]. Its first row is row `key.row` of the global batch, unless `offsets`
        gives the place at which x begins.
        """
        if self.key is None or self.rate == 0:
            return x
        mask = self.mask(x.shape, (self.key.row,) if offsets is None else offsets)
        return jnp.where(mask, x / (1 - self.rate), 0).astype(x.dtype)

    def of(self, a: jax.Array) -> 'Dropped':
        """dropout(a), to be computed together with the sum `x + drop.of(a)`."""
        return Dropped(a, self)

    def mask(self, shape: tuple[int, ...], offsets: Sequence[Any]) -> jax.Array:
        assert self.key is not None
        return keep_mask(
            (self.key.seed, self.key.step, self.layer, self.site), shape, self.rate, offsets
        )


NONE = Dropout(None)


@dataclasses.dataclass(frozen=True)
class Dropped:
    """dropout(a). Its sum with x is (x, a, dropout), which LayerNorm computes in one pass."""

    a: jax.Array
    drop: Dropout

    def __radd__(self, x: jax.Array) -> tuple[jax.Array, jax.Array, Dropout]:
        return x, self.a, self.drop


def keep_mask(
    words: Sequence[Any], shape: tuple[int, ...], rate: float, offsets: Sequence[Any] = ()
) -> jax.Array:
    """The keep mask, bool[shape]. Each element is true with probability 1 - rate (to 2^-32).

    words: uint32 scalars (seed, step, layer, site), Python ints or arrays, any number of them.
    shape: all dimensions but the last two (rows, heads) enter the hash one by one. A counter over
        the last two, i << 16 | j, restarts for each of them. So an element does not depend on the
        size of its row, and padding a sequence changes no mask. Each of the last two dimensions may
        hold at most 65,536.
    offsets: the start of the shape in each dimension of the global mask, by default 0.
    """
    offsets = tuple(offsets) + (0,) * (len(shape) - len(offsets))
    index = [
        along + jnp.asarray(offset, jnp.uint32)  # in the global mask, along each dimension
        for along, offset in zip(jnp.indices(shape, jnp.uint32, sparse=True), offsets)
    ]
    return keep_at(*fold((*words, *index[:-2])), index[-2], index[-1], rate)


# The first digits of pi: the state before any word.
START = 0x243F6A88, 0x85A308D3


def fold(words: Sequence[Any], state: tuple[Any, Any] = START) -> tuple[jax.Array, jax.Array]:
    """Folds all the words, in their order, into two uint32. A mask's counter is hashed with them.

    `fold((*x, *y))` is `fold(y, fold(x))`: a kernel folds the row and the head into the words that
    it gets.
    """
    a, b = (jnp.asarray(s, jnp.uint32) for s in state)
    for word in words:
        # Two hashes of the same words, 64 bits in all. With only 32 bits, some of a run's millions
        # of masks would be the same.
        word = jnp.asarray(word, jnp.uint32)
        a = mix(a ^ word)
        b = mix((b + jnp.uint32(0x9E3779B9)) ^ (word * jnp.uint32(0x85EBCA6B)))
    return a, b


def keep_at(a: jax.Array, b: jax.Array, i: jax.Array, j: jax.Array, rate: float) -> jax.Array:
    """The mask's elements in rows i and columns j, given (a, b), the mask's `fold`.

    i, j: uint32 below 65,536 that broadcast.
    """
    # `mix` of the counter (i << 16 | j) ^ a, with the second word, b, put in half-way. If both
    # words were added to the counter instead, two masks would be shifted copies of each other
    # whenever their words are close. A mask has more elements than rows, so all terms that depend
    # only on rows or words are combined first. The counter's x ^ (x >> 16) is row ^ j, since j has
    # 16 bits. The x ^ (x >> 15) of y ^ b is (y ^ (y >> 15)) ^ (b ^ (b >> 15)).
    row = (i ^ (i << 16)) ^ (a ^ (a >> 16))
    x = (row ^ j) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15) ^ (b ^ (b >> 15))) * jnp.uint32(0x846CA68B)
    # x is uniform over the uint32, so it is below rate * 2^32 with probability `rate`.
    return (x ^ (x >> 16)) >= jnp.uint32(min(round(rate * 2**32), 2**32 - 1))


def mix(x: jax.Array) -> jax.Array:
    """Hashes uint32 values by a bijection, "lowbias32".

    Each input bit flips each output bit about half of the time. The checkpoints' digests also use
    `mix` (runs/provenance.py): a change here changes every mask and makes every checkpoint
    unreadable.
    """
    # Multiplying by an odd constant is a bijection modulo 2^32, in which a bit changes only itself
    # and higher bits. The shifts carry changes of the high bits down to the low bits. Chris Wellons
    # searched for the shifts and constants with the least bias (github.com/skeeto/hash-prospector).
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
