"""Records the sources of a result or a checkpoint: input files, code, versions, devices, and
digests of arrays."""

import contextlib
import functools
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib

from gpt1_jax import storage
from gpt1_jax.models.dropout import mix
from gpt1_jax.parallel import xla_options
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.version import __version__

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = 'jax jaxlib flax optax orbax-checkpoint sentencepiece spacy ftfy numpy'.split()


def describe(tree: Any) -> dict[str, dict]:
    """{path: {'shape', 'dtype', 'digest'}} of every leaf.

    The digest has 16 hex digits, and is the same on any mesh.
    """
    hashes = jax.device_get(_digests(tree))
    return {
        name: {'shape': list(x.shape), 'dtype': str(x.dtype), 'digest': f'{int(a):08x}{int(b):08x}'}
        for (name, x), (a, b) in zip(named_leaves(tree).items(), hashes)
    }


@jax.jit
def _digests(tree):
    """Two sums for each leaf, uint32[2].

    They are sums, modulo 2^32, of a hash of each element and its index, so that the order of
    summation does not matter.
    """

    def digest(x):
        bits = jax.lax.bitcast_convert_type(
            x, {2: jnp.uint16, 4: jnp.uint32}[x.dtype.itemsize]
        ).astype(jnp.uint32)
        index = jnp.zeros([1] * x.ndim, jnp.uint32)
        stride = 1
        for axis in reversed(range(x.ndim)):
            shape = [n if d == axis else 1 for d, n in enumerate(x.shape)]
            index = index + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
            stride *= x.shape[axis]
        element = mix(bits ^ mix(index))
        return jnp.stack(
            [jnp.sum(element, dtype=jnp.uint32), jnp.sum(mix(element ^ index), dtype=jnp.uint32)]
        )

    return [digest(leaf) for leaf in jax.tree.leaves(tree)]


def environment(tree: Any) -> dict:
    """Versions, compiler flags, and the devices of the tree's arrays or shapes.

    If a run continues in the same environment, the result is the same to the bit.
    """
    sharding = jax.tree.leaves(tree)[0].sharding
    device = next(iter(sharding.device_set))

    def flags(name):
        return ' '.join(sorted(os.environ.get(name, '').split()))

    return {
        'jax': jax.__version__,
        'jaxlib': jaxlib.__version__,
        'XLA_FLAGS': flags('XLA_FLAGS'),
        'LIBTPU_INIT_ARGS': flags('LIBTPU_INIT_ARGS'),
        'xla_options': xla_options.text(device.platform),
        'device': device.device_kind,
        'devices': len(sharding.device_set),
        'mesh': dict(sharding.mesh.shape)
        if isinstance(sharding, jax.sharding.NamedSharding)
        else None,
        'processes': jax.process_count(),
    }


def departures(before: dict, now: dict) -> list[str]:
    """The differences between two environments: ['devices 4 -> 8']."""
    return [
        f'{name} {before.get(name)} -> {value}'
        for name, value in now.items()
        if before.get(name) != value
    ]


def file_hashes(paths: Iterable[str | os.PathLike]) -> dict[str, str]:
    """{file name: first 16 hex digits of its SHA-256}.

    More than 16 files have one entry together.
    """
    hashes = {path: _hash(path, _state(path)) for path in map(str, paths)}
    names = [pathlib.Path(path).name for path in hashes]
    if len(hashes) > 16:
        return {f'{len(hashes)} files': digest(list(zip(names, hashes.values())))}
    if len(set(names)) < len(names):  # files in two folders have the same name
        names = ['/'.join(pathlib.Path(path).parts[-3:]) for path in hashes]
    return dict(zip(names, hashes.values()))


@functools.cache
def _hash(path, state):
    """The hash of a file, which is read again only if its state changed."""
    return storage.sha256(path)[:16]


def _state(path):
    """A value that changes when the file does.

    For an object its generation, for a local file its time and size.
    """
    if storage.remote(path):
        return storage.generation(path)
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def digest(value: Any) -> str:
    """16 hex digits of the SHA-256 of a value as JSON."""
    return storage.json_digest(value)[:16]


@functools.cache
def code_digest() -> str:
    """16 hex digits of this package's sources. Uncommitted changes in a clone count.

    The wheel's copy of configs/ does not count, so the wheel has the digest of the clone from which
    it was built.
    """
    files = sorted(set(PACKAGE.rglob('*.py')) - set((PACKAGE / 'configs').rglob('*.py')))
    return digest(
        [(str(file.relative_to(PACKAGE)), file.read_text(encoding='utf-8')) for file in files]
    )


def versions() -> dict:
    """{'commit', 'code': code_digest(), 'versions'}.

    commit: of the clone, with +dirty if its code has changes. None without a clone. versions: of
    Python and the libraries.
    """
    about = {'python': platform.python_version(), 'gpt1_jax': __version__}
    return {'commit': _commit(), 'code': code_digest(), 'versions': about | installed(LIBRARIES)}


def installed(libraries: Iterable[str]) -> dict[str, str]:
    """{library: version} of the installed libraries."""
    found = {}
    for name in libraries:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _commit():
    if not (PACKAGE.parent / '.git').exists():
        return None

    def git(*arguments):
        return subprocess.run(
            ['git', *arguments], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:  # new files count as well, because they can be imported
        changes = git('status', '--porcelain', 'gpt1_jax', 'configs', 'experiments')
        return git('rev-parse', 'HEAD') + '+dirty' * bool(changes)
    except (OSError, subprocess.CalledProcessError):
        return None
