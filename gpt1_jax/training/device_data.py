"""The training tokens in the devices' memory: a step gathers its windows there, the host sends only
their numbers.

Not in the paper. A billion tokens take 2 GB of every device; where tokens lie changes no result.
"""

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.data import tokens
from gpt1_jax.parallel import processes, sharding
from gpt1_jax.training.loop import Batches

PART = 8  # 'auto': tokens may take at most an eighth of a device's memory


def batches(
    stream: tokens.TokenStream,
    n_ctx: int,
    size: int,
    seed: int,
    mesh: jax.sharding.Mesh,
    wanted: str,
) -> Batches:
    """Batches of `size` windows in the order of `seed`: {'tokens': int32[size, n_ctx + 1]}, or
    where the tokens are on the devices {'window': int32[size]}, the windows' numbers, with the
    tokens as Batches.resident. See `place`."""
    corpus = place(stream, n_ctx, mesh, wanted)
    name, batch = ('tokens', tokens.batch) if corpus is None else ('window', tokens.window_numbers)

    def read(step, rows):
        return {name: batch(stream, step, seed, size, n_ctx, rows)}

    return Batches(read, size, size * n_ctx, () if corpus is None else (corpus,))


def place(
    stream: tokens.TokenStream, n_ctx: int, mesh: jax.sharding.Mesh, wanted: str
) -> jax.Array | None:
    """The tokens on every device of the mesh, uint16[n_windows + 1, n_ctx], window i being row i
    and the first token of row i + 1; None where windows are to be read for each step. wanted:
    'yes', 'no', or 'auto': where they fit."""
    fit = wanted == 'yes' or wanted == 'auto' and fits(2 * stream.n_tokens, mesh.local_devices[0])
    # One program for all processes, whose devices may have other room
    if not processes.everywhere(fit):
        return None
    rows = stream.rows(n_ctx)
    return jax.make_array_from_callback(
        rows.shape, sharding.replicated(mesh), lambda index: rows[index]
    )


def fits(size: int, device: jax.Device) -> bool:
    """Whether so many bytes are at most one PARTth of a device's memory. Never of a CPU's, which
    has the tokens."""
    limit = 0 if device.platform == 'cpu' else (device.memory_stats() or {}).get('bytes_limit', 0)
    return size <= limit // PART


def windows(corpus: jax.Array, numbers: jax.Array | np.ndarray) -> jax.Array:
    """The windows of these numbers, int32[B] -> int32[B, n_ctx + 1], inside a jitted step. corpus:
    as `place` gives."""
    ids = jnp.concatenate([corpus[numbers], corpus[numbers + 1, :1]], axis=1).astype(jnp.int32)
    # The barrier keeps XLA from fusing the gather with what follows, which is then compiled as
    # where the host sends tokens: the results agree to the bit.
    return jax.lax.optimization_barrier(sharding.constrain(ids, 'windows'))
