"""Section 3.2: the state of the last block at a sequence's last token, h_l^m, which sums it up for a linear layer."""
import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax import scoring, sharding, training


def last_states(model, params, mesh, sequences, tokens_per_batch=4096):
    """float32[n, D] of n lists of ids, none empty or longer than the context, in their order.

    model, params: a backbone; of a fine-tuned run, whose sequences end with the extract token, what its head reads.
    """
    found, by_length = np.zeros((len(sequences), model.config.n_embd), np.float32), collections.defaultdict(list)
    for i, ids in enumerate(sequences):
        by_length[scoring.padded(len(ids), model.config.n_ctx)].append(i)
    for L, chosen in by_length.items():
        most = L << (len(chosen) - 1).bit_length()  # by powers of two, so that few programs are compiled
        size = scoring.batch_size(min(tokens_per_batch, most), L, mesh)
        for first in range(0, len(chosen), size):
            rows = chosen[first:first + size]
            tokens, last = np.zeros((size, L), np.int32), np.zeros(size, np.int32)
            for r, i in enumerate(rows):
                tokens[r, :len(sequences[i])], last[r] = sequences[i], len(sequences[i]) - 1
            found[rows] = np.asarray(_last_states(model, mesh)(params, tokens, last))[:len(rows)]
    return found


@functools.lru_cache
def _last_states(model, mesh):
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, rows, rows), out_shardings=sharding.replicated(mesh))
    def last_states(params, tokens, last):
        hidden, _ = model.apply({'params': params}, tokens)
        return jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0].astype(jnp.float32)
    return training.on_mesh(last_states, mesh)
