"""The training tokens in the devices' memory.

A step gathers its windows from this memory, and the host sends only the numbers of the windows. Not
in the paper. A billion tokens take 2 GB of every device. The place of the tokens changes no result.
"""

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.data.windows import DTYPE, TokenStream, window_numbers
from gpt1_jax.parallel import processes, sharding
from gpt1_jax.training.prefetch import Batches

PART = 8  # 'auto': tokens may take at most an eighth of a device's memory


def batches(
    stream: TokenStream, n_ctx: int, size: int, seed: int, mesh: jax.sharding.Mesh, wanted: str
) -> Batches:
    """Returns the batches of `size` windows in the order of `seed`.

    A batch is {'tokens': int32[size, n_ctx + 1]}. If the tokens are on the devices (see `place`),
    it is {'window': int32[size]}, the windows' numbers, and Batches.resident has the tokens.
    """
    corpus = place(stream, n_ctx, mesh, wanted)

    def read(step, rows):
        numbers = window_numbers(stream, step, seed, size, n_ctx, rows)
        if corpus is None:
            return {'tokens': stream.windows(numbers, n_ctx)}
        return {'window': numbers}

    return Batches(read, size, size * n_ctx, () if corpus is None else (corpus,))


def place(
    stream: TokenStream, n_ctx: int, mesh: jax.sharding.Mesh, wanted: str
) -> jax.Array | None:
    """Puts the tokens on every device of the mesh, or returns None if steps read their windows.

    The result is uint16[n_windows + 1, n_ctx]. Window i is row i and the first token of row i + 1.
    The last row is padded with zeros.
    wanted: 'yes', 'no', or 'auto': if they fit.
    """
    fit = wanted == 'yes' or wanted == 'auto' and fits(2 * stream.n_tokens, mesh.local_devices[0])
    # All processes run one program, but their devices may differ in free memory
    if not processes.everywhere(fit):
        return None
    padding = np.zeros(-stream.n_tokens % n_ctx, DTYPE)
    rows = np.concatenate([*stream.shards, padding]).reshape(-1, n_ctx)
    return jax.make_array_from_callback(
        rows.shape, sharding.replicated(mesh), lambda index: rows[index]
    )


def fits(size: int, device: jax.Device) -> bool:
    """True if `size` bytes fit in 1/PART of a device's memory.

    Always False on a CPU: the tokens are already in its memory.
    """
    limit = 0 if device.platform == 'cpu' else (device.memory_stats() or {}).get('bytes_limit', 0)
    return size <= limit // PART


def windows(corpus: jax.Array, numbers: jax.Array | np.ndarray) -> jax.Array:
    """Gathers the windows of these numbers, int32[B] -> int32[B, n_ctx + 1], inside a jitted step.

    corpus: as `place` returns it.
    """
    ids = jnp.concatenate([corpus[numbers], corpus[numbers + 1, :1]], axis=1).astype(jnp.int32)
    # The barrier keeps XLA from fusing the gather with the code after it. That code is then
    # compiled as if the host sent the tokens, and the results agree to the bit.
    return jax.lax.optimization_barrier(sharding.constrain(ids, 'windows'))
