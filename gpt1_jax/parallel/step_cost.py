"""Estimates the cost of a training step from shapes and shardings: FLOPs and memory.

The compiled step may differ. experiments/compile/check.py reads the cost of the compiled step.
"""

import math
import re
from typing import Any

import jax

from gpt1_jax.parallel.sharding import named_leaves


def flops_per_token(params: Any, n_ctx: int) -> int:
    """Floating-point operations per token of a training step, forward and backward.

    They are 752.75e6 at the paper's size. Matrix products count six operations per weight, also in
    the output layer (embed/tokens). Attention counts over all n_ctx positions, including the masked
    half, as is usual. Recomputation by remat is not counted.

    params: tree of arrays or shapes of a backbone. n_ctx: positions of a window.
    """
    total = 0
    for name, leaf in named_leaves(params).items():
        if re.search(r'(kernel|embed/tokens)$', name):
            total += 6 * leaf.size
        # [N, H, E, D]: scores and mixture, two products of n_ctx x H E each
        if name.endswith('attn/out/kernel'):
            total += 12 * n_ctx * math.prod(leaf.shape[:3])
    return total


def memory(state: Any) -> dict[str, int]:
    """{'parameters', 'gradients', 'Adam moments': bytes per device} of a TrainState.

    state: a TrainState of shapes with shardings.
    """
    parameters, moments = (
        sum(
            math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(tree)
        )
        for tree in (state.params, state.opt_state)
    )
    return {'parameters': parameters, 'gradients': parameters, 'Adam moments': moments}


def lines(state: Any, rows: int, n_ctx: int) -> list[str]:
    """The cost as lines to print.

    state: TrainState of shapes with shardings (loop.Program.state).
    """
    flops = flops_per_token(state.params, n_ctx)
    held = ', '.join(f'{name} {size / 2**20:,.1f} MiB' for name, size in memory(state).items())
    return [
        f'a step: {rows:,} x {n_ctx} tokens, {flops / 1e6:,.2f} MFLOP each, '
        f'{flops * rows * n_ctx / 1e12:,.2f} TFLOP in all',
        f'memory a device: {held}; activations come on top',
    ]
