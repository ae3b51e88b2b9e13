"""Times a step: warm-up, then windows of several steps with one synchronisation each."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import jax


def measure(run: Callable[[int], float], warmup: int, windows: int, steps: int) -> dict:
    """Times a step and returns {'first_seconds', 'losses', 'step_seconds'}.

    first_seconds: the first step with its compilation. losses: after the first step, before each
    window and after the last window. step_seconds: the mean step of each window. run(n) makes n
    more steps, waits for the device, and returns the loss, a float.
    """
    began = time.perf_counter()
    losses = [run(1)]
    first = time.perf_counter() - began
    losses.append(run(max(warmup, 1)))
    seconds = []
    for _ in range(windows):
        began = time.perf_counter()
        losses.append(run(steps))
        seconds.append((time.perf_counter() - began) / steps)
    return {'first_seconds': first, 'losses': losses, 'step_seconds': seconds}


def alone(function: Callable, *arguments: Any) -> Any:
    """Calls a module's function in a new process, which compiles everything that it runs, and
    returns its result."""
    with futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as process:
        return process.submit(uncached, function, *arguments).result()


def uncached(function: Callable, *arguments: Any) -> Any:
    """Calls a function without JAX's persistent cache: with it, a first step would be measured
    without the time to compile it."""
    jax.config.update('jax_enable_compilation_cache', False)
    return function(*arguments)


def throughput(step_seconds: Sequence[float], tokens: int) -> tuple[float, float, float]:
    """Returns (median, lowest, highest) tokens a second over windows."""
    return (
        tokens / statistics.median(step_seconds),
        tokens / max(step_seconds),
        tokens / min(step_seconds),
    )
