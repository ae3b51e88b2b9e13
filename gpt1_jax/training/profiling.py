"""Records and times a few steps of training.

config.profile='START:STOP' records a trace of the devices for TensorBoard or Perfetto.
"""

import contextlib
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gpt1_jax import storage
from gpt1_jax.training import compiling


class Trace:
    """The trace of the steps after `first` up to `last`, in a directory.

    Every process adds files to it. span: (first, last), or None for no trace. `before` and `after`
    are called around each step.
    """

    def __init__(self, span: tuple[int, int] | None = None, directory: storage.Path = None) -> None:
        self._span: tuple[int | None, int | None] = span or (None, None)
        self._directory = directory
        self._local: storage.Path | None = None  # the directory of the running trace

    def before(self, step: int) -> None:
        if step == self._span[0]:
            self._local = (
                storage.cache(self._directory)
                if storage.remote(self._directory)
                else self._directory
            )
            jax.profiler.start_trace(self._local)

    def after(self, step: int, results: Any, final: bool = False) -> None:
        """Ends the trace after its last step.

        results: arrays that the step computed. Before the trace ends, they are waited for. final:
        no step follows.
        """
        if self._local is not None and (step == self._span[1] or final):
            jax.block_until_ready(results)
            self.close()

    def close(self) -> None:
        """Ends a running trace, also if training failed: a process can have only one at a time."""
        if self._local is not None:
            local = self._local
            self._local = None
            jax.profiler.stop_trace()
            if storage.remote(self._directory):
                storage.upload(local, self._directory)


def compile_step(program: Any, hyper: dict, batches: Any) -> tuple[Callable, float, int]:
    """Compiles the step of a loop.Program for its Batches, without running it.

    Returns (the compiled step, seconds of compiling, bytes that the step needs on each device).
    """
    started = time.perf_counter()
    batch = program.place(lambda rows: batches.read(0, rows), batches.size)
    with compiling.announced('the training step', 0):
        step = program.step.trace(program.state, batch, hyper, *batches.resident).lower().compile()
    sizes = step.memory_analysis()
    memory = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    return step, time.perf_counter() - started, memory - sizes.alias_size_in_bytes


def time_steps(
    program: Any, step: Callable, hyper: dict, batches: Any, memory: int, steps: int
) -> float | None:
    """Returns the seconds of each of `steps` steps, timed after a first step.

    Returns None if the memory does not suffice.
    """

    free = free_memory(program.mesh)
    if free is not None and memory > free:
        return None

    def train(state, number):
        batch = program.place(lambda rows: batches.read(number, rows), batches.size)
        return step(state, batch, hyper, *batches.resident)

    try:
        state, metrics = train(program.init(np.uint32(0)), 0)
        jax.block_until_ready(metrics)
        started = time.perf_counter()
        for number in range(1, steps + 1):
            state, metrics = train(state, number)
        jax.block_until_ready(metrics)
    except jax.errors.JaxRuntimeError as error:
        if 'RESOURCE_EXHAUSTED' not in str(error):
            raise
        return None
    return (time.perf_counter() - started) / steps


def free_memory(mesh: jax.sharding.Mesh) -> int | None:
    """Bytes that a device has for a program, or None if unknown.

    CPU devices share the machine's memory.
    """
    device = mesh.local_devices[0]
    if device.platform != 'cpu':
        return (device.memory_stats() or {}).get('bytes_limit')
    found = []
    with contextlib.suppress(OSError):
        for line in pathlib.Path('/proc/meminfo').read_text().splitlines():
            if line.startswith('MemAvailable:'):
                found.append(1024 * int(line.split()[1]))
    with contextlib.suppress(OSError, ValueError):  # 'max': no limit
        used = int(pathlib.Path('/sys/fs/cgroup/memory.current').read_text())
        found.append(int(pathlib.Path('/sys/fs/cgroup/memory.max').read_text()) - used)
    return min(found) // len(mesh.local_devices) if found else None
