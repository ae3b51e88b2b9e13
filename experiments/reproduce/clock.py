"""The device time of a job, over all its starts: a file keeps it, and SIGTERM ends the work when it is used up."""
import contextlib
import math
import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator

from gpt1_jax import storage
from gpt1_jax.errors import Interrupted, UserError

EVERY = 1.0  # seconds between writes of the file: a kill loses at most that


class Clock:
    """Seconds that each stage has used, kept in a file as {stage: seconds}.

    total: seconds for the whole job. start: seconds for a stage in this start, or None. When either is used up, the
    process gets one SIGTERM, as from a scheduler.
    """

    def __init__(self, path: str | pathlib.Path, total: float = math.inf, start: float | None = None) -> None:
        self.path, self.total, self.start = pathlib.Path(path), total, start
        self.stages = {}
        self._running = None  # (stage, when it began)
        if self.path.exists():
            try:
                self.stages = {name: float(seconds) for name, seconds in storage.read_json(self.path).items()}
            except (UserError, ValueError, AttributeError, TypeError):
                raise UserError(f'{self.path}: damaged: write {{"seconds": S}} with the seconds used so far') from None

    @property
    def used(self) -> float:
        now = 0 if self._running is None else time.monotonic() - self._running[1]
        return sum(self.stages.values()) + now

    @property
    def left(self) -> float:
        return self.total - self.used

    @contextlib.contextmanager
    def counting(self, stage: str) -> Iterator[None]:
        """Count the time inside this context for a stage."""
        self._running = stage, time.monotonic()
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.stages = self._write()
            self._running = None

    def _write(self):
        stage, began = self._running
        stages = self.stages | {stage: self.stages.get(stage, 0) + time.monotonic() - began}
        storage.write_json(self.path, {name: round(used, 1) for name, used in stages.items()})
        return stages

    def _watch(self, done):
        stopped = False
        while not done.wait(EVERY):
            self._write()
            over = self.left <= 0 or self.start is not None and time.monotonic() - self._running[1] >= self.start
            if over and not stopped:
                stopped = True
                os.kill(os.getpid(), signal.SIGTERM)


class _Stopped(BaseException):
    """Not an Exception, so that no row, checkpoint or run in progress takes it for a failure of its own."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Turns SIGTERM into Interrupted, wherever the main thread is. Training has a handler of its own, which saves."""
    def stop(*_):
        raise _Stopped
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _Stopped:
        raise Interrupted('stopped by SIGTERM: rerun the same command to resume') from None
    finally:
        signal.signal(signal.SIGTERM, before)
