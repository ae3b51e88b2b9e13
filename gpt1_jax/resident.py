"""The training tokens in the devices' memory: a step gathers its windows there, the host sends their numbers alone.

Not in the paper. A billion tokens take 2 GB of every device; where tokens lie changes no result.
"""
import jax
import jax.numpy as jnp

from gpt1_jax import distributed, sharding

PART = 8  # 'auto': tokens may take this part of a device's memory, an eighth


def place(stream, n_ctx, mesh, wanted):
    """A tokens.TokenStream on every device of the mesh: uint16[n_windows + 1, n_ctx], window i being row i and the
    first token of row i + 1; or None where windows are to be read for each step.

    wanted: 'yes', 'no', or 'auto': where they fit.
    """
    fit = wanted == 'yes' or wanted == 'auto' and fits(2 * stream.n_tokens, mesh.local_devices[0])
    if not distributed.everywhere(fit):  # one program for all processes, whose devices may have other room
        return None
    rows = stream.rows(n_ctx)
    return jax.make_array_from_callback(rows.shape, sharding.replicated(mesh), lambda index: rows[index])


def fits(size, device):
    """Whether so many bytes are at most one PARTth of a device's memory. Never on a CPU: what is mapped from disk is in
    its memory already."""
    limit = 0 if device.platform == 'cpu' else (device.memory_stats() or {}).get('bytes_limit', 0)
    return size <= limit // PART


def windows(corpus, numbers):
    """The windows of these numbers, int32[B] -> int32[B, n_ctx + 1], inside a jitted step. corpus: as `place` gives."""
    found = jnp.concatenate([corpus[numbers], corpus[numbers + 1, :1]], axis=1).astype(jnp.int32)
    # Behind the barrier all that follows is compiled as where the host sends tokens, so results agree to the bit.
    return jax.lax.optimization_barrier(sharding.constrain(found, 'windows'))


def where(corpus):
    """Words for where a run's tokens are. corpus: as `place` gives."""
    return 'read a step ahead' if corpus is None else f'on each device, {corpus.nbytes / 2**20:,.1f} MiB'
