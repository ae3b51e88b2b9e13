"""Where arrays live: a mesh of (data, fsdp, tensor) and one table from names to partitions.

Not in the paper, which trained on one machine. The program is the same on one CPU and on a pod: axes of size 1 vanish.
"""
import re

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gpt1_jax.errors import UserError

BATCH = P(('data', 'fsdp'))

# The first pattern found in a leaf's path decides, so one table places parameters, Adam's moments (whose paths end
# alike) and, by name, activations. Stacked leaves have the layer axis first; it is never sharded.
RULES = (
    (r'embed/(tokens|specials|positions)$', P(None, 'fsdp')),       # [rows, D]: 40,478 rows divide by nothing
    (r'attn/qkv/kernel$', P(None, 'fsdp', None, 'tensor', None)),   # [N, D, 3, H, E]
    (r'attn/qkv/bias$', P(None, None, 'tensor', None)),             # [N, 3, H, E]
    (r'attn/out/kernel$', P(None, 'tensor', None, 'fsdp')),         # [N, H, E, D]
    (r'mlp/fc/kernel$', P(None, 'fsdp', 'tensor')),                 # [N, D, F]
    (r'mlp/fc/bias$', P(None, 'tensor')),                           # [N, F]
    (r'mlp/proj/kernel$', P(None, 'tensor', 'fsdp')),               # [N, F, D]
    (r'(attn/out|mlp/proj)/bias$', P()),
    (r'ln_[12]/(scale|bias)$', P()),
    (r'blocks/(input|recurrent)_kernel$', P(None, 'fsdp', None, 'tensor')),  # [N, D, 4, U]
    (r'blocks/bias$', P(None, None, 'tensor')),                     # [N, 4, U]
    (r'classifier/(kernel|bias)$', P()),
    (r'(^|/)(count|step|skipped|halted)$', P()),
    (r'^windows$', P(('data', 'fsdp'), None)),                      # [B, L + 1]
    (r'^activations$', P(('data', 'fsdp'), None, None)),            # [B, L, D]
    (r'^table$', P()),                            # [rows, D], gathered once a step, in the compute type
    (r'^recurrent$', P(None, None, 'tensor')),    # [U, 4, U], gathered before the scan, not at each of its steps
)


def make_mesh(data=-1, fsdp=1, tensor=1, devices=None):
    """A Mesh with axes (data, fsdp, tensor); one of them may be -1, for as many devices as remain.

    Of devices in several slices of TPUs (multislice) the data axis spans the slices, whose links are slow, and the
    other two stay within one. UserError when the sizes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    sizes = {'data': data, 'fsdp': fsdp, 'tensor': tensor}
    shown = ', '.join(f'{name}={size}' for name, size in sizes.items())
    free = [name for name, size in sizes.items() if size == -1]
    known = int(np.prod([size for size in sizes.values() if size != -1]))
    if len(free) > 1 or any(size < 1 and size != -1 for size in sizes.values()):
        raise UserError(f'mesh ({shown}): sizes are at least 1, and one of them may be -1')
    if free:
        sizes[free[0]] = len(devices) // max(known, 1)
    if int(np.prod(list(sizes.values()))) != len(devices):
        raise UserError(f'mesh ({shown}) does not fit {len(devices)} device(s)')
    # Auto: the compiler propagates shardings through Flax's layers, which cannot pass them on themselves.
    auto = (AxisType.Auto,) * 3
    slices = len({getattr(device, 'slice_index', 0) for device in devices})
    try:
        if slices == 1 or devices[0].platform != 'tpu':
            return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=auto, devices=devices)
        if sizes['data'] % slices:
            raise UserError(f'mesh ({shown}): data={sizes["data"]} cannot span {slices} slices, must be a multiple')
        within = (sizes['data'] // slices, sizes['fsdp'], sizes['tensor'])
        hybrid = mesh_utils.create_hybrid_device_mesh(within, (slices, 1, 1), devices)
    except NotImplementedError:  # an axis of the mesh that is no product of the torus' own
        raise UserError(f"mesh ({shown}) cannot be laid over the chips: choose sizes that are products of the slice's "
                        'own') from None
    return Mesh(hybrid, tuple(sizes), axis_types=auto)


def spec(name):
    """The PartitionSpec of a leaf by its path. KeyError for a leaf without a rule: add one to RULES."""
    for pattern, partition in RULES:
        if re.search(pattern, name):
            return partition
    raise KeyError(f'no sharding rule for {name!r}')


def shardings(tree, mesh: Mesh):
    """NamedShardings for every leaf of a tree of arrays or shapes, by RULES.

    UserError names the leaf, dimension and axis where a dimension cannot be divided.
    """
    def place(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        partition = spec(name)
        if len(partition) > leaf.ndim:
            raise ValueError(f'{name} has {leaf.ndim} dimensions, its sharding rule {partition} {len(partition)}')
        for dimension, axes in enumerate(partition):
            n = int(np.prod([mesh.shape[a] for a in (axes if isinstance(axes, tuple) else (axes,)) if a]))
            if leaf.shape[dimension] % n:
                raise UserError(f'{name}: dimension {dimension} of size {leaf.shape[dimension]} is not divisible by '
                                f'mesh axis {axes} of size {n}')
        return NamedSharding(mesh, partition)
    return jax.tree_util.tree_map_with_path(place, tree)


def targets(shapes, mesh: Mesh):
    """The tree of shapes as ShapeDtypeStructs that carry their shardings: what a checkpoint is restored into."""
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes,
                        shardings(shapes, mesh))


def batch_sharding(mesh: Mesh):
    """Rows of a batch over data and fsdp."""
    return NamedSharding(mesh, BATCH)


def replicated(mesh: Mesh):
    """The whole array on every device."""
    return NamedSharding(mesh, P())


def place(read, size, mesh: Mesh):
    """A batch of `size` rows onto the mesh; each process reads its own rows alone.

    read: slice of rows -> dict of host arrays, those rows first.
    """
    where = batch_sharding(mesh)
    taken = [index[0].indices(size)[:2] for index in where.addressable_devices_indices_map((size,)).values()]
    low, high = min(start for start, _ in taken), max(stop for _, stop in taken)

    def array(x):
        if where.is_fully_addressable:
            return jax.device_put(x, where)

        def piece(index):
            start, stop, _ = index[0].indices(size)
            return x[start - low:stop - low]
        return jax.make_array_from_callback((size, *x.shape[1:]), where, piece)
    return jax.tree.map(array, read(slice(low, high)))


def check_batch(size, microbatches, mesh: Mesh):
    """UserError unless every device gets the same number of rows of every microbatch."""
    n = mesh.shape['data'] * mesh.shape['fsdp']
    if microbatches < 1 or size % microbatches or (size // microbatches) % n:
        raise UserError(f'batch.size = {size} in {microbatches} microbatch(es) is not divisible by {n} devices '
                        f"(mesh data={mesh.shape['data']} x fsdp={mesh.shape['fsdp']})")


def constrain(x, name):
    """Pin an activation to its rule inside a jitted function under `jax.set_mesh`; x itself where there is no mesh."""
    return jax.lax.with_sharding_constraint(x, spec(name)) if _within_mesh() else x


def gathered(x, name):
    """An array stored by the rule of `name`, whole on every device: gathered once, in the type that it has here.

    Its gradient is placed by the same rule, so that what devices add up goes to the owners of its parts instead of to
    all. x itself where there is no mesh.
    """
    if not _within_mesh():
        return x

    @jax.custom_vjp
    def gather(x):
        # Placed twice: with the second alone the compiler may gather what x was converted from, of twice the size.
        return constrain(constrain(x, name), 'table')
    gather.defvjp(lambda x: (gather(x), None), lambda _, gradient: (constrain(gradient, name),))
    return gather(x)


def _within_mesh():
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and mesh.size > 1
