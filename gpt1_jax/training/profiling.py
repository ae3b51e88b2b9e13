"""Records and times a few steps of training.

config.profile='START:STOP' records a trace of the devices for TensorBoard or Perfetto.
"""

import contextlib
import pathlib
import time
from typing import Any

import jax
import numpy as np

from gpt1_jax import storage
from gpt1_jax.errors import UserError
from gpt1_jax.training import compiling

STEPS = 3  # that are timed


class Trace:
    """The trace of the steps after `first` up to `last`, in a directory.

    Every process adds files to it. span: (first, last), or None for no trace. `before` and `after`
    are called around each step. A training that begins inside the span records the rest of it.
    """

    def __init__(self, span: tuple[int, int] | None, directory: storage.Path) -> None:
        self._first, self._last = span or (0, 0)
        self._directory = directory
        self._local: storage.Path | None = None  # the directory of the running trace

    def before(self, step: int) -> None:
        if self._local is None and self._first <= step < self._last:
            self._local = storage.local(self._directory)
            jax.profiler.start_trace(self._local)

    def after(self, step: int, results: Any) -> None:
        """Ends the trace after its last step.

        results: arrays that the step computed. Before the trace ends, they are waited for.
        """
        if self._local is not None and step == self._last:
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


def time_step(program: Any, hyper: dict, batches: Any) -> tuple[float, float]:
    """Compiles the step of a loop.Program for its Batches, and makes a few.

    Returns (seconds of a step after the first, seconds of compiling). UserError if the step needs
    more memory than a device has free.
    """
    began = time.perf_counter()
    first = batches.place(0, program.mesh)
    with compiling.announced('training_step()'):
        step = program.step.trace(program.state, first, hyper, *batches.resident).lower().compile()
    compiled = time.perf_counter() - began
    sizes = step.memory_analysis()
    memory = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    memory -= sizes.alias_size_in_bytes
    free = free_memory(program.mesh)
    if free is not None and memory > free:
        raise UserError(
            f'a step needs {memory / 2**30:.1f} GiB, more than a device has free '
            f'({free / 2**30:.1f} GiB): give --config.batch.microbatches=N (the same update)'
        )
    state = program.init(np.uint32(0))
    for number in range(STEPS + 1):
        batch = batches.place(number, program.mesh)
        state, metrics = step(state, batch, hyper, *batches.resident)
        if number == 0:
            jax.block_until_ready(metrics)
            began = time.perf_counter()
    jax.block_until_ready(metrics)
    return (time.perf_counter() - began) / STEPS, compiled


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
