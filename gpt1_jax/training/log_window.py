"""Makes a row of metrics.jsonl from the steps since the last row.

The row has mean metrics, the last learning rate, and tokens per second.
"""

import math
import time
from collections.abc import Sequence

import jax

COUNTS = ('skipped', 'halted')  # metrics that are counts or flags and have no mean


class Window:
    """The metrics of the steps since the last row, and the time that they took.

    metrics: {name: scalar} of each step, on the device. Steps of an earlier run have theirs on the
    host.
    """

    def __init__(self, unlogged: Sequence[dict]) -> None:
        self.metrics = list(unlogged)
        self._compiled: set[tuple] = set()  # shapes of batches
        self._added = 0  # steps of this process in the window
        self._began = time.perf_counter()  # time when the window began
        self._since: float | None = None  # time when the clock was started
        # Time on the clock in the window, and the number of steps that it timed
        self._seconds = 0.0
        self._timed = 0
        self._pace: float | None = None  # seconds a step, from the last window with a timed step

    def start_clock(self) -> None:
        """Starts the clock, before each step.

        Logging, evaluating and saving follow `row` and do not count as a step's time.
        """
        if self._since is None:
            self._since = time.perf_counter()

    def before_step(self, batch: dict) -> None:
        """Stops the clock if the step compiles for a batch of these shapes, which is not timed.

        If the device still works on earlier steps, the clock first waits for them.
        """
        shapes = tuple(array.shape for array in batch.values())
        if shapes in self._compiled:
            return
        self._compiled.add(shapes)
        if self._timed and self._since is not None:
            jax.block_until_ready(self.metrics)
            self._seconds += time.perf_counter() - self._since
        self._since = None

    def add(self, metrics: dict) -> None:
        """Adds the metrics of a step, still on the device."""
        if self._since is None:
            # The version of this code that left `unlogged` may have had other metrics.
            self.metrics = [m for m in self.metrics if m.keys() == metrics.keys()]
            jax.block_until_ready(metrics)
        else:
            self._timed += 1
        self.metrics.append(metrics)
        self._added += 1

    def unlogged(self) -> list[dict[str, float]]:
        """Returns the metrics of the steps since the last row."""
        return [
            {name: float(value) for name, value in step.items()}
            for step in jax.device_get(self.metrics)
        ]

    def row(self, tokens_per_step: float, steps_left: int) -> dict:
        """Returns the row that Session.log takes, and begins a new window."""
        metrics = jax.device_get(self.metrics)
        now = time.perf_counter()
        if self._since is not None:
            self._seconds += now - self._since
        if self._timed:
            self._pace = self._seconds / self._timed
        pace = (now - self._began) / self._added if self._pace is None else self._pace
        row = {
            name: _finite_mean([float(step[name]) for step in metrics])
            for name in metrics[0]
            if name not in COUNTS
        }
        row['learning_rate'] = float(metrics[-1]['learning_rate'])
        if metrics[-1]['skipped']:
            row['skipped'] = int(metrics[-1]['skipped'])
        self.metrics = []
        self._added = 0
        self._began = now
        self._since = None
        self._seconds = 0.0
        self._timed = 0
        return row | {'tokens_per_s': tokens_per_step / pace, 'seconds_left': pace * steps_left}


def _finite_mean(values):
    """The mean of the finite values. A skipped batch has a loss that is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
