"""Does a list of runs, one after the other or several at a time.

Runs that are in results.jsonl are not repeated. If a run fails, it is named and the next run
starts. Tables and figures are made from the rows of these runs, never from other rows of
results.jsonl. A run's rows are found by its key, a digest of its settings, files, pretrained
parameters and code.
"""

import contextlib
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

from ml_collections import ConfigDict

from experiments.lib import side_by_side
from experiments.lib.run_list import Run
from gpt1_jax import errors, finetuning, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import results, workdir
from gpt1_jax.runs.console import duration


def results_path(config: ConfigDict) -> pathlib.Path:
    """Returns the results.jsonl of a ConfigDict of configs/experiments.py."""
    return pathlib.Path(config.results or pathlib.Path(config.out) / 'results.jsonl')


def carry_out(
    config: ConfigDict,
    runs: Sequence[Run],
    dry_run: bool = False,
    may_start: Callable[[], bool] = lambda: True,
) -> list[Run]:
    """Does the runs whose rows are not all in results.jsonl, and returns all with their results.

    The order stays. config: configs/experiments.py's. A run's directory is OUT/runs/NAME-KEY, so
    that changed settings never meet an older run. dry_run: prints the list with tokens to process,
    and runs nothing. may_start: called before each run. If it returns False, the run is left out.
    With config.start=False all are left out. A failed run is printed as one line. An interrupt
    stops all runs.
    """
    rows = results.read(results_path(config), continued=True)
    runs = [look_up(run, rows, config.any_version) for run in runs]
    to_do: dict[str, Run] = {}  # runs with the same key are the same run under two names
    for run in runs:
        if run.status == 'to do':
            to_do.setdefault(run.key, run)
    counts = [
        f'{sum(run.status == status for run in runs)} {status}'
        for status in ('done', 'no data', 'failed')
    ]
    print(f'{len(runs)} runs: {", ".join([f"{len(to_do)} to do", *counts])}', flush=True)
    # One line for all runs of a missing set
    for text in dict.fromkeys(_line(run) for run in runs if run.status in ('no data', 'failed')):
        print(text, flush=True)
    if dry_run:
        found = {key: _count_tokens(run) for key, run in to_do.items()}
        for run in found.values():
            print(_line(run))
        print(f'in all: {sum(run.tokens for run in found.values()):,} tokens to process')
    else:
        found = _do_all(config, to_do, may_start) if config.start else {}
        if left_out := len(to_do) - len(found):
            print(f'{left_out} left out', flush=True)
    return [_with_result(run, to_do, found) for run in runs]


def _with_result(run, to_do, found):
    """Returns a run with its result. to_do, found: {key: run}, before and after."""
    if run.status != 'to do':
        return run
    if run.key not in found:
        return replace(run, status='left out')
    result = found[run.key]
    if run is to_do[run.key]:
        return result
    status = 'done' if result.status in ('ran', 'to do') else result.status
    return replace(run, status=status, rows=result.rows, error=result.error)


def _do_all(config, to_do, may_start):
    """Does {key: run}, and returns {key: the run with its result} of the runs that were started."""
    jobs = []
    for number, run in enumerate(to_do.values(), 1):
        directory = _directory(config, run)
        log = directory.with_name(f'{directory.name}.log')
        name = f'[{number}/{len(to_do)}] {run.name}'
        jobs.append(side_by_side.Job(name, _do, (config, run), log))
    found = {}
    began = time.perf_counter()
    with contextlib.closing(side_by_side.call(jobs, config, may_start)) as calls:
        for job, run, error, took in calls:
            _, planned = job.arguments
            run = run or replace(planned, status='failed', error=f'{error}: see {job.log}')
            found[planned.key] = run
            if run.status == 'failed':
                print(_line(run), flush=True)
                continue
            left = (time.perf_counter() - began) / len(found) * (len(to_do) - len(found))
            print(f'{job.name}: done; {took:.0f} s, about {duration(left)} left', flush=True)
    return found


def _directory(config, run):
    """Returns the directory of a run's files. It need not exist."""
    return pathlib.Path(config.out) / 'runs' / f'{run.name}-{run.key[:8]}'


def _line(run):
    if run.status == 'no data':
        return f'{run.task}: no data: {run.error}'
    if run.status == 'to do':
        return f'{run.name}: {run.tokens:,} tokens'
    return f'{run.name}: {run.status}{": " if run.error else ""}{run.error}'


def look_up(run: Run, rows: Sequence[dict], any_version: bool) -> Run:
    """Returns a run with its status before it is started: 'done', 'to do', 'no data' or 'failed'.

    rows: of results.jsonl. any_version: also take rows made by other versions of the code.
    """
    if run.lacks_data():
        needed = ', '.join(sorted(run.splits_read))
        return replace(
            run, status='no data', error=f'{run.config.data.dir} lacks files of {needed}'
        )
    try:
        key = _key(run)
        found = _rows_with(run, key, rows)
        if not complete(run, found) and any_version:
            found = _of_another_version(run, rows) or found
    except Exception as error:
        return replace(run, status='failed', error=one_line(error))
    return replace(
        run, status='done' if complete(run, found) else 'to do', key=key, rows=tuple(found)
    )


def _key(run, **code):
    """Returns the `key` of the run's rows. Several zero-shot steps have their keys joined. code: as
    in finetuning.run_key."""
    if run.kind == 'finetune':
        return finetuning.run_key(run.config, **code)
    if not run.steps:
        raise UserError(f'{run.config.init_from}: no complete checkpoint yet')
    return '+'.join(zero_shot.run_key(run.config, step, **code) for step in run.steps)


def _rows_with(run, key, rows):
    """Returns the rows of this very run: same settings, files, pretrained parameters and code."""
    keys = set(key.split('+'))
    return [
        row
        for row in rows
        if row.get('key') in keys
        and row['split'] in run.splits
        and (run.kind == 'zero_shot' or row['selection'] in run.config.eval.selections)
    ]


def complete(run: Run, found: Sequence[dict]) -> bool:
    """Returns whether the rows have every metric of every evaluation, with predictions.

    Intervals are made from predictions. If the run's checkpoint is to be kept, it must exist.
    """
    if run.keep and not all(workdir.Run(pathlib.Path(row['run']), {}).steps() for row in found):
        return False
    if run.kind == 'zero_shot':
        fields = ('step',)
        evaluations = [(step,) for step in run.steps]
    else:
        fields = 'split', 'selection'
        evaluations = [
            (split, selection) for split in run.splits for selection in run.config.eval.selections
        ]
    there = {
        (*(row[field] for field in fields), row['metric'])
        for row in found
        if pathlib.Path(row['predictions']).exists()
    }
    return {
        (*each, metric) for each in evaluations for metric in tasks.get(run.task).metrics
    } <= there


def _of_another_version(run, rows):
    """Returns the newest complete rows of this run by another version of the code, or []."""
    for code in dict.fromkeys(row['code'] for row in reversed(rows) if row.get('code')):
        found = _rows_with(run, _key(run, code=code), rows)
        if complete(run, found):
            print(f'{run.name}: rows of another version of the code are taken ({code})', flush=True)
            return found
    return []


def one_line(error: Exception) -> str:
    """Returns an error as one line, with its type if it is not the user's mistake."""
    if isinstance(error, UserError):
        return str(error)
    return errors.one_line(f'{type(error).__name__}: {" ".join(str(error).split())}', 300)


def _do(config, run):
    """Does a run, and returns it with its rows or as failed. Raises nothing but an interrupt."""
    own = run.config.copy_and_resolve_references()
    own.results = str(results_path(config))
    directory = _directory(config, run)
    for path in (pathlib.Path(own.results), directory):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if run.kind == 'zero_shot':  # only the steps without complete rows
            missing = [
                step for step in run.steps if not complete(replace(run, steps=(step,)), run.rows)
            ]
            rows = [row for row in run.rows if row['step'] not in missing] + zero_shot.run(
                own, missing
            )
        else:
            rows = finetuning.run(own, directory)
            if not (run.keep or config.keep_checkpoints):
                shutil.rmtree(workdir.Run(directory, {}).checkpoints, ignore_errors=True)
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, UserError):  # a bug: also keep the traceback
            directory.with_name(f'{directory.name}.error.txt').write_text(
                traceback.format_exc(), encoding='utf-8'
            )
        return replace(run, status='failed', rows=(), error=one_line(error))
    return replace(run, status='ran', rows=tuple(rows))


def _count_tokens(run):
    """Returns a run with its tokens, for a dry run."""
    try:
        if run.kind == 'finetune':
            return replace(run, tokens=finetuning.count_tokens(run.config))
        return replace(run, tokens=zero_shot.count_tokens(run.config) * len(run.steps))
    except Exception as error:
        return replace(run, status='failed', error=one_line(error))
