"""A lock on a directory, for one writer at a time. The file DIR/.lock names the holder.

    with lock.hold(path) as held:  # UserError: another process (pid 12 on a, ...) holds the lock
        for step in steps:
            held.check()           # UserError if another process has taken the lock over
            train(step)
    # .lock is removed here, and so is a directory that hold() created, if it is empty

Other processes are excluded

    on this machine       by flock, which the kernel releases with the process: a killed run can be
                          continued at once
    on other machines     by flock, if the file system shares it between machines (NFS and Lustre by
                          default), and by a lease. The holder rewrites .lock every BEAT_S seconds.
                          Another process watches .lock for LEASE_S seconds and takes it over if it
                          has not changed. If flock is kept to each machine, two processes that
                          start within a second both begin. One of them stops at its next `check`
    in an object store    only by the lease. Each write is conditional on the generation seen
                          before, so exactly one process wins

A lease is taken over at once if its holder ran on this machine and its process has ended. Clocks
are not compared. Reading a directory needs no lock.
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
from collections.abc import Callable, Iterator
from typing import BinaryIO

from gpt1_jax import storage
from gpt1_jax.errors import UserError

FILE = '.lock'
BEAT_S = 15
LEASE_S = 60  # several beats, because a busy host may miss a beat
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # flock on some network file systems


@contextlib.contextmanager
def hold(directory: storage.Path) -> Iterator['Lock']:
    """Hold the lock on a directory.

    The directory is created if it does not exist, and removed at the end if it is still empty.
    UserError if another process holds the lock, naming the process, or if the directory cannot be
    written. If the holder is on another machine and may have died, prints so and waits up to
    LEASE_S seconds for its heartbeat.
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

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._record = {
            'pid': os.getpid(),
            'host': socket.gethostname(),
            'machine': _machine(),
            'beat': 0,
            'numbers': _numbers(),
            'since': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
            'id': uuid.uuid4().hex,
        }
        self._taken_by: dict | None = None  # the record of a process that took the lock over
        kind = _ObjectLease if storage.remote(directory) else _FileLease
        with storage.naming(directory / FILE):
            self._lease = kind(directory / FILE, self._content())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """UserError if another process has taken over the lock.

        This happens if the process does not renew the lock in time.
        """
        if self._taken_by:
            raise UserError(
                f'{_who(self._taken_by)} has taken over the lock on {self.directory}, which this '
                f'process did not renew for more than {LEASE_S} s: stopped'
            )

    def release(self) -> None:
        """Release the lock. If that fails, the lease expires."""
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._lease.release(remove=not self._taken_by)

    def _content(self):
        return json.dumps(self._record).encode() + b'\n'

    def _beat(self):
        while not self._stop.wait(BEAT_S):
            self._record['beat'] += 1
            with contextlib.suppress(OSError):  # the next beat may get through
                self._taken_by = self._lease.renew(self._content()) or None
            if self._taken_by:
                return


class _FileLease:
    """.lock in a directory of a file system, kept open with an flock."""

    def __init__(self, file: pathlib.Path, content: bytes) -> None:
        self._path = file
        self._id = _record(content)['id']
        while True:
            self._file = storage.open_own(file, os.O_RDWR | os.O_CREAT)
            try:
                excludes = self._flock()
                before = self._state()
                found = _record(before)
                if found and not (excludes and found.get('machine') == _machine()):
                    _watch(file, found, before, self._state)
                if self._in_place():
                    self._write(content)
                    return
                os.close(self._file)  # the holder removed .lock meanwhile
            except BaseException:
                os.close(self._file)
                raise

    def renew(self, content):
        """Write the content if .lock still belongs to this process.

        Otherwise return the record in .lock, {} if it is damaged.
        """
        before = (
            self._read() if self._in_place() or not self._path.exists() else self._path.read_bytes()
        )
        if before and _record(before).get('id') != self._id:
            return _record(before)
        self._write(content)

    def release(self, remove):
        # A takeover writes into the same file, and this process may not have noticed it yet.
        if remove and self._in_place() and _record(self._read()).get('id') == self._id:
            self._path.unlink()
        os.close(self._file)

    def _flock(self):
        """Whether flock works here. UserError if another process has it."""
        try:
            return flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refusal(self._path, _record(self._read())) from None

    def _in_place(self):
        """Whether .lock is still the file that is open."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        return False

    def _state(self):
        """The content of .lock, b'' if the file was removed."""
        return self._read() if self._in_place() else b''

    def _read(self):
        return os.pread(self._file, 4096, 0)

    def _write(self, content):
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))
        os.fsync(self._file)


class _ObjectLease:
    """.lock in an object store."""

    def __init__(self, file, content: bytes) -> None:
        self._path = file
        self._id = _record(content)['id']
        while True:
            generation = storage.generation(file)
            if generation != storage.ABSENT:
                _watch(file, _record(self._read()), generation, lambda: storage.generation(file))
            self._generation = storage.replace(file, content, generation)
            # .lock changed meanwhile, perhaps because its holder ended: look again
            if self._generation is not None:
                return

    def renew(self, content):
        """Renew the lease, as _FileLease.renew does."""
        new = storage.replace(self._path, content, self._generation)
        if new is None:
            found = self._read()
            if found and _record(found).get('id') != self._id:
                return _record(found)
            # The reply to an earlier write was lost, or somebody removed .lock. The next beat
            # writes .lock again.
            new = storage.generation(self._path)
        self._generation = new

    def release(self, remove):
        if remove:
            storage.remove(self._path, self._generation)

    def _read(self):
        with contextlib.suppress(FileNotFoundError):
            return storage.read(self._path)
        return b''


def flock(file: int | BinaryIO, operation: int) -> bool:
    """Calls fcntl.flock, and returns whether the file system has it."""
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        return False
    return True


def _watch(file, holder, before, state: Callable[[], object]):
    """Wait until a lease expires or is removed, not at all if its holder has ended.

    UserError as soon as the holder renews the lease, so that state() is no longer `before`.
    """
    if _has_ended(holder):
        return
    print(
        f'{file.parent}: locked by {_who(holder)}, which may have died: waiting up to {LEASE_S} s '
        'for a heartbeat',
        file=sys.stderr,
        flush=True,
    )
    deadline = time.monotonic() + LEASE_S
    while time.monotonic() < deadline:
        time.sleep(min(1, BEAT_S / 4))
        now = state()
        if now in (b'', storage.ABSENT):
            return
        if now != before:
            raise _refusal(file, holder)


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


def _refusal(file, holder):
    return UserError(f'another {_who(holder)} holds the lock on {file.parent}')


def _who(holder):
    """'process (pid 12 on host, since ...)', as far as a record says."""
    if not holder:
        return 'process'
    return f'process (pid {holder.get("pid")} on {holder.get("host")}, since {holder.get("since")})'


def _record(content):
    """The record in .lock, a dict. {} if there is none."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@functools.cache
def _machine():
    """An identifier of the running kernel.

    Within one kernel flock can be relied on, also between containers.
    """
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
