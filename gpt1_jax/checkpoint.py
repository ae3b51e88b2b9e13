"""Checkpoints through Orbax, its only importer: items params, opt_state and meta, written asynchronously, checked when
read.

Orbax restores some corrupted files without a word, so meta holds a digest of every array, made on the device from the
values themselves: the same on any mesh.
"""
import contextlib
import hashlib
import math
import os
import pathlib
import re

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import (
    AnyPreservationPolicy,
    BestN,
    CustomSteps,
    LatestN,
)

from gpt1_jax.errors import UserError
from gpt1_jax.hashing import mix
from gpt1_jax.training import TrainState


class CheckpointError(UserError):
    """A checkpoint that cannot be read, is damaged, or does not fit; the message names directory, step and array."""


class Writer:
    """The checkpoints of a run in progress: the latest `keep_latest`, the best `keep_best`, all of `keep_steps`."""

    def __init__(self, directory, keep_latest=2, keep_best=1, keep_steps=()):
        best = BestN(get_metric_fn=lambda m: (m['quality'], -m['step']),  # of equals the earliest, as best_step says
                     n=keep_best, keep_checkpoints_without_metrics=False)
        policies = [LatestN(keep_latest), CustomSteps(list(keep_steps)), best]
        self.directory = pathlib.Path(directory).absolute()
        self._manager = ocp.CheckpointManager(self.directory, options=ocp.CheckpointManagerOptions(
            preservation_policy=AnyPreservationPolicy(policies), cleanup_tmp_directories=True))

    def save(self, state: TrainState, meta: dict, quality=None):
        """Write a step in the background; returns once the state may be donated to the next update.

        quality: higher is better; decides which steps are the best. Steps already saved are left as they are.
        """
        step = int(state.step)
        with _one_line(self.directory, step):
            self._manager.wait_until_finished()  # a failed write of the step before shows here
            if step in self._manager.all_steps():
                return
            items = {'params': state.params, 'opt_state': state.opt_state}
            meta = meta | {'step': step, 'quality': quality,
                           'arrays': {name: describe(tree) for name, tree in items.items()}}
            if jax.default_backend() == 'cpu':
                # There the "copy to the host" is the device's own buffer, which the next update overwrites.
                items = jax.tree.map(jnp.copy, items)
            metrics = None
            if quality is not None:
                metrics = {'quality': quality if math.isfinite(quality) else -1e30, 'step': step}
            self._manager.save(step, args=ocp.args.Composite(
                meta=ocp.args.JsonSave(meta), **{name: ocp.args.StandardSave(tree) for name, tree in items.items()}),
                metrics=metrics)

    def close(self):
        """Wait for the last write. CheckpointError if it failed."""
        with _one_line(self.directory, None):
            self._manager.wait_until_finished()
        self._manager.close()


def steps(directory):
    """The complete steps under a checkpoints directory, ascending."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        return []
    return sorted(int(p.name) for p in directory.iterdir() if re.fullmatch(r'\d+', p.name) and (p / 'params').is_dir())


def best_step(directory):
    """The step of highest quality among those present (the earliest of equals), or the latest where none has one."""
    qualities = [(read_meta(directory, step)['quality'], step) for step in steps(directory)]
    finite = [(q, -step) for q, step in qualities if q is not None and math.isfinite(q)]
    return -max(finite)[1] if finite else qualities[-1][1]


def read_meta(directory, step):
    """What Writer.save was given as meta, with 'step', 'quality' and 'arrays' (shape, dtype, digest of every leaf)."""
    with _one_line(directory, step):
        return _read(_path(directory, step) / 'meta', ocp.JsonCheckpointHandler(), ocp.args.JsonRestore())


def restore(directory, step, like: TrainState):
    """The TrainState of a step, placed as `like` says (any mesh), every array checked against its digest.

    like: TrainState of ShapeDtypeStructs with shardings.
    """
    tree = _restore(directory, step, {'params': like.params, 'opt_state': like.opt_state})
    count = jax.device_put(jnp.asarray(step, jnp.int32), like.step.sharding)
    return TrainState(count, tree['params'], tree['opt_state'])


def restore_params(directory, step, like):
    """The parameters of a step alone, placed and checked as in `restore`.

    like: tree of ShapeDtypeStructs with shardings.
    """
    return _restore(directory, step, {'params': like})['params']


def params_digest(meta):
    """One short hex digest of all parameters of a checkpoint, from its meta."""
    arrays = meta['arrays']['params']
    return hashlib.sha256(repr(sorted((k, v['digest']) for k, v in arrays.items())).encode()).hexdigest()[:16]


def describe(tree):
    """{path: {'shape', 'dtype', 'digest'}} of every leaf; the digest is 16 hex digits, the same on any mesh."""
    hashes = jax.device_get(_digests(tree))
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): {'shape': list(leaf.shape), 'dtype': str(leaf.dtype), 'digest': f'{int(a):08x}{int(b):08x}'}
            for (path, leaf), (a, b) in zip(leaves, hashes)}


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


def _restore(directory, step, like):
    stored = read_meta(directory, step)['arrays']
    for item, tree in like.items():
        wanted = {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for name in sorted(wanted.keys() ^ stored[item].keys()):
            raise CheckpointError(f'{_path(directory, step)}: {item}/{name} is ' + (
                'not in the checkpoint' if name in wanted else 'in the checkpoint, but not in this model'))
        for name, leaf in wanted.items():
            if list(leaf.shape) != stored[item][name]['shape']:
                raise CheckpointError(f'{_path(directory, step)}: {item}/{name} has shape '
                                      f'{tuple(stored[item][name]["shape"])}, this model wants {tuple(leaf.shape)}')
    with _one_line(directory, step):
        tree = {item: _read(_path(directory, step) / item, ocp.StandardCheckpointHandler(),
                            ocp.args.StandardRestore(target)) for item, target in like.items()}
    for item in like:
        for name, array in describe(tree[item]).items():
            if array['digest'] != stored[item][name]['digest']:
                raise CheckpointError(f'{_path(directory, step)}: {item}/{name} is damaged: its values do not match '
                                      'the digest made when it was saved')
    return tree


def _read(path, handler, args):
    with ocp.Checkpointer(handler) as checkpointer:
        return checkpointer.restore(path, args=args)


def _path(directory, step):
    return pathlib.Path(os.path.abspath(directory)) / str(step)


def _name(path):
    return jax.tree_util.keystr(path, simple=True, separator='/')


@contextlib.contextmanager
def _one_line(directory, step):
    """Orbax and TensorStore raise bare exceptions of many pages: keep the first line, and say where."""
    try:
        yield
    except (CheckpointError, KeyboardInterrupt):
        raise
    except Exception as error:
        where = directory if step is None else _path(directory, step)
        if not pathlib.Path(where).exists():
            raise CheckpointError(f'{where}: no such checkpoint') from error
        line = (str(error).strip().splitlines() or [''])[0]
        raise CheckpointError(f'{where}: {type(error).__name__}: {line[:300]}') from error
