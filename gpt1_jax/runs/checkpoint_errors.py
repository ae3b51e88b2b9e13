"""One line for whatever fails while a checkpoint is read or written: which step, which file, which other steps.

Orbax and TensorStore raise many exceptions, some of them pages long, and a damaged file can cause almost any of them.
"""
import contextlib
import errno
import functools
import os
import pathlib
import sys
from collections.abc import Iterator

import jax

from gpt1_jax import storage
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import processes
from gpt1_jax.runs import file_hashes
from gpt1_jax.runs.retention import steps


class CheckpointError(UserError):
    """A checkpoint that cannot be read or written, or does not fit; the message names directory, step and array."""


class DamagedError(CheckpointError):
    """A step that is not what was written. cause: what is wrong with it; others: the other steps of the directory."""

    def __init__(self, directory, step, cause) -> None:
        self.step = step
        self.cause = cause
        self.others = [other for other in steps(directory) if other != step]
        others = f'other steps there: {", ".join(map(str, self.others))}' if self.others else 'there is no other step'
        super().__init__(f'{step_path(directory, step)}: {cause}; {others}')


class Mismatch(Exception):
    """What was read is not what was written: `reading` turns it into a DamagedError."""


def step_path(directory: str | os.PathLike, step: int) -> pathlib.Path:
    return storage.absolute(directory) / str(step)


_MACHINE = (MemoryError, jax.errors.JaxRuntimeError)  # of the machine that reads; any other may be the file's fault


def reading(directory: str | os.PathLike, step: int) -> contextlib.AbstractContextManager:
    """While a step is read: any exception becomes a CheckpointError, or a DamagedError naming the damaged files."""
    return _explained(lambda error: _unreadable(directory, step, error))


def writing(directory: str | os.PathLike, step: int | None) -> contextlib.AbstractContextManager:
    """While a step is written (None: while the directory is opened): any exception becomes a CheckpointError."""
    return _explained(lambda error: _unwritable(directory, step, error))


@contextlib.contextmanager
def _explained(explain):
    """Any exception becomes the CheckpointError that `explain` makes of it."""
    _quiet()
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise explain(error) from error


def _unreadable(directory, step, error):
    where = step_path(directory, step)
    if not where.exists():
        return CheckpointError(f'{where}: no such checkpoint')
    cause = str(error) if isinstance(error, Mismatch) else _cause(error)
    files = file_hashes.differences(where)
    if files:
        more = f' and {len(files) - 3} more files differ' if len(files) > 3 else ''
        cause = f'file {", file ".join(files[:3])}{more} ({cause})'
    elif not isinstance(error, Mismatch) and (files is not None or isinstance(error, _MACHINE)):
        whole = '' if files is None else '; every file is as it was written'
        return CheckpointError(f'{where}: {cause}{whole}')
    return DamagedError(directory, step, cause)


def _unwritable(directory, step, error):
    where = directory if step is None else step_path(directory, step)
    complete = ', '.join(str(s) for s in steps(directory) if s != step) or 'none'
    return CheckpointError(f'{where}: cannot be written ({_cause(error)}); complete steps: {complete}')


@contextlib.contextmanager
def together() -> Iterator[None]:
    """If one of several processes fails, all do: the others would wait for it at the next collective operation."""
    failed = None
    try:
        yield
    except Exception as error:
        failed = error
    if not processes.everywhere(failed is None):
        raise failed or OSError('another process could not read it')


def _cause(error):
    """The first line of an exception's text, or that the disk is full."""
    text = str(error).strip()
    if getattr(error, 'errno', None) in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in text:
        return os.strerror(errno.ENOSPC)
    return f'{type(error).__name__}: {(text.splitlines() or [""])[0][:200]}'


@functools.cache
def _quiet():
    """Silence 'Event loop is closed' from TensorStore's threads: after an error Orbax closes the loop that they call,
    and Python would print dozens of these beside the error's one line."""
    unraisable, uncaught = sys.unraisablehook, sys.excepthook

    def unraisable_hook(args):
        if str(args.exc_value) != 'Event loop is closed':
            unraisable(args)

    def uncaught_hook(kind, error, traceback):
        if str(error) != 'Event loop is closed':
            uncaught(kind, error, traceback)
    sys.unraisablehook, sys.excepthook = unraisable_hook, uncaught_hook
