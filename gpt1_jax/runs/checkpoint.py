"""Writes checkpoints asynchronously through Orbax's v1 interface, and verifies them when reading.

A checkpoint has the items params, opt_state and meta. Orbax restores some corrupted files without
an error. So meta holds a digest of every array, computed on the device from its values (the same on
any mesh), and a digest of itself. The digests show whether a step is sound, and which array is
damaged. retention.py needs only meta to choose the steps to keep. No other module imports Orbax.
"""

import concurrent.futures
import contextlib
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from orbax.checkpoint import v1 as ocp

from gpt1_jax import storage
from gpt1_jax.parallel import processes
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.runs import retention
from gpt1_jax.runs.checkpoint_errors import CheckpointError, Mismatch, explained, together

# For callers of this module
from gpt1_jax.runs.checkpoint_errors import DamagedError as DamagedError
from gpt1_jax.runs.provenance import describe, environment
from gpt1_jax.runs.retention import steps
from gpt1_jax.training.loop import TrainState

_TRIES = 5  # of a write to an object store


class Writer:
    """Writes the checkpoints of a run.

    Keeps the latest `keep_latest`, the best `keep_best`, and all of `keep_steps`.
    """

    def __init__(
        self,
        directory: storage.Path,
        keep_latest: int = 2,
        keep_best: int = 1,
        keep_steps: Sequence[int] = (),
    ) -> None:
        self.directory = directory
        self._keep = (keep_latest, keep_best, keep_steps)
        self._pool = concurrent.futures.ThreadPoolExecutor(1, 'checkpoint')
        self._pending: tuple[int, concurrent.futures.Future] | None = None  # the write in progress
        self._saved = set(steps(self.directory))
        # {step: quality} of the steps that retention may delete. A step with a damaged meta stays
        self._qualities = {}
        for step in self._saved:
            with contextlib.suppress(CheckpointError):
                self._qualities[step] = read_meta(self.directory, step)['quality']
        with explained(self.directory, None, writes=True):
            if processes.primary():
                storage.mkdir(self.directory)
                retention.clear(self.directory)

    def save(self, state: TrainState, meta: dict, quality: float | None = None) -> None:
        """Write a step in the background. Return once the state may be donated to the next step.

        quality: higher is better, and decides which steps are the best. Saved steps are not written
        again. CheckpointError if the previous write failed.
        """
        self._finish()
        step = int(state.step)
        if step in self._saved:
            return
        with explained(self.directory, step, writes=True):
            items = {'params': state.params, 'opt_state': state.opt_state}
            meta = meta | {
                'step': step,
                'quality': quality,
                'skipped': int(state.skipped),
                'environment': environment(state.params),
                'arrays': {name: describe(tree) for name, tree in items.items()},
            }
            meta = json.loads(json.dumps(meta))  # tuples become lists, as they will be read
            meta['digest'] = storage.json_digest(meta)
            if jax.default_backend() == 'cpu':
                # On a CPU Orbax's "copy to the host" is the device's own buffer, which the next
                # step overwrites.
                items = jax.tree.map(jnp.copy, items)
            items['meta'] = meta
            response = _write(self.directory / str(step), items)
        self._pending = step, self._pool.submit(self._settle, response, items, step, quality)

    def check(self) -> None:
        """CheckpointError if the write in progress has failed by now. Does not wait."""
        if self._pending and self._pending[1].done():
            self._finish()

    def close(self) -> None:
        """Wait for the last write. CheckpointError if it failed."""
        try:
            self._finish()
        finally:
            self._pool.shutdown()

    def _finish(self):
        if self._pending:
            (step, future), self._pending = self._pending, None
            with explained(self.directory, step, writes=True):
                future.result()

    def _settle(self, response, items, step, quality):
        """Delete the steps that are not kept, once a step is committed. Runs in a thread."""
        for again in reversed(range(_TRIES)):
            try:
                response.result()
                break
            except ValueError as error:
                # The reply to a write of OCDBT's manifest was lost. TensorStore repeats the write,
                # finds the manifest that it wrote itself, and gives up.
                gone = any(
                    isinstance(leaf, jax.Array) and leaf.is_deleted()
                    for leaf in jax.tree.leaves(items)
                )
                if (
                    'ALREADY_EXISTS' not in str(error)
                    or gone
                    or not again
                    or jax.process_count() > 1
                ):
                    raise
                retention.clear(self.directory)
                response = _write(self.directory / str(step), items)
        self._saved.add(step)
        self._qualities[step] = quality
        if not processes.primary():  # only process 0 deletes steps
            return
        for old in self._qualities.keys() - retention.kept(self._qualities, *self._keep):
            retention.delete(self.directory / str(old))
            del self._qualities[old]


def _write(path, items):
    """Starts to write {item: its tree} in the background, and returns Orbax's response."""
    context = ocp.Context()
    context.checkpointables.registry = ocp.handlers.local_registry()
    context.checkpointables.registry.add(ocp.handlers.JsonHandler, checkpointable_name='meta')
    with context:
        return ocp.save_checkpointables_async(path, items)


def best_step(directory: storage.Path) -> int:
    """The saved step of highest quality, the earliest of equals.

    The latest step if no step has a quality.
    """
    qualities = {step: read_meta(directory, step)['quality'] for step in steps(directory)}
    ranked = retention.ranked(qualities)
    return ranked[0] if ranked else max(qualities)


def read_meta(directory: storage.Path, step: int) -> dict:
    """Reads the meta given to Writer.save, with 'step', 'quality', 'environment' and 'arrays'.

    'arrays' has shape, dtype and digest of every leaf. DamagedError if meta was changed since it
    was written.
    """
    with explained(directory, step, 'meta'):
        # Not through Orbax, which numbers its reads: one process may read more than the others
        meta = json.loads(storage.read(directory / str(step) / 'meta' / 'data.json'))
        if meta.pop('digest', None) != storage.json_digest(meta):
            raise Mismatch('meta does not match the digest made when it was saved')
        if meta['step'] != step:
            raise Mismatch(f'holds step {meta["step"]}')
    return meta


def restore(directory: storage.Path, step: int, abstract: TrainState) -> TrainState:
    """Reads the TrainState of a step, and checks every array against its digest.

    abstract: TrainState of ShapeDtypeStructs with shardings, on any mesh, which the result has too.
    CheckpointError if arrays are missing or have other shapes. DamagedError if they were changed
    since they were written.
    """

    def scalar(value, abstract):
        return jax.make_array_from_callback(
            (), abstract.sharding, lambda _: np.asarray(value, abstract.dtype)
        )

    tree = _restore(directory, step, {'params': abstract.params, 'opt_state': abstract.opt_state})
    skipped = read_meta(directory, step)['skipped']
    return TrainState(
        scalar(step, abstract.step),
        tree['params'],
        tree['opt_state'],
        scalar(skipped, abstract.skipped),
        scalar(False, abstract.halted),
    )


def restore_params(directory: storage.Path, step: int, abstract: Any) -> Any:
    """Reads only the parameters of a step, as `restore` does."""
    return _restore(directory, step, {'params': abstract})['params']


def params_digest(meta: dict) -> str:
    """One digest of all parameters of a checkpoint, 16 hex digits, from its meta."""
    digests = sorted((name, array['digest']) for name, array in meta['arrays']['params'].items())
    return hashlib.sha256(repr(digests).encode()).hexdigest()[:16]


def _restore(directory, step, abstract):
    """Reads {item: its tree} for the items of {item: tree of ShapeDtypeStructs}."""
    stored = read_meta(directory, step)['arrays']
    restored = {}
    for item, tree in abstract.items():
        _check_shapes(f'{directory / str(step)}: {item}', tree, stored[item])
        with explained(directory, step, item):
            with together():
                restored[item] = _read(directory / str(step), item, tree)
            for name, array in describe(restored[item]).items():
                if array['digest'] != stored[item][name]['digest']:
                    raise Mismatch(
                        f'{item}/{name} is damaged: its values do not match the digest made when '
                        'it was saved'
                    )
    return restored


def _check_shapes(where, tree, stored):
    """CheckpointError unless the stored arrays have the names and shapes of the tree's leaves."""
    wanted = named_leaves(tree)
    for name in sorted(wanted.keys() ^ stored.keys()):
        place = (
            'not in the checkpoint'
            if name in wanted
            else 'in the checkpoint, but not in this model'
        )
        raise CheckpointError(f'{where}/{name} is {place}')
    for name, leaf in wanted.items():
        shape = tuple(stored[name]['shape'])
        if leaf.shape != shape:
            raise CheckpointError(
                f'{where}/{name} has shape {shape}, this model wants {leaf.shape}'
            )


def _read(path, item, abstract):
    """Reads the arrays of an item of a step.

    Does not wait for other processes, which may have failed.
    """
    context = ocp.Context()
    context.multiprocessing.active_processes = {jax.process_index()}
    context.multiprocessing.primary_host = jax.process_index()
    with context:
        return ocp.load_checkpointables(path, {item: abstract})[item]
