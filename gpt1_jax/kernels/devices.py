"""A kernel on several devices: the compiler cannot divide it, so each device is given its own rows and heads.

Called under plain jit, a kernel is run on whole arrays: every device gathers the batch first.
"""
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

ROWS, HEADS = ('data', 'fsdp'), ('tensor',)  # the axes of sharding.make_mesh that divide them


def on_each(kernel, arrays, layouts, results):
    """The results of kernel(first_row, first_head, *arrays), run on each device's part of the arrays.

    first_row, first_head: uint32 scalars, where the part begins in the whole. arrays: their dimensions are named by
    `layouts`, a string each, and those of the kernel's results by `results`, a string or a tuple of them: B is divided
    over the mesh axes (data, fsdp) and H over (tensor), where the devices divide it; all else is whole. The mesh is the
    one of `jax.set_mesh`; without one, or with a single device, the kernel is called as it is.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return kernel(jnp.uint32(0), jnp.uint32(0), *arrays)
    sizes = {letter: n for array, layout in zip(arrays, layouts) for letter, n in zip(layout, array.shape)}
    axes = {letter: names for letter, names in {'B': ROWS, 'H': HEADS}.items()
            if letter in sizes and sizes[letter] % math.prod(mesh.shape[name] for name in names) == 0}

    def first(letter):
        """The number of the first row or head of this device."""
        if letter not in axes:
            return jnp.uint32(0)
        share = sizes[letter] // math.prod(mesh.shape[name] for name in axes[letter])
        return (lax.axis_index(axes[letter]) * share).astype(jnp.uint32)

    def place(layout):
        return P(*(axes.get(letter) for letter in layout))
    places = place(results) if isinstance(results, str) else tuple(map(place, results))
    # check_vma: the check of which axes a value differs over knows no kernels.
    return jax.shard_map(lambda *parts: kernel(first('B'), first('H'), *parts), in_specs=tuple(map(place, layouts)),
                         out_specs=places, check_vma=False)(*arrays)
