"""Turns any failure to read or write a checkpoint into one line, with the step, the array and the
other steps.

Orbax and TensorStore raise many exceptions, some of them pages long, and a damaged file can cause
almost any of them.
"""

import contextlib
import errno
import functools
import logging
import os
import re
import sys
from collections.abc import Iterator

from gpt1_jax import storage
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import processes
from gpt1_jax.runs.retention import steps


class CheckpointError(UserError):
    """A checkpoint that cannot be read or written, or does not fit.

    The message names directory, step and array.
    """


class DamagedError(CheckpointError):
    """A step that was changed since it was written.

    cause: the damage. others: the other steps of the directory.
    """

    def __init__(self, directory: storage.Path, step: int, cause: str) -> None:
        self.step = step
        self.cause = cause
        self.others = [other for other in steps(directory) if other != step]
        others = (
            f'other steps there: {", ".join(map(str, self.others))}'
            if self.others
            else 'there is no other step'
        )
        super().__init__(f'{directory / str(step)}: {cause}; {others}')


class Mismatch(Exception):
    """A difference between the written and the read values.

    `explained` turns it into a DamagedError.
    """


# Faults of the machine that reads, JaxRuntimeError among them. Any other is taken for the file's.
_MACHINE = (MemoryError, RuntimeError, PermissionError, TimeoutError, ConnectionError)


@contextlib.contextmanager
def explained(
    directory: storage.Path, step: int | None, item: str = '', writes: bool = False
) -> Iterator[None]:
    """Turns any exception while a step is read into a CheckpointError.

    The error is a DamagedError, unless the machine is at fault. item: the part of the step that is
    read. writes: the step (None: the directory) is written instead.
    """
    _quiet()
    where = directory if step is None else directory / str(step)
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        if writes:
            complete = ', '.join(str(s) for s in steps(directory) if s != step) or 'none'
            cause = f'cannot be written ({_cause(error)}); complete steps: {complete}'
            raise CheckpointError(f'{where}: {cause}') from error
        if not where.exists():
            raise CheckpointError(f'{where}: no such checkpoint') from error
        if isinstance(error, _MACHINE):
            raise CheckpointError(f'{where}: {_cause(error)}') from error
        assert step is not None  # a directory is only written
        cause = (
            str(error) if isinstance(error, Mismatch) else f'{item} is damaged ({_cause(error)})'
        )
        raise DamagedError(directory, step, cause) from error


@contextlib.contextmanager
def together() -> Iterator[None]:
    """If one of several processes fails, makes all fail.

    Otherwise the others would wait for it at the next collective operation.
    """
    failed = None
    try:
        yield
    except Exception as error:
        failed = error
    if not processes.everywhere(failed is None):
        raise failed or OSError('another process could not read it')


def _cause(error):
    """The first line of the text of an exception's first cause, or that the disk is full."""
    # Orbax says that a handler is "incompatible". TensorStore, below it, names the file and why
    while error.__cause__:
        error = error.__cause__
    text = re.sub(r'Error opening "\w+" driver: | \[tensorstore_spec.*', '', str(error).strip())
    if (
        getattr(error, 'errno', None) in (errno.ENOSPC, errno.EDQUOT)
        or os.strerror(errno.ENOSPC) in text
    ):
        return os.strerror(errno.ENOSPC)
    return f'{type(error).__name__}: {(text.splitlines() or [""])[0][:500]}'


@functools.cache
def _quiet():
    """Silence 'Event loop is closed' from TensorStore's threads, and the errors of other arrays.

    After an error Orbax closes the loop that they call, and Python would print dozens of these
    errors beside the one line.
    """

    def quieter(hook, error):
        return lambda *args: str(error(*args)) == 'Event loop is closed' or hook(*args)

    logging.getLogger('asyncio').addFilter(
        lambda record: 'exception was never retrieved' not in record.getMessage()
    )
    sys.unraisablehook = quieter(sys.unraisablehook, lambda args: args.exc_value)
    sys.excepthook = quieter(sys.excepthook, lambda kind, error, traceback: error)
