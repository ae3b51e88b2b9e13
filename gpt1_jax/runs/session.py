"""Runs a training in its directory: the work around the training loop that pretraining and
fine-tuning share.

    run = session.train(job, directory)
"""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpt1_jax import rules, storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import device_peaks, processes
from gpt1_jax.runs import checkpoint, console, provenance, results, tracker, workdir
from gpt1_jax.training import loop, profiling
from gpt1_jax.training.intervals import Intervals
from gpt1_jax.training.loop import Program, TrainState
from gpt1_jax.training.prefetch import Batches

# Appended to a damaged step's name, so that it is no longer a step and its number is free again
DAMAGED = '.damaged'


class Job(NamedTuple):
    """A training for `train`: everything that is computed, and its inputs."""

    config: dict[str, Any]  # the contents of config.json
    tokenizer: Tokenizer
    program: Program
    batches: Batches
    hyper: dict[str, np.generic]  # the scalars that a step takes besides state and batch
    intervals: Intervals
    start: Callable[[Any], Any]  # fresh parameters -> the parameters with which the run begins
    # Session -> the `evaluate` of loop.fit: state -> its quality, higher is better
    evaluate: Callable[['Session'], Callable[[TrainState], float]]
    # For 'mfu' in the rows (step_cost.flops_per_token). 0 if tokens differ in it
    flops_per_token: int = 0
    # (step, values), called after every row of training metrics
    after_row: Callable[[int, dict], None] | None = None


def train(
    job: Job, directory: storage.Path, allow_change: bool = False, fallback: bool = False
) -> workdir.Run:
    """Train a Job in its work directory to its last step.

    The training starts from the newest checkpoint, if there is one.
    allow_change: as in workdir.compare. fallback: as in `resume`.
    UserError if the directory has another run or tokenizer, if another process works in it, or if
    several processes differ in the config or the code.
    """
    with workdir.hold(directory) as check_lock:
        changes = workdir.compare(directory, job.config, allow_change, job.intervals.total)
        fields = {f'config.{name}': value for name, value in rules.flatten(job.config).items()}
        processes.agree(fields | {'the code': provenance.code_digest()})
        run = workdir.start(directory, job.config, job.tokenizer)
        processes.barrier('the work directory is there')
        state = _initial_state(run, job, fallback)
        with Session(run, job, state, check_lock, changes) as current:
            evaluate = job.evaluate(current)
            loop.fit(job.program, state, job.hyper, job.batches, job.intervals, current, evaluate)
    return run


def steps_to_keep(
    there: workdir.Run | None, steps: Iterable[int], words_at: Mapping[int, int]
) -> dict[str, Any]:
    """The checkpoints that are kept for good: keep_steps, and words_at {step: words}, if any.

    there: the run that goes on. Checkpoints that it has kept so far stay. A step that it made
    without saving it cannot be kept, which a notice says.
    steps: checkpoint.keep_steps. words_at: {step: words} of checkpoint.keep_words.
    """
    saved = {*there.steps()} if there else set()
    before = there.config.get('checkpoint', {}) if there else {}
    wanted = {*steps, *words_at}
    gone = {step for step in wanted - saved if step < max(saved, default=0)}
    if gone:
        print(
            'notice: not kept, as the run has made them without saving them: '
            f'{", ".join(map(str, sorted(gone)))}',
            flush=True,
        )
    kept = wanted - gone | saved & {*before.get('keep_steps', ())}
    words = before.get('words_at', {}) | {str(step): count for step, count in words_at.items()}
    words = {step: count for step, count in words.items() if int(step) in kept}
    return {'keep_steps': tuple(sorted(kept))} | ({'words_at': words} if words else {})


def _initial_state(run, job, fallback):
    """The state of the run's newest checkpoint, or a fresh state if there is no checkpoint.

    CheckpointError as in `resume`, or if the checkpoint belongs to another run.
    """
    state = resume(run.checkpoints, job.program.state, fallback)
    if state is not None:
        run.check_checkpoint(int(state.step))
        return state
    state = job.program.init(np.uint32(job.config['seed']))
    return state._replace(params=job.start(state.params))


def resume(
    directory: storage.Path, abstract: TrainState, fallback: bool = False
) -> TrainState | None:
    """The TrainState of the newest step of a checkpoints directory, or None if there is no step.

    Prints a line if the run was saved with other versions, flags or devices.
    fallback: pass over damaged steps and print which and why. Once a sound step is found, rename
              the damaged steps (30 -> 30.damaged), so that the run can save their numbers again.
    CheckpointError if no step is sound (without fallback: if the newest is not), or if the machine
    rather than the files is at fault.
    """
    passed = []
    for step in reversed(checkpoint.steps(directory)):
        try:
            state = checkpoint.restore(directory, step, abstract)
        except checkpoint.DamagedError as error:
            if not fallback:
                hint = ': --fallback resumes from the newest sound one' if error.others else ''
                raise checkpoint.CheckpointError(f'{error}{hint}') from error
            passed.append(error)
            continue
        for damaged in passed:
            name = _set_aside(directory, damaged.step)
            print(f'passed over step {damaged.step:,}, kept as {name}: {damaged.cause}', flush=True)
        before = checkpoint.read_meta(directory, step)['environment']
        differing = provenance.departures(before, provenance.environment(abstract.params))
        if differing:
            print(
                'resumed on a different setup; results match up to rounding: '
                f'{", ".join(differing)}',
                flush=True,
            )
        return state
    if passed:
        raise checkpoint.CheckpointError(
            f'{directory}: none of its steps is sound: '
            + '; '.join(f'{error.step}: {error.cause}' for error in passed)
        )
    return None


def _set_aside(directory, step):
    """Rename a step, and return its new name. Process 0 renames, the others wait."""
    name = f'{step}{DAMAGED}'
    while (directory / name).exists():  # an earlier step of this number was damaged too
        name += '2'
    if processes.primary():
        (directory / str(step)).rename(directory / name)
    processes.barrier(f'set aside {step}')
    return name


class Session:
    """The log and the checkpoints of a run in progress, as loop.fit takes them.

    state:      the state with which the training starts.
    check_lock: from workdir.hold.
    changes:    in the config, from workdir.compare.
    The attribute `unlogged` is the value in the checkpoint from which the run resumes, see `save`.

    A context manager, which at the end waits for the checkpoint being written. If there was no
    error, it also waits for the other processes, because process 0 deletes old checkpoints until
    then.
    """

    def __init__(
        self,
        run: workdir.Run,
        job: Job,
        state: TrainState,
        check_lock: Callable[[], None],
        changes: list[str],
    ) -> None:
        config = run.config
        total = job.intervals.total
        step = int(state.step)
        span = rules.span(config['profile'])
        if span and span[0] >= total:
            raise UserError(
                f'config.profile = {config["profile"]} cannot be recorded: the run ends at '
                f'{total:,}'
            )
        self.trace = profiling.Trace(span, run.path / 'profile')
        workdir.describe(run, step, state.params, changes)
        if job.flops_per_token:  # in pretraining
            console.print_start(job, step)
        keep = config['checkpoint']
        self._writer = checkpoint.Writer(
            run.checkpoints, keep['keep_latest'], keep['keep_best'], keep.get('keep_steps', ())
        )
        self.unlogged = (
            checkpoint.read_meta(run.checkpoints, step).get('unlogged', []) if step else []
        )
        rows = [
            row['step']
            for row in results.read(run.metrics, results.OF_A_STEP, continued=True)
            if 'loss' in row
        ]
        logged = max((row for row in rows if row <= step), default=0)
        if step > logged + len(self.unlogged):
            print(
                f'notice: {run.metrics} has no rows for steps {logged + 1:,} to '
                f'{step - len(self.unlogged):,}',
                flush=True,
            )
        # This also happens if an experiment removed a finished run's checkpoints to save space
        if rows and not step:
            print(
                f'notice: {run.metrics} has rows up to step {max(rows):,}, but no checkpoint is '
                'there: starting again at 0',
                flush=True,
            )
        service = functools.partial(
            tracker.Tracker, config['tracker'], config['project'], run.path, config
        )
        self._metrics = results.Log(
            run.metrics,
            step,
            processes.primary(),
            config['tensorboard'],
            service if config['tracker'] else None,
        )
        self._meta = {'config': config, 'total': total}
        self._total = total
        self._check_lock = check_lock
        self._job = job

    def __enter__(self) -> 'Session':
        return self

    def __exit__(self, error, *_):
        try:
            self._writer.close()
        finally:
            try:
                self.trace.close()
            finally:
                self._metrics.close()
        if error is None:
            processes.barrier('the checkpoints are cleaned up')

    def show(self, step: int) -> None:
        """Print the step if stdout is a terminal.

        The next step or any other line overwrites it, because all lines are longer.
        """
        if sys.stdout.isatty():
            print(f'step {step:,}/{self._total:,}', end='\033[K\r', flush=True)

    def log(self, step: int, values: dict) -> None:
        """Append a row of training metrics to metrics.jsonl, and print it.

        values: from log_window.Window.row.
        """
        self._check_lock()
        values = values | device_peaks.measured(
            values['tokens_per_s'], self._job.flops_per_token, self._job.program.mesh
        )
        self.append(step, values)
        self._writer.check()
        console.print_line(step, self._total, values)
        if self._job.after_row is not None:
            self._job.after_row(step, values)

    def append(self, step: int, values: dict) -> None:
        """Append a row to metrics.jsonl."""
        self._metrics.append({'step': step} | values)

    def save(
        self, state: TrainState, step: int, quality: float | None, unlogged: Sequence[dict]
    ) -> None:
        """Save a checkpoint.

        quality: higher is better, None if the state was not evaluated. unlogged: the metrics of
        each step since the last row of metrics.jsonl.
        """
        self._check_lock()
        self._metrics.upload()
        self._writer.save(state, self._meta | {'unlogged': list(unlogged)}, quality)
