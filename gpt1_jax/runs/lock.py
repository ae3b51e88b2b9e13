"""A lock on a directory, for one writer at a time. The file DIR/.lock names the holder.

    with lock.hold(path) as held:  # UserError: another process (pid 12 on a, ...) holds the lock
        for step in steps:
            held.check()           # UserError if another process writes there as well
            train(step)
    # .lock is removed here, and so is a directory that hold() created, if it is empty

Where the file system has flock, the kernel excludes other processes and releases the lock with its
process, so that a killed run can be continued at once. NFS and Lustre share flock between machines
by default.

Elsewhere, as in an object store, .lock says who writes there, and the holder rewrites it every
BEAT_S seconds. A process that finds .lock waits until it has not changed for STALE_S seconds. It
does not wait for a process of this machine that has ended. That is no exclusion: two processes that
start within a second both begin. The one whose record was overwritten stops at its next `check`.
Clocks are not compared. Reading a directory needs no lock.
"""

import contextlib
import datetime
import errno
import fcntl
import functools
import json
import os
import pathlib
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from gpt1_jax import storage
from gpt1_jax.errors import UserError

FILE = '.lock'
BEAT_S = 15
STALE_S = 60  # several beats, because a busy host may miss a beat
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # flock on some network file systems


@contextlib.contextmanager
def hold(directory: storage.Path) -> Iterator['Lock']:
    """Hold the lock on a directory.

    The directory is created if it does not exist, and removed at the end if it is still empty.
    UserError if another process holds the lock, naming the process, or if the directory cannot be
    written. Without flock, prints so and waits up to STALE_S seconds if the holder may have died.
    """
    places = () if storage.remote(directory) else (directory, *directory.parents)
    new = [path for path in places if not path.exists()]
    storage.mkdir(directory)
    try:
        lock = Lock(directory)
        try:
            yield lock
        finally:
            lock.release()
    finally:
        for path in new:
            with contextlib.suppress(OSError):  # not empty
                path.rmdir()


class Lock:
    """A lock that is held, from its creation until `release`."""

    def __init__(self, directory: storage.Path) -> None:
        self.directory = directory
        self._path = directory / FILE
        self._record = {
            'pid': os.getpid(),
            'host': socket.gethostname(),
            'machine': _machine(),
            'numbers': _numbers(),
            'since': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
            'id': uuid.uuid4().hex,
            'beat': 0,
        }
        self._other: dict | None = None  # the record of another process that writes there
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        with storage.naming(self._path):
            self._file = None if storage.remote(directory) else _flocked(self._path)
            if self._file is None:
                _wait(self._path)
            self._write()
        if self._file is None:
            self._thread.start()

    def check(self) -> None:
        """UserError if another process writes into the directory as well."""
        if self._other:
            raise UserError(
                f'{_who(self._other)} has taken over the lock on {self.directory}: stopped'
            )

    def release(self) -> None:
        """Release the lock. If that fails, it expires."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with contextlib.suppress(OSError):
            if not self._other:
                self._path.unlink()
        if self._file is not None:
            os.close(self._file)

    def _write(self):
        content = json.dumps(self._record).encode() + b'\n'
        if self._file is None:
            storage.write(self._path, content)
            return
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))

    def _beat(self):
        while not self._stop.wait(BEAT_S):
            with contextlib.suppress(OSError):  # the next beat may get through
                found = _read(self._path)
                if found and found.get('id') != self._record['id']:
                    self._other = found
                    return
                self._record['beat'] += 1
                self._write()


def _flocked(path):
    """.lock, open with an flock, or None if the file system has none. UserError if another process
    has the flock."""
    while True:
        file = storage.open_own(path, os.O_RDWR | os.O_CREAT)
        try:
            if not flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                os.close(file)
                return None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    return file
            os.close(file)  # the holder removed .lock meanwhile
        except BlockingIOError:
            found = _parsed(os.pread(file, 4096, 0))
            os.close(file)
            raise _refusal(path, found) from None
        except BaseException:
            os.close(file)
            raise


def flock(file: int | BinaryIO, operation: int) -> bool:
    """Calls fcntl.flock, and returns whether the file system has it."""
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        return False
    return True


def _wait(path):
    """Wait until .lock was removed or has not changed for STALE_S seconds, not at all if its holder
    has ended. UserError as soon as the holder rewrites it."""
    before = holder = _read(path)
    if not holder or _has_ended(holder):
        return
    print(
        f'{path.parent}: locked by {_who(holder)}, which may have died: waiting up to {STALE_S} s '
        'for a heartbeat',
        file=sys.stderr,
        flush=True,
    )
    deadline = time.monotonic() + STALE_S
    while time.monotonic() < deadline and before:
        time.sleep(min(1, BEAT_S / 4))
        before = _read(path)
        if before and before != holder:
            raise _refusal(path, holder)


def _has_ended(holder):
    """Whether the process of a record is known to have ended.

    It has if its process number counts here and no process has that number.
    """
    pid = holder.get('pid')
    here = holder.get('machine') == _machine() and holder.get('numbers') == _numbers() is not None
    if not here or not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # perhaps another user's process
        return False
    return False


def _refusal(path, holder):
    return UserError(f'another {_who(holder)} holds the lock on {path.parent}')


def _who(holder):
    """'process (pid 12 on host, since ...)', as far as a record says."""
    if not holder:
        return 'process'
    return f'process (pid {holder.get("pid")} on {holder.get("host")}, since {holder.get("since")})'


def _read(path):
    """The record in .lock, a dict. {} if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return _parsed(storage.read(path))
    return {}


def _parsed(content):
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@functools.cache
def _machine():
    """An identifier of the running kernel, also of all its containers."""
    try:
        return pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()
    except OSError:
        return socket.gethostname()


def _numbers():
    """An identifier of the namespace in which a process number is unique.

    Each container has such a namespace. None if the namespace is not known, as outside Linux.
    """
    try:
        return os.readlink('/proc/self/ns/pid')
    except OSError:
        return None
