"""Section 4.1: "minibatches of 64 randomly sampled, contiguous sequences of 512 tokens".

The paper does not say how they are sampled. Here the text is one stream of tokens, whose windows
may cross the ends of documents. Window i is tokens[i * n_ctx : (i + 1) * n_ctx + 1]: n_ctx inputs
and the n_ctx targets one position later, so that neighbouring windows share one token. Every epoch
visits each window once, in its own random order. The batch of a step is a pure function of (seed,
step), so the step number is all the state that the input pipeline has.
"""

import dataclasses
import functools

import numpy as np

from gpt1_jax.errors import UserError

DTYPE = np.dtype('<u2')  # of stored tokens: little-endian on every machine


def window_numbers(
    stream: 'TokenStream',
    step: int,
    seed: int,
    batch_size: int,
    n_ctx: int,
    rows: slice = slice(None),
) -> np.ndarray:
    """The numbers of the windows in the batch of one step, int32[rows].

    step:       counts from 0.
    batch_size: rows of the global batch, over all hosts.
    rows:       the rows of the global batch to return. Each host asks for its rows.
    Epochs follow each other without a gap, so a batch may contain the end of an epoch and the
    beginning of the next. UserError if the stream is shorter than one window.
    """
    n_windows = stream.n_windows(n_ctx)
    if n_windows < 1:
        raise UserError(
            f'{stream.name}: {stream.n_tokens} tokens, one window of {n_ctx} needs {n_ctx + 1}'
        )
    positions = range(step * batch_size, (step + 1) * batch_size)[rows]
    places = (divmod(position, n_windows) for position in positions)
    return np.array(
        [permutation(seed, epoch, n_windows)[place] for epoch, place in places], np.int32
    )


@functools.lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """A random permutation of 0..n-1 for an epoch: int64[n], read-only.

    The numbers are sorted by a hash of (seed, epoch, number). The sequence of numpy's generator may
    change between versions, so it is not used.
    """
    # A stable sort by random keys is a random permutation, because keys of 64 bits are practically
    # never equal.
    key = _mix(_mix(np.array([seed % 2**64], np.uint64)) + np.array([epoch], np.uint64))
    order = np.argsort(_mix(key + np.arange(n, dtype=np.uint64)), kind='stable')
    order.flags.writeable = False
    return order


def _mix(x):
    """One step of SplitMix64 (Steele, Lea and Flood 2014), a bijective hash of uint64[...].

    Overflow wraps around.
    """
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclasses.dataclass(frozen=True, eq=False)
class TokenStream:
    """The tokens of a split, memory-mapped.

    shards:      uint16 arrays, in order.
    name:        for error messages.
    fingerprint: identifies the tokenizer and the contents of all shards of the prepared directory.
    """

    shards: tuple[np.ndarray, ...] = dataclasses.field(repr=False)
    name: str
    fingerprint: str

    @functools.cached_property
    def _starts(self):
        """int64[shards + 1]: the position of each shard's first token, and the stream's length."""
        return np.cumsum([0] + [len(shard) for shard in self.shards])

    @property
    def n_tokens(self) -> int:
        return int(self._starts[-1])

    def n_windows(self, n_ctx: int) -> int:
        """The number of whole windows. The tokens left at the end are not used."""
        return max(0, (self.n_tokens - 1) // n_ctx)

    def evenly_spaced(self, n: int, n_ctx: int) -> np.ndarray:
        """The numbers of n windows, from the first to the last, int[at most n].

        If there are fewer windows, the numbers of all.
        """
        available = self.n_windows(n_ctx)
        return np.unique(np.linspace(0, available - 1, min(n, available)).round().astype(int))

    def window(self, i: int, n_ctx: int) -> np.ndarray:
        """The tokens of window i, int32[n_ctx + 1], which may span shards. i is below n_windows."""
        start = int(i) * n_ctx
        first, last = np.searchsorted(self._starts, (start, start + n_ctx), side='right') - 1
        pieces = [
            self.shards[shard][max(0, start - begin) : start + n_ctx + 1 - begin]
            for shard, begin in enumerate(self._starts[first : last + 1], first)
        ]
        return np.concatenate(pieces, dtype=np.int32)

    def windows(self, numbers: np.ndarray, n_ctx: int) -> np.ndarray:
        """The tokens of the windows with these numbers, int32[n, n_ctx + 1]."""
        found = [self.window(i, n_ctx) for i in numbers]
        return np.array(found, np.int32).reshape(-1, n_ctx + 1)
