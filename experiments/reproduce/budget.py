"""A job's budget in minutes of a device: how much is used, what each run will cost, what still fits."""
import contextlib
import json
import math
import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator, Mapping

from experiments.lib.run_list import RunSpec
from gpt1_jax import storage
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import results

EVERY = 1.0  # seconds between notes of the time used: what a kill loses at most


class Clock:
    """Seconds of the device that a job has used in each stage, over all its starts, kept in a file.

    path: of the file, {stage: seconds}. total: seconds that the job may use in all. start: seconds that a stage may use
    in this start, or None. When either is used up the process gets SIGTERM, once, as if a scheduler stopped it.
    """

    def __init__(self, path: str | pathlib.Path, total: float = math.inf, start: float | None = None) -> None:
        self.path = pathlib.Path(path)
        self.total = total
        self.start = start
        self.stages = {}
        self._under_way = None  # (stage, when it began)
        if self.path.exists():
            try:
                self.stages = {name: float(seconds) for name, seconds in json.loads(self.path.read_text()).items()}
            except (ValueError, AttributeError, TypeError):
                raise UserError(f'{self.path}: damaged: write {{"seconds": S}} with the seconds used so far') from None

    @property
    def used(self) -> float:
        now = 0 if self._under_way is None else time.monotonic() - self._under_way[1]
        return sum(self.stages.values()) + now

    @property
    def left(self) -> float:
        return self.total - self.used

    @contextlib.contextmanager
    def counting(self, stage: str) -> Iterator[None]:
        """Time counts, for a stage, inside this context alone."""
        self._under_way = stage, time.monotonic()
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.stages = self._note()
            self._under_way = None

    def _note(self):
        """Write, and return, the seconds of each stage."""
        stage, began = self._under_way
        stages = self.stages | {stage: self.stages.get(stage, 0) + time.monotonic() - began}
        storage.write(self.path, json.dumps({name: round(used, 1) for name, used in stages.items()}).encode())
        return stages

    def _watch(self, done):
        """Note the time now and then; stop the process, once, when it is used up."""
        stopped = False
        while not done.wait(EVERY):
            self._note()
            over = self.left <= 0 or self.start is not None and time.monotonic() - self._under_way[1] >= self.start
            if over and not stopped:
                stopped = True
                os.kill(os.getpid(), signal.SIGTERM)


class _Stopped(BaseException):
    """Not an Exception: a row, a checkpoint or a run that is under way must not take it for a failure of its own."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends what is inside with Interrupted, wherever the main thread is; training, which saves first, has a
    handler of its own."""
    def stop(*_):
        raise _Stopped
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _Stopped:
        raise Interrupted('stopped by SIGTERM: run the same command again to go on') from None
    finally:
        signal.signal(signal.SIGTERM, before)


class Costs:
    """Estimated seconds of runs.

    counts: {task: {'finetune' | 'zero_shot': what inputs.count_tokens found}}. speed: trained tokens a second.
    rates: {'step', 'run', 'compile': seconds}, see config.cost, and 'lstm': its speed as a fraction. done: a JSON-lines
    file of {'run', 'estimated', 'seconds'} for runs that are done, which `factor` corrects the estimates by.
    """

    def __init__(self, counts: Mapping, speed: float, rates: Mapping[str, float], done: str | pathlib.Path) -> None:
        self.counts = counts
        self.speed = speed
        self.rates = rates
        self.done = pathlib.Path(done)
        self._compiled = set()

    def known(self, spec: RunSpec) -> bool:
        """Whether the tokens of a run were counted."""
        return spec.kind in self.counts.get(spec.task, {})

    def tokens(self, spec: RunSpec) -> int:
        """Tokens that a run processes, padding included. Three evaluated ones, without a backward pass, count as one.
        """
        counts = self.counts[spec.task][spec.kind]
        if spec.kind == 'zero_shot':
            return len(spec.steps) * counts['tokens'] // 3
        return counts['tokens'] + counts['eval_tokens'] // 3

    def seconds(self, spec: RunSpec) -> float:
        """What a run will take by the rates alone; programs of a run that was `taken` are compiled already."""
        new_programs = len(self._programs(spec) - self._compiled)
        if spec.kind == 'zero_shot':
            steps = 0
            starts = len(spec.steps) / 3  # scoring a checkpoint only reads its weights
            compiling = 1 / 3             # of the time for a training program: forward alone
        else:
            steps = self.counts[spec.task][spec.kind]['steps']
            starts = 1
            compiling = 4 / 3             # a training program and one for evaluation
        speed = self.speed * (self.rates['lstm'] if spec.condition == 'lstm' else 1)
        return (self.rates['step'] * steps + self.tokens(spec) / speed + self.rates['run'] * starts
                + compiling * self.rates['compile'] * new_programs)

    def taken(self, spec: RunSpec) -> None:
        """Note that a run will have been done: its programs are compiled then."""
        self._compiled |= self._programs(spec)

    def _programs(self, spec):
        counts = self.counts[spec.task][spec.kind]
        return {(*counts['program'], spec.condition == 'lstm', length) for length in counts['lengths']}

    def factor(self) -> float:
        """Seconds that finished runs took for each one estimated: 1 until some are done."""
        rows = results.read(self.done)
        estimated = sum(row['estimated'] for row in rows)
        return sum(row['seconds'] for row in rows) / estimated if estimated else 1.0
