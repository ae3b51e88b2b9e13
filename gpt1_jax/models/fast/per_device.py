"""Runs a kernel on several devices, each with its own rows of the batch and its own heads (jax.shard_map).

XLA cannot partition a kernel: under plain jit every device would gather the batch and compute all of it.
"""
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

ROWS, HEADS = ('data', 'fsdp'), ('tensor',)  # the axes of sharding.make_mesh that divide them


def on_each(kernel: Callable, arrays: Sequence[jax.Array], layouts: Sequence[str],
            results: str | tuple[str, ...]) -> Any:
    """The results of kernel(first_row, first_head, *arrays), run on each device's part of the arrays.

    first_row, first_head: uint32 scalars, where the part begins in the whole. arrays: their dimensions are named by
    `layouts`, a string each, and those of the kernel's results by `results`, a string or a tuple of them: B is divided
    over the mesh axes (data, fsdp) and H over (tensor), where the devices divide it; all else is whole. The mesh is the
    one of `jax.set_mesh`; without one, or with a single device, the kernel is called as it is.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return kernel(jnp.uint32(0), jnp.uint32(0), *arrays)
    sizes: dict[str, int] = {}  # of each dimension, by its letter
    for array, layout in zip(arrays, layouts):
        sizes.update(zip(layout, array.shape))
    axes = {}  # of the mesh, over which a dimension is divided
    for letter, names in {'B': ROWS, 'H': HEADS}.items():
        if letter in sizes and sizes[letter] % _devices(mesh, names) == 0:
            axes[letter] = names

    def first(letter):
        """The index of this device's first row or head in the whole array."""
        if letter not in axes:
            return jnp.uint32(0)
        per_device = sizes[letter] // _devices(mesh, axes[letter])
        return (lax.axis_index(axes[letter]) * per_device).astype(jnp.uint32)

    def spec(layout):
        return P(*(axes.get(letter) for letter in layout))

    def run(*parts):
        return kernel(first('B'), first('H'), *parts)
    in_specs = tuple(spec(layout) for layout in layouts)
    out_specs = spec(results) if isinstance(results, str) else tuple(spec(layout) for layout in results)
    # check_vma: shard_map's check of which axes a value varies over does not support kernels.
    return jax.shard_map(run, in_specs=in_specs, out_specs=out_specs, check_vma=False)(*arrays)


def divides_heads(H: int) -> bool:
    """Whether the mesh in context divides H heads over devices."""
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and _devices(mesh, HEADS) > 1 and H % _devices(mesh, HEADS) == 0


def _devices(mesh, axes):
    return math.prod(mesh.shape[axis] for axis in axes)
