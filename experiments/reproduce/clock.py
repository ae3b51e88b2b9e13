"""The device time of a job over all its starts, kept in a file. SIGTERM ends the work after it."""

import contextlib
import math
import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator

from gpt1_jax import storage
from gpt1_jax.errors import Interrupted

EVERY = 1.0  # seconds between writes of the file: a kill loses at most that


class _Stopped(BaseException):
    """The end of a job's time. It is not an Exception, so that no row, checkpoint or run in
    progress takes it for its own failure."""


class Clock:
    """The seconds that each stage has used, kept in a file as {stage: seconds}. total: seconds for
    the whole job."""

    def __init__(self, path: str | pathlib.Path, total: float = math.inf) -> None:
        self.path = pathlib.Path(path)
        self.total = total
        self.stages: dict[str, float] = storage.read_json(self.path) if self.path.exists() else {}

    @property
    def used(self) -> float:
        return sum(self.stages.values())

    @property
    def left(self) -> float:
        return self.total - self.used

    def left_of(self, stage: str, limit: float = math.inf) -> float:
        """Returns the seconds that a stage may still use, by its limit and the job's."""
        return min(limit - self.stages.get(stage, 0.0), self.left)

    @contextlib.contextmanager
    def counting(self, stage: str, limit: float = math.inf) -> Iterator[None]:
        """Counts the time inside this context for a stage.

        Once `total`, or the stage's limit, is used up, the process gets one SIGTERM, as from a
        scheduler. Any SIGTERM raises Interrupted here, except in training, which saves first.
        """
        began = time.monotonic()
        before = self.stages.get(stage, 0.0)
        done = threading.Event()

        def write():
            self.stages[stage] = before + time.monotonic() - began
            storage.write_json(
                self.path, {name: round(seconds, 1) for name, seconds in self.stages.items()}
            )

        def watch():
            stopped = False
            while not done.wait(EVERY):
                write()
                if self.left_of(stage, limit) <= 0 and not stopped:
                    stopped = True
                    os.kill(os.getpid(), signal.SIGTERM)

        def stop(*_):
            raise _Stopped

        thread = threading.Thread(target=watch, daemon=True)
        handler = signal.signal(signal.SIGTERM, stop)
        thread.start()
        try:
            yield
        except _Stopped:
            raise Interrupted('stopped by SIGTERM: rerun the same command to resume') from None
        finally:
            signal.signal(signal.SIGTERM, handler)
            done.set()
            thread.join()
            write()
