"""What a checkpoint's meta says of how it was made: a digest of every array; versions, flags and devices."""
import os

import jax
import jax.numpy as jnp
import jaxlib

from gpt1_jax.hashing import mix


def describe(tree):
    """{path: {'shape', 'dtype', 'digest'}} of every leaf; the digest is 16 hex digits, the same on any mesh."""
    hashes = jax.device_get(_digests(tree))
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {leaf_name(path): {'shape': list(x.shape), 'dtype': str(x.dtype), 'digest': f'{int(a):08x}{int(b):08x}'}
            for (path, x), (a, b) in zip(leaves, hashes)}


@jax.jit
def _digests(tree):
    """Two sums per leaf, modulo 2^32, of a hash of each element with its place: exact in any order of summation."""
    def digest(x):
        bits = jax.lax.bitcast_convert_type(x, {2: jnp.uint16, 4: jnp.uint32}[x.dtype.itemsize]).astype(jnp.uint32)
        place, stride = jnp.zeros([1] * x.ndim, jnp.uint32), 1
        for axis in reversed(range(x.ndim)):
            shape = [n if d == axis else 1 for d, n in enumerate(x.shape)]
            place = place + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
            stride *= x.shape[axis]
        element = mix(bits ^ mix(place))
        return jnp.stack([jnp.sum(element, dtype=jnp.uint32), jnp.sum(mix(element ^ place), dtype=jnp.uint32)])
    return [digest(leaf) for leaf in jax.tree.leaves(tree)]


def environment(tree):
    """What a bit-equal continuation has to have in common with the run that saved: versions, compiler flags, devices.

    tree: arrays, or ShapeDtypeStructs with shardings.
    """
    sharding = jax.tree.leaves(tree)[0].sharding
    return {'jax': jax.__version__, 'jaxlib': jaxlib.__version__,
            **{name: ' '.join(sorted(os.environ.get(name, '').split())) for name in ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')},
            'device': next(iter(sharding.device_set)).device_kind, 'devices': len(sharding.device_set),
            'mesh': dict(sharding.mesh.shape) if isinstance(sharding, jax.sharding.NamedSharding) else None,
            'processes': jax.process_count()}


def departures(before, now):
    """What differs between two environments, a phrase each: ['devices 4 -> 8']; [] where a run goes on to the bit."""
    return [f'{name} {before.get(name)} -> {value}' for name, value in now.items() if before.get(name) != value]


def leaf_name(path):
    """'blocks/mlp/fc/kernel' of a leaf's key path."""
    return jax.tree_util.keystr(path, simple=True, separator='/')
