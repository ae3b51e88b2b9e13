"""Section 4.1: the loss on held-out text during pretraining."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.data.windows import TokenStream
from gpt1_jax.models.build import precision
from gpt1_jax.models.fast import table
from gpt1_jax.parallel import sharding
from gpt1_jax.training import compiling, losses


def mean_loss(
    model: Any,
    mesh: jax.sharding.Mesh,
    stream: TokenStream,
    n_windows: int,
    batch_size: int,
    chunks: int,
) -> Callable[[Any], float]:
    """A function params -> mean loss in nats a token, over windows of the validation tokens.

    The windows are evenly spaced. n_windows: their number, or 0 for all. batch_size: windows at
    once. chunks: as in losses.token_losses.
    """
    n_ctx = model.config.n_ctx
    chosen = stream.evenly_spaced(n_windows or stream.n_windows(n_ctx), n_ctx)
    devices = sharding.extent(sharding.ROWS, mesh)
    size = -(-min(batch_size, len(chosen)) // devices) * devices

    @jax.jit
    def total_loss(params, batch):
        hidden, rows = model.apply({'params': params}, batch['tokens'][:, :-1])
        # As in `perplexity`: float32 logits whatever the model's type, and Eq. 1 even if the user
        # replaced the loss
        window_losses = losses.pretraining_loss(
            hidden,
            rows[: model.config.vocab_size],
            batch['tokens'][:, 1:],
            chunks=chunks,
            logits_dtype=jnp.float32,
            ops=table.judged(model.config),
        )
        return jnp.sum(window_losses * batch['weight'])

    jitted = compiling.on_mesh(total_loss, mesh, precision(model.config))

    def validate(params):
        sums = []
        for first in range(0, len(chosen), size):
            indices = chosen[first : first + size]
            # The last batch is filled up with windows of weight 0
            filled = np.resize(indices, size)
            weights = (np.arange(size) < len(indices)).astype(np.float32)

            def read(rows):
                windows = [stream.window(i, n_ctx) for i in filled[rows]]
                return {'tokens': np.stack(windows), 'weight': weights[rows]}

            sums.append(jitted(params, sharding.place(read, size, mesh)))
        return sum(map(float, sums)) / len(chosen)

    return validate
