"""Estimates the cost of a training step from shapes and shardings: FLOPs, memory, bytes between devices.

The compiled step may differ: experiments/compile/check.py reads it.
"""
import math
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax.parallel.sharding import named_leaves


class Transfer(NamedTuple):
    """The collectives of one kind in a step.

    axes: of the mesh, over which they run. devices: in one collective. bytes: of the whole arrays in sum, those that a
    gather makes or a reduction takes.
    """
    what: str
    kind: str
    axes: tuple[str, ...]
    devices: int
    bytes: int

    @property
    def sent(self) -> int:
        """Bytes sent by each device."""
        return sent(self.kind, self.bytes, self.devices)


def sent(kind: str, size: int, devices: int) -> int:
    """Bytes sent by each of `devices` in a collective over an array of `size` bytes, by the ring algorithms."""
    rounds = 2 if kind == 'all-reduce' else 1  # an all-reduce is a reduce-scatter and an all-gather
    return rounds * size * (devices - 1) // devices


def flops_per_token(params: Any, n_ctx: int) -> int:
    """Floating-point operations per token of a training step, forward and backward: 752.75e6 at the paper's size.

    params: tree of arrays or shapes of a backbone. n_ctx: positions of a window. Counts matrix products: six operations
    per weight, the output layer (embed/tokens) included, and attention over all n_ctx positions, its masked half
    included, as is usual. Recomputation by remat is not counted.
    """
    total = 0
    for name, leaf in named_leaves(params).items():
        if re.search(r'(kernel|embed/tokens)$', name):
            total += 6 * leaf.size
        if name.endswith('attn/out/kernel'):  # [N, H, E, D]: scores and mixture, two products of n_ctx x H E each
            total += 12 * n_ctx * math.prod(leaf.shape[:3])
    return total


def memory(state: Any) -> dict[str, int]:
    """{'parameters', 'gradients', 'Adam moments': bytes per device} of a TrainState of shapes with shardings."""
    parameters, moments = (sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
                               for leaf in jax.tree.leaves(tree)) for tree in (state.params, state.opt_state))
    return {'parameters': parameters, 'gradients': parameters, 'Adam moments': moments}


def traffic(params: Any, dtype: str, rows: int, n_ctx: int, microbatches: int = 1) -> list[Transfer]:
    """The Transfers that the shardings of `params` imply for a step on `rows` windows of n_ctx tokens.

    params: tree of shapes with shardings. dtype: of activations, weights and gradients as they are sent.
    Per microbatch, blocks are gathered forward and backward and the embedding once; the token table's gradient is
    reduced twice, as it comes from the look-up and from the output layer.
    """
    leaves = named_leaves(params)
    size = jnp.dtype(dtype).itemsize
    mesh = dict(jax.tree.leaves(params)[0].sharding.mesh.shape)
    data, fsdp, tensor = (mesh.get(axis, 1) for axis in ('data', 'fsdp', 'tensor'))
    gathered = scattered = repeated = layers = 0
    for name, leaf in leaves.items():
        axes = [a for entry in leaf.sharding.spec for a in (entry if isinstance(entry, tuple) else (entry,)) if a]
        whole = leaf.size // (tensor if 'tensor' in axes else 1) * size * microbatches
        uses = 2 if name.endswith('embed/tokens') else 1
        if fsdp > 1 and 'fsdp' in axes:
            gathered += whole if 'embed/' in name else 2 * whole
            scattered += uses * whole
        else:
            repeated += uses * whole
        if name.endswith('mlp/proj/kernel'):
            layers, width = leaf.shape[0], leaf.shape[-1]
    found = [Transfer('weights', 'all-gather', ('fsdp',), fsdp, gathered),
             Transfer('gradients', 'reduce-scatter', ('fsdp',), fsdp, scattered),
             Transfer("gradients' parts", 'all-reduce', ('data',), data, scattered // fsdp),
             Transfer('other gradients' if fsdp > 1 else 'gradients', 'all-reduce', ('data', 'fsdp'), data * fsdp,
                      repeated)]
    if layers:  # after attention and after the feed-forward network, and the same backward
        found.append(Transfer('activations', 'all-reduce', ('tensor',), tensor,
                              4 * layers * rows // (data * fsdp) * n_ctx * width * size))
    return [transfer for transfer in found if transfer.devices > 1 and transfer.bytes]


def lines(state: Any, dtype: str, rows: int, n_ctx: int, microbatches: int = 1) -> list[str]:
    """The cost as lines to print. state: TrainState of shapes with shardings (loop.Program.state)."""
    flops = flops_per_token(state.params, n_ctx)
    held = ', '.join(f'{name} {size / 2**20:,.1f} MiB' for name, size in memory(state).items())
    moved = traffic(state.params, dtype, rows, n_ctx, microbatches)
    sent = sum(t.sent for t in moved) / 1e6
    return [f'a step: {rows:,} x {n_ctx} tokens, {flops / 1e6:,.2f} MFLOP each, {flops * rows * n_ctx / 1e12:,.2f} '
            'TFLOP in all',
            f'memory a device: {held}; activations come on top',
            *(f'  {t.kind} of {t.what} over {" x ".join(t.axes)} ({t.devices} devices): {t.bytes / 1e6:,.1f} MB, each '
              f'sends {t.sent / 1e6:,.1f} MB' for t in moved),
            f'each device sends about {sent:,.1f} MB a step (an estimate)' if moved else 'one device: nothing is sent']
