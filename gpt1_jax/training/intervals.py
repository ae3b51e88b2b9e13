"""When a training logs, evaluates and saves."""

from collections.abc import Sequence
from typing import NamedTuple


class Intervals(NamedTuple):
    """The number of steps, and the steps after which the loop logs, evaluates and saves.

    Steps are counted from 1. The loop does each of these at its interval, at `keep_steps`, and
    after the last step.
    """

    total: int
    log_every: int
    evaluate_every: int
    save_every: int
    keep_steps: Sequence[int] = ()

    def _is_due(self, every: int, step: int) -> bool:
        return step % every == 0 or step in self.keep_steps or step == self.total

    def evaluates(self, step: int) -> bool:
        return self._is_due(self.evaluate_every, step)

    def saves(self, step: int) -> bool:
        return self._is_due(self.save_every, step)

    def logs(self, step: int) -> bool:
        return step % self.log_every == 0 or self.evaluates(step) or self.saves(step)
