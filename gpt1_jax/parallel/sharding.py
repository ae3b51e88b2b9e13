"""The device mesh (data, fsdp, tensor), and one table from array names to partitions over it.

Not in the paper, which trained on one machine. The same program runs on one CPU and on a pod, as
axes of size 1 have no effect.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gpt1_jax.errors import UserError

AXES = ('data', 'fsdp', 'tensor')
ROWS = ('data', 'fsdp')  # the axes that divide the rows of a batch
BATCH = P(ROWS)

# The first pattern that matches a leaf's path gives its partition. A leaf that no pattern matches
# is whole on every device. The table serves parameters, Adam's moments (their paths end in the
# parameter's) and activations, by name. The layer axis of stacked parameters is never sharded.
PARTITIONS = (
    # [rows, D]: 40,478 rows divide by nothing
    (r'embed/(tokens|specials|positions)$', P(None, 'fsdp')),
    (r'attn/qkv/kernel$', P(None, 'fsdp', None, 'tensor', None)),  # [N, D, 3, H, E]
    (r'attn/qkv/bias$', P(None, None, 'tensor', None)),  # [N, 3, H, E]
    (r'attn/out/kernel$', P(None, 'tensor', None, 'fsdp')),  # [N, H, E, D]
    (r'mlp/fc/kernel$', P(None, 'fsdp', 'tensor')),  # [N, D, F]
    (r'mlp/fc/bias$', P(None, 'tensor')),  # [N, F]
    (r'mlp/proj/kernel$', P(None, 'tensor', 'fsdp')),  # [N, F, D]
    (r'blocks/(input|recurrent)_kernel$', P(None, 'fsdp', None, 'tensor')),  # [N, D, 4, U]
    (r'blocks/bias$', P(None, None, 'tensor')),  # [N, 4, U]
    (r'^windows$', P(ROWS, None)),  # [B, L + 1]
    (r'^microbatches$', P(None, ROWS)),  # [parts, B, ...]
    (r'^activations$', P(ROWS, None, None)),  # [B, L, D]
    # [rows, D], gathered once a step, in the compute dtype
    (r'^embeddings$', P()),
    # [U, 4, U], gathered before the scan, not at each of its steps
    (r'^recurrent$', P(None, None, 'tensor')),
)


def make_mesh(
    data: int = -1, fsdp: int = 1, tensor: int = 1, devices: list[jax.Device] | None = None
) -> Mesh:
    """Makes a Mesh with axes (data, fsdp, tensor). An axis of -1 takes as many devices as remain.

    Only one axis may be -1. devices: by default all. Over several TPU slices (multislice), the data
    axis spans the slices, whose links are slow, and the other axes stay within a slice. UserError
    if the sizes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    sizes = {'data': data, 'fsdp': fsdp, 'tensor': tensor}
    shown = ', '.join(f'{name}={size}' for name, size in sizes.items())
    known = math.prod(size for size in sizes.values() if size != -1)
    sizes = {
        name: len(devices) // max(known, 1) if size == -1 else size for name, size in sizes.items()
    }
    if math.prod(sizes.values()) != len(devices) or min(sizes.values()) < 1:
        raise UserError(
            f'mesh ({shown}) does not fit {len(devices)} device(s): sizes must be at least 1 and '
            'multiply to that number; one of them may be -1'
        )
    # Auto: the compiler propagates shardings through Flax's layers, which have no argument for
    # them.
    auto = (AxisType.Auto,) * 3
    slices = len({getattr(device, 'slice_index', 0) for device in devices})
    try:
        if slices == 1 or devices[0].platform != 'tpu':
            return jax.make_mesh(
                tuple(sizes.values()), tuple(sizes), axis_types=auto, devices=devices
            )
        if sizes['data'] % slices:
            raise UserError(
                f'mesh ({shown}): data={sizes["data"]} must be a multiple of the {slices} slices'
            )
        within = (sizes['data'] // slices, sizes['fsdp'], sizes['tensor'])
        hybrid = mesh_utils.create_hybrid_device_mesh(within, (slices, 1, 1), devices)
    except NotImplementedError:  # a size that is not a product of dimensions of the torus
        raise UserError(
            f'mesh ({shown}) does not fit the topology: choose sizes that are '
            "products of the slice's "
            'dimensions'
        ) from None
    return Mesh(hybrid, tuple(sizes), axis_types=auto)


def extent(axes: str | Sequence[str] | None, mesh: Mesh | None = None) -> int:
    """The number of devices along an axis of a mesh, or along several axes.

    axes: None means no axis, and the extent is 1. mesh: by default the mesh of `jax.set_mesh`.
    Without a mesh the extent is 1.
    """
    shape = (jax.sharding.get_abstract_mesh() if mesh is None else mesh).shape
    names = (axes,) if isinstance(axes, str) else axes or ()
    return math.prod(shape.get(name, 1) for name in names)


def spec(name: str) -> P:
    """The PartitionSpec of a leaf by its path."""
    return next((partition for pattern, partition in PARTITIONS if re.search(pattern, name)), P())


def leaf_name(path: Any) -> str:
    """The name of a leaf in a tree of parameters, 'blocks/mlp/fc/kernel', from its key path."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def named_leaves(tree: Any) -> dict[str, Any]:
    """{'blocks/mlp/fc/kernel': leaf} for each leaf of a tree of parameters."""
    return {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def shardings(tree: Any, mesh: Mesh) -> Any:
    """NamedShardings of a tree of arrays or shapes, by PARTITIONS.

    UserError for a dimension that cannot be divided.
    """

    def sharding(path, leaf):
        name = leaf_name(path)
        partition = spec(name)
        # A leaf of a user's optimizer or backbone that only has such a name
        if len(partition) > leaf.ndim:
            partition = P()
        for dimension, axes in enumerate(partition):
            n = extent(axes, mesh)
            if leaf.shape[dimension] % n:
                raise UserError(
                    f'{name}: dimension {dimension} of size {leaf.shape[dimension]} is not '
                    f'divisible by mesh axis {axes} of size {n}'
                )
        return NamedSharding(mesh, partition)

    return jax.tree_util.tree_map_with_path(sharding, tree)


def abstract(shapes: Any, mesh: Mesh) -> Any:
    """A tree of shapes as ShapeDtypeStructs with shardings, into which a checkpoint is restored."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        shardings(shapes, mesh),
    )


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """The sharding of a batch: rows over data and fsdp."""
    return NamedSharding(mesh, BATCH)


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that is whole on every device."""
    return NamedSharding(mesh, P())


def place(read: Callable[[slice], Any], size: int, mesh: Mesh) -> Any:
    """Puts a batch of `size` rows on the mesh's devices, as a tree of global arrays [size, ...].

    read: slice of rows -> tree of host arrays with those rows. Each process reads only the rows of
    its devices.
    """
    sharding = batch_sharding(mesh)
    indices: Any = sharding.addressable_devices_indices_map((size,)).values()
    own = [range(size)[index[0]] for index in indices]
    low = min(rows.start for rows in own)
    high = max(rows.stop for rows in own)

    def global_array(x):
        def part(index):
            rows = range(size)[index[0]]
            return x[rows.start - low : rows.stop - low]

        return jax.make_array_from_callback((size, *x.shape[1:]), sharding, part)

    return jax.tree.map(global_array, read(slice(low, high)))


def check_batch(size: int, microbatches: int, mesh: Mesh) -> None:
    """UserError unless every device gets the same number of rows of every microbatch."""
    n = extent(ROWS, mesh)
    if size % (microbatches * n):
        raise UserError(
            f'batch.size = {size} in {microbatches} microbatch(es) is not divisible by {n} devices '
            f'(mesh data={mesh.shape["data"]} x fsdp={mesh.shape["fsdp"]})'
        )


def constrain(x: jax.Array, name: str) -> jax.Array:
    """Returns x with the sharding of `name`, inside a jitted function under `jax.set_mesh`.

    Without a mesh x is returned unchanged.
    """
    if extent(AXES) == 1:
        return x
    return jax.lax.with_sharding_constraint(x, spec(name))
