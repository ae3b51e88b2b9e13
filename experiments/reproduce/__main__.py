"""Does the paper's experiments from books to a report.

python -m experiments.reproduce --config=configs/small_cpu.py --books=DIR_OR_GLOB --data=DATA \\
    --out=runs/small_cpu

The experiments are pretraining, zero-shot, fine-tuning, ablations, tables and figures. The config
has their sizes and their order (config.stages, config.runs): configs/small_cpu.py,
configs/overnight_cpu.py, configs/one_gpu.py. --books is a directory with train/ and valid/, a
directory with .txt files, or a pattern of .txt files. --data is the directory of the data sets,
with the names in config.directories. Missing sets are left out.

--minutes is a deadline: runs start in the order of priority until then, and the remaining runs are
`n/a (not run)`. config.limits sets the minutes of single stages. Only pretraining is stopped at its
deadline. With config.processes, runs are done side by side, each with a log in OUT/runs. If the
command is stopped or killed, the same command resumes with the same results.

--stage=NAME does one stage: prepare (tokenizes the books, which needs only a CPU), a stage of
config.stages, or report. After prepare, --dry_run prints the plan and stops.

--config.pretrained=RUN and --config.lstm=RUN replace pretraining by existing models.
"""

import contextlib
import math
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator

from absl import flags
from ml_collections import ConfigDict

from experiments import baselines
from experiments.lib import run_list, runner, side_by_side
from experiments.paper import scores
from experiments.reproduce import inputs
from experiments.reproduce import plan as plan_lib
from gpt1_jax import cli, pretraining, rules
from gpt1_jax.cli import config_file
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.parallel import processes
from gpt1_jax.runs import lock, results, workdir
from gpt1_jax.runs.console import duration

RULES = run_list.RULES | {
    'runs': run_list.PER_TASK,
    **dict.fromkeys(('books', 'valid_books'), rules.optional(rules.whole(1))),
    'minutes': rules.optional(rules.positive()),
    'limits': (
        lambda x: all(map(rules.positive()[0], x.values())),
        'a number of minutes for each stage that it names',
    ),
    'saved': rules.whole(1, 1000),
}


def run(
    config: ConfigDict,
    out: str | pathlib.Path,
    stage: str | None = None,
    books: str | None = None,
    data: str | None = None,
    dry_run: bool = False,
) -> None:
    """Do one stage, or all, as the module describes. UserError, at the end, if runs or stages
    failed. Interrupted if a signal ends the work."""
    config = checked(config, out, data)
    if stage not in (None, 'prepare', 'report', *config.stages):
        raise UserError(f'--stage={stage}: there are prepare, {", ".join(config.stages)}, report')
    out = pathlib.Path(config.out)
    with contextlib.nullcontext() if dry_run else lock.hold(out):
        prepares = stage in (None, 'prepare') and not dry_run
        if not (prepares or plan_lib.has_text(config) or plan_lib.given(config)):
            raise UserError(f'{out}: nothing is prepared there: --stage=prepare comes first')
        run_list.check(config, pretrained=False)
        if prepares:
            inputs.prepare(config, books)
        if dry_run:
            print('\n'.join(plan_lib.lines(config)))
            return
        _do(config, out, stage)


def _do(config, out, stage):
    """Do a stage, or all stages. UserError, at the end, if runs or stages failed."""
    results.append(out / 'commands.jsonl', {'command': ' '.join(['python', *sys.orig_argv[1:]])})
    end = time.monotonic() + 60 * (config.minutes or math.inf)
    failures = {
        name: error
        for name in config.stages
        if stage in (None, name)
        if (error := _timed(config, name, end))
    }
    if stage in (None, 'report'):
        workdir.load(config.pretrained).step()  # there must be a model
        from experiments.reproduce import report  # draws: needs matplotlib

        report.write(config, failures)
    if failures:
        raise UserError('; '.join(f'{name}: {error}' for name, error in failures.items()))


def checked(config: ConfigDict, out: str | pathlib.Path, data: str | None = None) -> ConfigDict:
    """Return a copy of a config with the paths of a job in OUT. UserError for a mistake that shows
    before the job starts."""
    config = config.copy_and_resolve_references()
    config.out = str(out)
    rules.require({'--out': (config.out, run_list.OUT)})
    rules.validate(config, RULES)
    out = pathlib.Path(out)
    conditions = rules.several(rules.one_of(*run_list.CONDITIONS, *plan_lib.GROUPS))
    stages = rules.several(rules.one_of(*plan_lib.MODELS, *config.runs))
    rules.require(
        {
            'config.stages': (config.stages, stages),
            'config.limits': (tuple(config.limits), stages),
            **{
                f'config.runs.{name}.tasks': (of.tasks, run_list.known_tasks(config))
                for name, of in config.runs.items()
            },
            **{
                f'config.runs.{name}.conditions': (of.conditions, conditions)
                for name, of in config.runs.items()
            },
        }
    )
    config.data = str(data or config.data)
    if config.pretrained:
        _adopt(config)
    else:
        config.pretrained = str(out / 'pretrain')
    if config.lstm:
        check_finished(config.lstm)
    elif finished(out / 'pretrain_lstm'):
        config.lstm = str(out / 'pretrain_lstm')
    return config


def _adopt(config):
    """Copy the model, batch, optimizer and length of a given pretrained run into
    config.pretrain."""
    check_finished(config.pretrained)
    of_run = workdir.load(config.pretrained).config
    for group in ('model', 'batch', 'optimizer', 'train'):  # imported weights have only a model
        known = {
            field: value
            for field, value in of_run.get(group, {}).items()
            if field in config.pretrain[group]
        }
        config.pretrain[group].update(known)


def check_finished(directory: str | pathlib.Path) -> None:
    """Raise UserError if a run is missing or unfinished."""
    last, total = workdir.load(directory).progress()
    if last is None or last < (total or last):
        of_total = f' of {total:,}' if total else ''
        raise UserError(
            f'{directory}: pretraining is at step {last or 0:,}{of_total}: it must be finished '
            'first'
        )


def finished(directory: str | pathlib.Path) -> bool:
    try:
        check_finished(directory)
    except UserError:
        return False
    return True


def _timed(config, stage, end):
    """Do a stage until its deadline, and return its failures as text, or None.

    end: the time at which the command's minutes are over. A stage may also have a limit. After its
    deadline the stage starts no run. Pretraining is stopped there, and with a limit the other
    stages then take its last checkpoint. Any other unfinished Transformer is an error at once.
    """
    began = time.monotonic()
    end = min(end, began + 60 * config.limits.get(stage, math.inf))
    left = f' ({duration(end - began)} left)' if end < math.inf else ''
    print(f'\n=== {stage}{left}', flush=True)
    try:
        if stage in plan_lib.MODELS:
            with stopped_at(end):
                return pretrain_model(config, stage)
        if 'pretrain' not in config.limits:
            check_finished(config.pretrained)
        workdir.load(config.pretrained).step()
        return run_stage(config, stage, end)
    except Interrupted as error:
        if time.monotonic() < end or (stage == 'pretrain' and stage not in config.limits):
            raise
        return str(error)
    except Exception as error:
        if stage == 'pretrain':
            raise
        if not isinstance(error, UserError):
            traceback.print_exc()
        return runner.one_line(error)
    finally:
        seconds = round(time.monotonic() - began, 1)
        row = {'stage': stage, 'seconds': seconds}
        results.append(pathlib.Path(config.out) / 'stages.jsonl', row)


@contextlib.contextmanager
def stopped_at(end: float) -> Iterator[None]:
    """Ends training in this context at a time, as a scheduler does, by SIGTERM. It saves first, and
    raises Interrupted."""

    def stop(*_):  # before or after the updates; anywhere, so not an error that somebody handles
        raise SystemExit

    handler = signal.signal(signal.SIGTERM, stop)
    left = min(end - time.monotonic(), threading.TIMEOUT_MAX)
    timer = threading.Timer(left, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    try:
        timer.start()
        yield
    except SystemExit:
        raise Interrupted('stopped by SIGTERM: rerun the same command to resume') from None
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, handler)


def pretrain_model(config: ConfigDict, stage: str) -> None:
    """Pretrain the Transformer, or an LSTM on the same text, unless the model is given."""
    if plan_lib.given(config, stage):
        return
    if not plan_lib.has_text(config):
        print('the LSTM: n/a: give --books=DIR, the text to train on', flush=True)
        return
    own = pathlib.Path(config.out) / stage
    pretraining.run(plan_lib.pretraining(config, stage == 'pretrain_lstm'), own)
    config[plan_lib.MODELS[stage]] = str(own)


def run_stage(config: ConfigDict, stage: str, end: float) -> str | None:
    """Do the runs of a stage whose data exists, then its baselines. None is started after `end`.

    Returns the failures as text, or None.
    """

    def may_start():
        return time.monotonic() < end

    runs = plan_lib.runs(config, stage)
    if runs:
        runs = runner.carry_out(config, runs, may_start=may_start)
    failed = [run.name for run in runs if run.status == 'failed']
    if names := plan_lib.baselines_of(config, stage):
        try:
            baselines.need_sklearn()
        except UserError as error:
            print(f'baselines: n/a: {error}', flush=True)
        else:
            path = pathlib.Path(config.out) / scores.BASELINES_FILE
            failed += baselines.run(config, path, config.runs[stage].tasks, names, may_start)
    return f'{len(failed)} runs failed: {", ".join(failed)}' if failed else None


def _define_flags():
    cli.define_process_flags()
    config_file.define('small_cpu', 'Sizes; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string(
        'books', None, 'Directory with train/ and valid/ or .txt files, or a pattern.'
    )
    flags.DEFINE_string('data', None, 'Directory that holds the data sets.')
    flags.DEFINE_string(
        'out', None, 'Directory to write; an unfinished job there is resumed.', required=True
    )
    flags.DEFINE_float(
        'minutes', None, 'Deadline of this command; default config.minutes.', lower_bound=0
    )
    flags.DEFINE_string('stage', None, 'One stage; default all of them.')
    flags.DEFINE_bool('dry_run', False, 'Print the plan and stop.')


def main() -> None:
    f = flags.FLAGS
    if f.config.processes:
        side_by_side.share_devices()
    processes.start(f.coordinator, f.processes, f.process, f.deterministic)
    if processes.joined():
        raise UserError(
            'experiments.reproduce works in one process: pretrain with several (gpt1 pretrain), '
            'then give --config.pretrained=RUN'
        )
    if f.minutes is not None:
        f.config.minutes = f.minutes
    run_list.find_models(f.config)
    run(f.config, f.out, f.stage, f.books, f.data, f.dry_run)


if __name__ == '__main__':
    cli.run(main, _define_flags)
