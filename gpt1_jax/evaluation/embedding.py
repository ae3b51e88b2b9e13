"""Section 3.2: a sequence's embedding, the last block's hidden state at its last token, h_l^m, which fine-tuning's
linear layer reads."""
import collections
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gpt1_jax.evaluation import padding
from gpt1_jax.models import precision
from gpt1_jax.parallel import sharding
from gpt1_jax.training import loop


def last_states(model: Any, params: Any, mesh: Mesh, sequences: Sequence[Sequence[int]],
                tokens_per_batch: int = 4096) -> np.ndarray:
    """float32[n, D]: the last hidden state of n lists of ids, none empty or longer than the context.

    model, params: a backbone. The sequences of a fine-tuned run end with the extract token, whose state its head reads.
    """
    by_length = collections.defaultdict(list)
    for i, ids in enumerate(sequences):
        by_length[padding.padded(len(ids), model.config.n_ctx)].append(i)
    found = np.zeros((len(sequences), model.config.n_embd), np.float32)
    for length, chosen in by_length.items():
        rounded_up = 1 << (len(chosen) - 1).bit_length()  # to a power of two, so that few programs are compiled
        size = padding.batch_size(min(tokens_per_batch, length * rounded_up), length, mesh)
        tokens = np.array([[*sequences[i], *[0] * (length - len(sequences[i]))] for i in chosen], np.int32)
        last = np.array([len(sequences[i]) - 1 for i in chosen], np.int32)
        found[chosen] = padding.in_batches(functools.partial(_last_states(model, mesh), params), size, tokens, last)
    return found


@functools.lru_cache
def _last_states(model, mesh):
    """(params, tokens int[B, L], last int[B]) -> float32[B, D], the hidden state at each `last`."""
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, rows, rows), out_shardings=sharding.replicated(mesh))
    def last_states(params, tokens, last):
        hidden, _ = model.apply({'params': params}, tokens)
        return jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0].astype(jnp.float32)
    return loop.on_mesh(last_states, mesh, precision.of(model.config))
