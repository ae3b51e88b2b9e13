"""How a step is timed: warm-up, then windows of several steps with one synchronisation each; or
several in turns."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import jax


def measure(run: Callable[[int], float], warmup: int, windows: int, steps: int) -> dict:
    """{'first_seconds', 'losses', 'step_seconds'}: of the first step with its compilation; a loss
    before each window and after the last; the mean step of each window.

    run: n -> the loss after n more steps, a float, which waits for the device.
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


def in_turns(runs: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, dict]:
    """{name: {'first_seconds', 'seconds'}} of functions that run one after the other, once, which
    compiles, and in `turns` timed turns."""
    wall = {name: [] for name in runs}
    for _ in range(turns + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            wall[name].append(time.perf_counter() - began)
    return {
        name: {'first_seconds': first, 'seconds': others} for name, (first, *others) in wall.items()
    }


def alone(function: Callable, *arguments: Any) -> Any:
    """What a function of a module returns, called in a process of its own, which compiles all that
    it runs."""
    with futures.ProcessPoolExecutor(
        1, multiprocessing.get_context('spawn'), _without_cache
    ) as process:
        return process.submit(function, *arguments).result()


def _without_cache():
    """From JAX's persistent cache, a first step would be measured without the time to compile
    it."""
    jax.config.update('jax_enable_compilation_cache', False)


def throughput(step_seconds: Sequence[float], tokens: int) -> tuple[float, float, float]:
    """(median, lowest, highest) tokens a second over windows."""
    return (
        tokens / statistics.median(step_seconds),
        tokens / max(step_seconds),
        tokens / min(step_seconds),
    )
