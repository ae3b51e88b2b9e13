"""Checkpoints through Orbax, its only importer: items params, opt_state and meta, written asynchronously, checked when
read.

Orbax restores some corrupted files without a word. So meta holds a digest of every array, made on the device from the
values themselves (the same on any mesh), and one of its own content: these decide whether a step is sound. After the
commit the SHA-256 of every file is added (file_hashes.py), which names the file when it is not; a step killed before
that is as good. Which steps are kept (retention.py) is decided from meta alone. A step goes by one rename, or in an
object store, which has none, by its marker first: none is ever half there.
"""
import concurrent.futures
import contextlib
import errno
import hashlib
import json
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from gpt1_jax import distributed, file_hashes, retention, storage
from gpt1_jax.errors import UserError
from gpt1_jax.provenance import describe, environment, leaf_name
from gpt1_jax.retention import steps
from gpt1_jax.training import TrainState


class CheckpointError(UserError):
    """A checkpoint that cannot be read or written, or does not fit; the message names directory, step and array."""


class DamagedError(CheckpointError):
    """A step that is not what was written. cause: what is wrong with it; others: the other steps there are."""

    def __init__(self, directory, step, cause):
        self.step, self.cause, self.others = step, cause, [s for s in steps(directory) if s != step]
        super().__init__(f'{step_path(directory, step)}: {cause}; ' + (
            f'other steps there: {", ".join(map(str, self.others))}' if self.others else 'there is no other step'))


class Writer:
    """The checkpoints of a run in progress: the latest `keep_latest`, the best `keep_best`, all of `keep_steps`."""

    def __init__(self, directory, keep_latest=2, keep_best=1, keep_steps=()):
        self.directory = storage.absolute(directory)
        self._keep = (keep_latest, keep_best, keep_steps)
        self._primary = distributed.primary()  # of several processes one alone hashes files and deletes steps
        self._pool = concurrent.futures.ThreadPoolExecutor(1, 'checkpoint')
        self._pending = None  # (step, future) of the write in progress
        self._qualities = {}  # of the steps that retention may delete: one whose meta is damaged is left alone
        for step in steps(self.directory):
            with contextlib.suppress(CheckpointError):
                self._qualities[step] = read_meta(self.directory, step)['quality']
        with _writing(self.directory, None):
            if self._primary:
                retention.clear(self.directory)
            # Orbax would read every step's metrics here and fail on a damaged one; its own retention is not used.
            self._manager = _Manager(self.directory, options=ocp.CheckpointManagerOptions(
                lightweight_initialize=True, cleanup_tmp_directories=True))

    def save(self, state: TrainState, meta: dict, quality=None):
        """Write a step in the background; returns once the state may be donated to the next update.

        quality: higher is better; decides which steps are the best. Steps already saved are left as they are.
        CheckpointError if the write before this one failed.
        """
        self._finish()
        step = int(state.step)
        with _writing(self.directory, step):
            if step in self._manager.all_steps():
                return
            items = {'params': state.params, 'opt_state': state.opt_state}
            meta = meta | {'step': step, 'quality': quality, 'skipped': int(state.skipped),
                           'environment': environment(state.params),
                           'arrays': {name: describe(tree) for name, tree in items.items()}}
            meta = json.loads(json.dumps(meta))  # as it will be read
            meta['digest'] = file_hashes.digest(meta)
            if jax.default_backend() == 'cpu':
                # There the "copy to the host" is the device's own buffer, which the next update overwrites.
                items = jax.tree.map(jnp.copy, items)
            self._manager.save(step, args=ocp.args.Composite(
                meta=ocp.args.JsonSave(meta), **{name: ocp.args.StandardSave(tree) for name, tree in items.items()}))
        self._pending = step, self._pool.submit(self._settle, step, quality)

    def check(self):
        """CheckpointError if the write in progress has failed by now; never waits."""
        if self._pending and self._pending[1].done():
            self._finish()

    def close(self):
        """Wait for the last write. CheckpointError if it failed."""
        try:
            self._finish()
        finally:
            self._pool.shutdown()
            with contextlib.suppress(Exception):  # a failure was told above: Orbax tells it to each thread that waits
                self._manager.wait_until_finished()
            self._manager.close()

    def _finish(self):
        if self._pending:
            (step, future), self._pending = self._pending, None
            with _writing(self.directory, step):
                future.result()

    def _settle(self, step, quality):
        """In a thread: what follows the commit of a step."""
        self._manager.wait_until_finished()
        self._qualities[step] = quality
        if not self._primary:
            return
        try:
            file_hashes.write(step_path(self.directory, step))
        except OSError as error:
            print(f'warning: {step_path(self.directory, step)}: complete, but without its {file_hashes.RECORD} '
                  f'({error.strerror})', file=sys.stderr, flush=True)
        for old in self._qualities.keys() - retention.kept(self._qualities, *self._keep):
            retention.delete(self.directory / str(old))
            del self._qualities[old]


class _Manager(ocp.CheckpointManager):
    def reached_preemption(self, step):
        """The training loop asks at every step. Asked here too, in a thread and for a step that is past, the processes'
        agreement on where to stop would be turned back."""
        return False


def step_path(directory, step):
    return storage.absolute(directory) / str(step)


def best_step(directory):
    """The step of highest quality among those present (the earliest of equals), or the latest where none has one."""
    qualities = {step: read_meta(directory, step)['quality'] for step in steps(directory)}
    return (retention.ranked(qualities) or [max(qualities)])[0]


def read_meta(directory, step):
    """What Writer.save was given as meta, with 'step', 'quality', 'environment' and 'arrays' (shape, dtype, digest of
    every leaf). DamagedError unless it is what was written."""
    with _reading(directory, step):
        meta = _read(step_path(directory, step) / 'meta', ocp.JsonCheckpointHandler(), ocp.args.JsonRestore())
        # A step from before there were digests of meta has neither of the two: one flipped bit cannot make that.
        if {'digest', 'environment'} & meta.keys() and meta.pop('digest', None) != file_hashes.digest(meta):
            raise _Mismatch('meta does not match the digest made when it was saved')
        if meta['step'] != step:
            raise _Mismatch(f'holds step {meta["step"]}')
    return meta


def restore(directory, step, like: TrainState):
    """The TrainState of a step, placed as `like` says (any mesh), every array checked against its digest.

    like: TrainState of ShapeDtypeStructs with shardings.
    """
    tree = _restore(directory, step, {'params': like.params, 'opt_state': like.opt_state})
    skipped = read_meta(directory, step).get('skipped', 0)
    count, skipped, halted = (_scalar(value, target) for value, target in (
        (step, like.step), (skipped, like.skipped), (False, like.halted)))
    return TrainState(count, tree['params'], tree['opt_state'], skipped, halted)


def _scalar(value, target):
    return jax.make_array_from_callback((), target.sharding, lambda _: np.asarray(value, target.dtype))


def restore_params(directory, step, like):
    """The parameters of a step alone, placed and checked as in `restore`.

    like: tree of ShapeDtypeStructs with shardings.
    """
    return _restore(directory, step, {'params': like})['params']


def params_digest(meta):
    """One short hex digest of all parameters of a checkpoint, from its meta."""
    arrays = meta['arrays']['params']
    return hashlib.sha256(repr(sorted((k, v['digest']) for k, v in arrays.items())).encode()).hexdigest()[:16]


def _restore(directory, step, like):
    stored = read_meta(directory, step)['arrays']
    for item, tree in like.items():
        wanted = {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for name in sorted(wanted.keys() ^ stored[item].keys()):
            raise CheckpointError(f'{step_path(directory, step)}: {item}/{name} is ' + (
                'not in the checkpoint' if name in wanted else 'in the checkpoint, but not in this model'))
        for name, leaf in wanted.items():
            if list(leaf.shape) != stored[item][name]['shape']:
                raise CheckpointError(f'{step_path(directory, step)}: {item}/{name} has shape '
                                      f'{tuple(stored[item][name]["shape"])}, this model wants {tuple(leaf.shape)}')
    with _reading(directory, step), _together():
        tree = {item: _read(step_path(directory, step) / item, ocp.StandardCheckpointHandler(),
                            ocp.args.StandardRestore(target)) for item, target in like.items()}
    with _reading(directory, step):
        for item in like:
            for name, array in describe(tree[item]).items():
                if array['digest'] != stored[item][name]['digest']:
                    raise _Mismatch(f'{item}/{name} is damaged: its values do not match the digest made when it was '
                                    'saved')
    return tree


def _read(path, handler, args):
    return handler.restore(path, args=args)  # no Checkpointer: it waits for processes that failed


class _Mismatch(Exception):
    """What was read is not what was written."""


_BLAMELESS = (MemoryError, jax.errors.JaxRuntimeError)  # of the machine that reads; any other may be the file's fault


@contextlib.contextmanager
def _reading(directory, step):
    """Orbax and TensorStore raise bare exceptions of many pages: one line says where, and which file is to blame."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        where = step_path(directory, step)
        if not where.exists():
            raise CheckpointError(f'{where}: no such checkpoint') from error
        cause = str(error) if isinstance(error, _Mismatch) else _cause(error)
        files = file_hashes.differences(where)
        if files:
            more = f' and {len(files) - 3} more files differ' if len(files) > 3 else ''
            cause = f'file {", file ".join(files[:3])}{more} ({cause})'
        elif not isinstance(error, _Mismatch) and (files is not None or isinstance(error, _BLAMELESS)):
            whole = '' if files is None else '; every file is as it was written'
            raise CheckpointError(f'{where}: {cause}{whole}') from error
        raise DamagedError(directory, step, cause) from error


@contextlib.contextmanager
def _writing(directory, step):
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        where = directory if step is None else step_path(directory, step)
        complete = ', '.join(str(s) for s in steps(directory) if s != step) or 'none'
        raise CheckpointError(f'{where}: cannot be written ({_cause(error)}); complete steps: {complete}') from error


@contextlib.contextmanager
def _together():
    """Where one of several processes fails all do: the others would wait for it in what follows."""
    failed = None
    try:
        yield
    except Exception as error:
        failed = error
    if jax.process_count() > 1:
        others = np.ravel(multihost_utils.process_allgather(np.array(failed is not None)))
        if failed is None and others.any():
            failed = OSError(f'process {int(others.argmax())} could not read it')
    if failed:
        raise failed


def _cause(error):
    """The first line of an exception's text, or that the disk is full."""
    text = str(error).strip()
    if getattr(error, 'errno', None) in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in text:
        return os.strerror(errno.ENOSPC)
    return f'{type(error).__name__}: {(text.splitlines() or [""])[0][:200]}'
