"""Padded lengths and batches for scoring.

Chooses the sequences that share a prefix, and the sequences that are padded to the same shape. Each
shape is a program to compile, so there should be few shapes, with little padding.
"""

import collections
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpt1_jax.data.batches import cheapest_cuts

MAX_GROUP = 8  # sequences that share one prefix (each has a copy of its KV cache)
MAX_BUCKETS = 4  # shapes that the groups of the same number of sequences are padded to


class Shape(NamedTuple):
    """The sizes that a group is padded to."""

    K: int  # sequences
    P: int  # tokens of the common prefix, read once, or 0 for none
    S: int  # tokens per sequence after the prefix
    T: int  # scored tokens per sequence

    @property
    def tokens(self) -> int:
        """How many tokens the model reads."""
        return self.P + self.K * self.S


class Group(NamedTuple):
    """Sequences that share one forward pass over their common prefix."""

    shape: Shape
    shared: int  # length of the common prefix, without padding
    members: list[int]  # indices of the sequences


def padded(length: int, n_ctx: int, least: int = 16) -> int:
    """The length that a sequence is padded to: 16, 32, 64, 96, 144, ... up to n_ctx.

    least: the smallest of these lengths, a power of two up to 16.
    """
    # Lengths are powers of two up to 64, then grow by a half, rounded to a multiple of 16. So there
    # are few lengths, and of a sequence above 8 tokens less than half is padding, or less than a
    # third above 64 tokens.
    size = least
    while size < min(length, n_ctx):
        size = size * 2 if size < 64 else size + size // 2 // 16 * 16
    return min(size, n_ctx)


def batch_size(tokens_per_batch: int, length: int, mesh: jax.sharding.Mesh) -> int:
    """How many sequences of this length to compute at once.

    At least one, rounded up to a multiple of the devices.
    """
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    rows = max(1, tokens_per_batch // length)
    return -(-rows // devices) * devices


def in_batches(compute: Callable[..., Any], size: int, *arrays: np.ndarray) -> np.ndarray:
    """compute(*arrays) in batches of `size` rows. The last batch is filled up with zeros."""
    found = []
    for first in range(0, len(arrays[0]), size):
        parts = [array[first : first + size] for array in arrays]
        missing = size - len(parts[0])
        filled = [np.pad(part, ((0, missing), *[(0, 0)] * (part.ndim - 1))) for part in parts]
        found.append(np.asarray(compute(*filled))[: size - missing])
    return np.concatenate(found)


def grouped(sequences: Sequence[tuple[list[int], int]], n_ctx: int) -> list[Group]:
    """Partitions sequences (ids, n), whose last n ids are scored, into Groups.

    The Groups are chosen so that few tokens are read in all.
    """
    order = sorted(range(len(sequences)), key=lambda i: sequences[i][0])
    common = [0]  # common[i]: length of the common prefix of sequences order[i - 1] and order[i]
    for i, j in itertools.pairwise(order):
        common.append(len(os.path.commonprefix([sequences[i][0], sequences[j][0]])))

    # Sorted by their tokens, sequences with a common prefix are neighbours. Dynamic programming
    # over the prefixes of this order cuts it into groups of at most MAX_GROUP neighbours with the
    # fewest tokens read, padding included:
    #     cost[0] = 0,   cost[end] = min over start of cost[start] + tokens(order[start:end])
    # A group grows to the left by one sequence in constant time, so this takes O(len(sequences) *
    # MAX_GROUP).
    best: list[tuple[int, Any]] = [(0, None)]  # best[end]: (cost[end], the last Group)
    for end in range(1, len(order) + 1):
        options = []
        shared = n_ctx
        longest = 0
        scored = 0
        for start in range(end - 1, max(end - MAX_GROUP, 0) - 1, -1):
            ids, n = sequences[order[start]]
            # Every sequence itself reads the token before its first scored token, which predicts
            # it.
            shared = min(shared, len(ids) - 1 - n)
            longest = max(longest, len(ids) - 1)
            scored = max(scored, n)
            prefix = shared if start < end - 1 else 0  # a single sequence shares nothing
            shape = Shape(
                K=power_of_two(end - start),
                P=padded(prefix, n_ctx, 1) if prefix else 0,
                S=padded(longest - prefix, n_ctx, 1),
                T=padded(scored, n_ctx, 1),
            )
            options.append((best[start][0] + shape.tokens, Group(shape, prefix, order[start:end])))
            shared = min(shared, common[start])  # with order[start - 1], which would join next
            if shared == 0:
                break
        best.append(min(options, key=lambda option: option[0]))

    groups: list[Group] = []
    end = len(order)
    while end > 0:  # back from the end, where each best[end] names the last group of the best cut
        group = best[end][1]
        groups.append(group)
        end -= len(group.members)
    return groups


def batches(
    groups: Sequence[Group], tokens_per_batch: int, mesh: jax.sharding.Mesh
) -> Iterator[tuple[int, Shape, list[Group]]]:
    """Yields (G, Shape, groups) of each batch.

    The groups are padded to this Shape, and their number to G. Compiling for a (G, Shape) mostly
    takes longer than the padding that it saves. So groups of the same number of sequences have at
    most MAX_BUCKETS shapes, and no more shapes than they fill batches. G is the size of a full
    batch, or a power of two.
    """
    for K in sorted({group.shape.K for group in groups}):
        same = [group for group in groups if group.shape.K == K]
        full_batches = sum(group.shape.tokens for group in same) // tokens_per_batch
        for shape, bucket in buckets(same, min(MAX_BUCKETS, max(1, full_batches))):
            most = batch_size(tokens_per_batch, shape.tokens, mesh)
            for first in range(0, len(bucket), most):
                batch = bucket[first : first + most]
                yield batch_size(min(most, power_of_two(len(batch))), 1, mesh), shape, batch


def buckets(groups: Sequence[Group], n: int) -> list[tuple[Shape, list[Group]]]:
    """Partitions groups of the same number of sequences into at most n buckets.

    Each bucket is padded to its Shape, the largest of each size. The buckets are chosen so that few
    tokens are read.
    """
    groups = sorted(groups)
    numbers = collections.Counter(group.shape for group in groups)
    shapes = list(numbers)  # ascending, and a bucket has consecutive shapes
    below = np.cumsum([0, *numbers.values()])
    costs = np.zeros((len(shapes), len(below)), int)
    for i in range(len(shapes)):
        # For the runs that begin with shapes[i]
        largest = Shape(*np.maximum.accumulate(shapes[i:]).T)
        costs[i, i + 1 :] = largest.tokens * (below[i + 1 :] - below[i])
    ends = [0, *below[list(cheapest_cuts(costs, n))].tolist()]
    runs = [groups[first:last] for first, last in itertools.pairwise(ends)]
    return [(Shape(*map(max, zip(*(group.shape for group in run)))), run) for run in runs]


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
