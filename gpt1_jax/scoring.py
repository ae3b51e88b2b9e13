"""Section 5, Zero-shot Behaviors: log-probabilities of given tokens under a pretrained model."""
import functools

import jax
import numpy as np

from gpt1_jax import losses, sharding, training
from gpt1_jax.errors import UserError


def score(model, params, mesh, sequences, names=None, tokens_per_batch=4096):
    """The log-probabilities of the last tokens of each sequence, given everything before them.

    sequences: list of (ids, n): the last n tokens of ids are scored, 1 <= n < len(ids); what exceeds the context is cut
    from the left. Only vocabulary rows compete: no special or position row is ever scored.
    names: what the sequences are called in a UserError.
    Returns (sums, counts), float64[N] and int[N]: nats in all, and the tokens scored. The order is that of `sequences`.
    """
    n_ctx = model.config.n_ctx
    for name, (ids, n) in zip(names or (f'sequence {i}' for i in range(len(sequences))), sequences):
        if not 1 <= n < len(ids):
            raise UserError(f'{name}: {n} of {len(ids)} tokens to score: at least one is needed, and one before it as '
                            'context')
        if n >= n_ctx:
            raise UserError(f'{name}: {n} tokens to score do not fit the context of {n_ctx}')
    cut = [(ids[-n_ctx:], n) for ids, n in sequences]
    sums = np.zeros(len(cut))
    order = sorted(range(len(cut)), key=lambda i: len(cut[i][0]))
    for L, chosen in _groups(order, [len(ids) for ids, _ in cut], n_ctx):
        size = _batch_size(tokens_per_batch, L, mesh)
        for first in range(0, len(chosen), size):
            rows = chosen[first:first + size]
            tokens = np.zeros((size, L), np.int32)
            for r, i in enumerate(rows):
                tokens[r, :len(cut[i][0])] = cut[i][0]
            logs = np.asarray(_log_probabilities(model, mesh)(params, tokens), np.float64)
            for r, i in enumerate(rows):
                ids, n = cut[i]
                sums[i] = logs[r, len(ids) - 1 - n:len(ids) - 1].sum()
    return sums, np.array([n for _, n in cut])


def _groups(order, lengths, n_ctx):
    """(padded length, indices): lengths 16, 32, 64, 96, 144, ... to n_ctx, so that few programs are compiled."""
    sizes, size = [], 16
    while size < n_ctx:
        sizes.append(size)
        size = size * 2 if size < 64 else size + size // 2 // 16 * 16
    for low, high in zip([0, *sizes], [*sizes, n_ctx]):
        chosen = [i for i in order if low < lengths[i] <= high]
        if chosen:
            yield high, chosen


def _batch_size(tokens_per_batch, L, mesh):
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    return -(-max(1, tokens_per_batch // L) // devices) * devices


@functools.lru_cache
def _log_probabilities(model, mesh):
    @functools.partial(jax.jit, in_shardings=(None, sharding.batch_sharding(mesh)))
    def log_probabilities(params, tokens):
        hidden, table = model.apply({'params': params}, tokens)
        return -losses.token_losses(hidden[:, :-1], table.tokens, tokens[:, 1:])
    return training.on_mesh(log_probabilities, mesh)
