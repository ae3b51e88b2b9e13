"""Runs a kernel on several devices, each with its rows of the batch and its heads.

XLA cannot partition a kernel: under plain jit every device would gather the batch and compute all
of it. So this file uses jax.shard_map.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from gpt1_jax.models.dropout import Dropout, fold
from gpt1_jax.parallel.sharding import AXES, ROWS, extent

DIVIDES = {'B': ROWS, 'H': ('tensor',)}  # the axes of the mesh that divide a dimension


def on_each(
    kernel: Callable,
    arrays: Sequence[jax.Array],
    layouts: Sequence[str],
    results: str | tuple[str, ...],
) -> Any:
    """Returns the results of kernel(*arrays), run on each device's part of the arrays.

    layouts: a string for each array, which names its dimensions by letters. results: such a string
    for the kernel's result, or a tuple of strings. B is divided over the mesh axes (data, fsdp) and
    H over (tensor), if the devices divide it. All other dimensions are whole. The layout 'w' names
    `words`, in which each device gets its first row and head.

    The mesh is the mesh of `jax.set_mesh`. Without a mesh, or with a single device, the kernel is
    called as it is.
    """
    if extent(AXES) == 1:
        return kernel(*arrays)
    sizes: dict[str, int] = {}  # of each dimension, by its letter
    for array, layout in zip(arrays, layouts):
        sizes.update(zip(layout, array.shape))
    axes = {
        letter: names
        for letter, names in DIVIDES.items()
        if letter in sizes and sizes[letter] % extent(names) == 0
    }

    def first(letter):
        """The index of this device's first row or head in the whole array."""
        if letter not in axes:
            return jnp.uint32(0)
        return (lax.axis_index(axes[letter]) * (sizes[letter] // extent(axes[letter]))).astype(
            jnp.uint32
        )

    def spec(layout):
        return P(*(axes.get(letter) for letter in layout))

    def run(*parts):
        nothing = jnp.uint32(0)
        begin = jnp.stack([nothing, nothing, first('B'), first('H')])
        own = [part + begin if layout == 'w' else part for part, layout in zip(parts, layouts)]
        return kernel(*own)

    # check_vma: shard_map's check of which axes a value varies over does not support kernels.
    return jax.shard_map(
        run,
        in_specs=tuple(map(spec, layouts)),
        out_specs=jax.tree.map(spec, results),
        check_vma=False,
    )(*arrays)


def words(drop: Dropout) -> jax.Array:
    """Returns uint32[4] for a kernel: `fold` of a dropout's words, then the first row and head.

    The kernel folds the rows and heads into these words.
    """
    if drop.key is None:
        return jnp.zeros(4, jnp.uint32)
    folded = fold((drop.key.seed, drop.key.step, drop.layer, drop.site))
    return jnp.stack([jnp.asarray(word, jnp.uint32) for word in (*folded, drop.key.row, 0)])
