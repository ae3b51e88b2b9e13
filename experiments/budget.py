"""Minutes of a device, shared out over a list of runs: what each will cost, what was used, what still fits."""
import contextlib
import json
import os
import pathlib
import signal
import threading
import time

from gpt1_jax import results, storage
from gpt1_jax.errors import Interrupted, UserError

EVERY = 1.0  # seconds between notes of the time used: what a kill loses at most


class Clock:
    """Seconds of the device that a job has used, over all its starts, kept in a file.

    path: of the file. total: seconds that the job may use in all. start: seconds that this start may use, or None.
    Past either one the process gets SIGTERM once, as if a scheduler stopped it. A context: time counts inside alone.
    """

    def __init__(self, path, total, start=None):
        self.path, self.total, self.start = pathlib.Path(path), total, start
        self._before, self._began = 0.0, None
        if self.path.exists():
            try:
                self._before = float(json.loads(self.path.read_text())['seconds'])
            except (ValueError, KeyError, TypeError):
                raise UserError(f'{self.path}: damaged: write {{"seconds": S}} with the seconds used so far') from None

    @property
    def used(self) -> float:
        return self._before + (0 if self._began is None else time.monotonic() - self._began)

    @property
    def left(self) -> float:
        return self.total - self.used

    def __enter__(self):
        self._began, self._done = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._note()
        self._before, self._began = self.used, None

    def _watch(self):
        asked = False
        while not self._done.wait(EVERY):
            self._note()
            here = time.monotonic() - self._began
            if not asked and (self.left <= 0 or self.start is not None and here >= self.start):
                asked = True
                os.kill(os.getpid(), signal.SIGTERM)

    def _note(self):
        storage.write(self.path, json.dumps({'seconds': round(self.used, 1)}).encode())


@contextlib.contextmanager
def stoppable():
    """SIGTERM raises Interrupted wherever the main thread is; training, which saves first, has a handler of its own."""
    def stop(*_):
        raise Interrupted('stopped by SIGTERM: run the same command again to go on')
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Costs:
    """Estimated seconds of runs.

    counts: {task: {'finetune' | 'zero_shot': what experiments.one_gpu_sets counted}}. speed: trained tokens a second.
    rates: {'step', 'run', 'compile': seconds}, see config.cost. done: a JSON-lines file of {'run', 'estimated',
    'seconds'}; estimates of runs to come are multiplied by what these took beyond theirs.
    """

    def __init__(self, counts, speed, rates, done):
        self.counts, self.speed, self.rates, self.done = counts, speed, rates, pathlib.Path(done)
        self._compiled = set()

    def tokens(self, planned) -> int:
        """Tokens that a run processes, padding included; three evaluated ones count for one that is trained on."""
        found = self.counts[planned.task][planned.kind]
        if planned.kind == 'zero_shot':
            return len(planned.steps) * found['tokens'] // 3
        return found['tokens'] + found['eval_tokens'] // 3

    def seconds(self, planned) -> float:
        """What a run will take by the rates alone; programs of a run that was `taken` need not be compiled again."""
        found, new = self.counts[planned.task][planned.kind], self._programs(planned) - self._compiled
        share = 1 / 3 if planned.kind == 'zero_shot' else 4 / 3  # of a training program; evaluation has its own
        starts = len(planned.steps) / 3 or 1  # scoring a checkpoint reads its weights alone
        return (self.rates['step'] * found.get('steps', 0) + self.tokens(planned) / self.speed
                + self.rates['run'] * starts + share * self.rates['compile'] * len(new))

    def taken(self, planned):
        """The run is done: its programs are there."""
        self._compiled |= self._programs(planned)

    def _programs(self, planned):
        found = self.counts[planned.task][planned.kind]
        return {(*found['program'], planned.condition == 'lstm', length) for length in found['lengths']}

    def factor(self) -> float:
        """Seconds that finished runs took for each one estimated: 1 until some are done."""
        rows = results.read(self.done)
        estimated = sum(row['estimated'] for row in rows)
        return sum(row['seconds'] for row in rows) / estimated if estimated else 1.0
