"""Sections 4.1 and 5: log-probabilities of given tokens under a pretrained model.

Sequences with a common prefix, such as the answers to a question, share one forward pass over the
prefix (a KV cache). Logits are computed only at scored positions. Sequences of similar length are
batched together (padding.py).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gpt1_jax.evaluation import padding
from gpt1_jax.evaluation.padding import Group, Shape
from gpt1_jax.models import kv_cache
from gpt1_jax.models.build import precision
from gpt1_jax.parallel import sharding
from gpt1_jax.training import compiling


def last_tokens(
    model: Any,
    params: Any,
    mesh: Mesh,
    sequences: Sequence[tuple[list[int], int]],
    tokens_per_batch: int = 4096,
    progress: Callable = iter,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores the last n tokens of each sequence: (float64[N], bool[N]).

    The first array has their log-probability in nats. The second is True if greedy decoding would
    produce these tokens. The softmax is over the vocabulary, without special tokens and positions.

    sequences: list of (ids, n), 1 <= n < len(ids) <= n_ctx + 1, in any order. The last id is only a
        target. Equal sequences are scored once and tie exactly: in batches of different shapes
        their sums would differ by rounding.
    progress: wraps the list of batches, such as tqdm.
    """
    sequences, places = distinct(sequences)
    sums = np.zeros(len(sequences))
    greedy = np.zeros(len(sequences), bool)
    groups = padding.grouped(sequences, model.config.n_ctx)
    for G, shape, batch in progress(list(padding.batches(groups, tokens_per_batch, mesh))):
        arrays = _arrays(sequences, G, shape, batch)
        logs, best = map(np.asarray, of_groups(model, mesh)(params, *arrays))
        for g, group in enumerate(batch):
            for k, i in enumerate(group.members):
                n = sequences[i][1]
                sums[i] = logs[g, k, :n].sum(dtype=np.float64)
                greedy[i] = best[g, k, :n].all()
    return sums[places], greedy[places]


def _arrays(sequences, G: int, shape: Shape, batch: Sequence[Group]) -> tuple[np.ndarray, ...]:
    """The arguments of `of_groups` after params, for the groups of a batch.

    They are padded with zeros to G groups of this Shape.
    """
    K, P, S, T = shape
    prefixes = np.zeros((G, P), np.int32)
    known = np.zeros(G, np.int32)
    rests = np.zeros((G, K, S), np.int32)
    first = np.zeros((G, K), np.int32)
    targets = np.zeros((G, K, T), np.int32)
    for g, group in enumerate(batch):
        known[g] = group.shared
        for k, i in enumerate(group.members):
            ids, n = sequences[i]
            rest = ids[group.shared : -1]
            prefixes[g, : group.shared] = ids[: group.shared]
            rests[g, k, : len(rest)] = rest
            first[g, k] = len(rest) - n
            targets[g, k, :n] = ids[-n:]
    return prefixes, known, rests, first, targets


def by_token(
    model: Any,
    params: Any,
    mesh: Mesh,
    ids: np.ndarray,
    stride: int | None = None,
    tokens_per_batch: int = 4096,
) -> np.ndarray:
    """The log-probability in nats of each token of a text after the first: float64[n - 1].

    ids: int[n], n >= 2. A window of n_ctx tokens and their targets starts every `stride` tokens, by
    default every n_ctx. Each target is scored in the first window that holds it, after at least
    n_ctx - stride + 1 tokens if that window is a later one.
    """
    n_ctx = model.config.n_ctx
    stride = stride or n_ctx
    last = len(ids) - 1
    length = padding.padded(last, n_ctx)
    size = padding.batch_size(tokens_per_batch, length, mesh)
    starts = np.arange(1 + -(-max(0, last - n_ctx) // stride)) * stride
    padded = np.zeros(starts[-1] + length + 1, np.int32)
    padded[: len(ids)] = ids
    windows = np.lib.stride_tricks.sliding_window_view(padded, length + 1)[starts]

    def score(rows):  # each row is a group of one sequence, without a prefix
        nothing = np.zeros(size, np.int32)
        logs, _ = of_groups(model, mesh)(
            params, rows[:, :0], nothing, rows[:, None, :-1], nothing[:, None], rows[:, None, 1:]
        )
        return logs[:, 0]

    logs = padding.in_batches(score, size, windows)
    found = np.zeros(last)
    for row, start in zip(logs, starts):
        end = min(n_ctx, last - start)
        new = n_ctx - stride if start else 0  # earlier targets belong to the previous window
        found[start + new : start + end] = row[new:end]
    return found


@functools.lru_cache
def of_groups(model: Any, mesh: Mesh) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Returns a jitted function that scores groups of sequences.

        (params, prefixes int[G, P], known int[G], rests int[G, K, S], first int[G, K],
         targets int[G, K, T]) -> (float32[G, K, T], bool[G, K, T])

    The results are log P of each target, and whether no token is more probable. Sequence k of group
    g is prefixes[g, :known[g]] followed by rests[g, k]. The token rests[g, k, first[g, k]] precedes
    its first target.
    """
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, *[rows] * 5))
    def of_groups(params, prefixes, known, rests, first, targets):
        G, P = prefixes.shape
        _, K, S = rests.shape
        T = targets.shape[2]
        rests = rests.reshape(G * K, S)
        if P:
            # One pass over each prefix. Its cache is then copied for each of the group's K
            # sequences.
            cache = model.empty_cache(G, P + S)
            _, cache = kv_cache.read(model, params, cache, prefixes, known)
            cache = jax.tree.map(lambda x: jnp.repeat(x, K, axis=1), cache)
            (hidden, matrix), _ = kv_cache.read(model, params, cache, rests)
        else:
            hidden, matrix = model.apply({'params': params}, rests)
        scored = first.reshape(G * K, 1, 1) + jnp.arange(T)[None, :, None]
        # Indices out of range are padding
        hidden = jnp.take_along_axis(hidden, scored, axis=1, mode='clip')
        logits = model.logits(hidden, matrix)
        label = jnp.take_along_axis(logits, targets.reshape(G * K, T, 1), axis=-1)[..., 0]
        logs = label - jax.nn.logsumexp(logits, axis=-1)
        best = label >= jnp.max(logits, axis=-1)
        return logs.reshape(G, K, T), best.reshape(G, K, T)

    return compiling.on_mesh(of_groups, mesh, precision(model.config))


def distinct(
    sequences: Sequence[tuple[list[int], int]],
) -> tuple[list[tuple[list[int], int]], list[int]]:
    """(the distinct sequences, the index of each sequence among them)."""
    found: dict[tuple[tuple[int, ...], int], int] = {}
    places = [found.setdefault((tuple(ids), n), len(found)) for ids, n in sequences]
    return [(list(ids), n) for ids, n in found], places
