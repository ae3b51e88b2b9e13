"""What the devices do in a few steps of training: a trace for TensorBoard or Perfetto (config.profile='START:STOP'),
and their time."""
import os
import time
from typing import Any

import jax
import numpy as np

from gpt1_jax import storage


class Trace:
    """The trace of the steps after `first` up to `last`, into a directory; every process adds its own files.

    span: (first, last), or None for no trace. `before` and `after` are called around each step, and cost nothing
    outside of the span.
    """

    def __init__(self, span: tuple[int, int] | None = None, directory: str | os.PathLike | None = None) -> None:
        self._first, self._last = span or (None, None)
        self._directory = directory
        self._running = False

    def before(self, step: int) -> None:
        if step == self._first:
            self._local = storage.cache(self._directory) if storage.remote(self._directory) else self._directory
            jax.profiler.start_trace(self._local)
            self._running = True

    def after(self, step: int, results: Any, final: bool = False) -> None:
        """results: arrays that the step computed, waited for where the trace ends. final: no step follows."""
        if self._running and (step == self._last or final):
            jax.block_until_ready(results)
            jax.profiler.stop_trace()
            self._running = False
            if storage.remote(self._directory):
                storage.upload(self._local, self._directory)


def time_steps(program: Any, hyper: dict, batches: Any, steps: int) -> tuple[float, float]:
    """(seconds of the first step, which compiles; seconds of each of the next `steps`).

    program, batches: a loop.Program and its loop.Batches.
    """
    def train(state, step):
        batch = program.place(lambda rows: batches.read(step, rows), batches.size)
        return program.step(state, batch, hyper, *batches.resident)
    state = program.init(np.uint32(0))
    started = time.perf_counter()
    state, metrics = train(state, 0)
    jax.block_until_ready(metrics)
    compiled = time.perf_counter()
    for step in range(1, steps + 1):
        state, metrics = train(state, step)
    jax.block_until_ready(metrics)
    return compiled - started, (time.perf_counter() - compiled) / steps
