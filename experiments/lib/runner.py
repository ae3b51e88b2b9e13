"""Does a list of runs one after the other. Runs that are in results.jsonl are not repeated; a failed run is named, and
the next one starts. Tables and figures are made from the rows of these runs, never from other rows of results.jsonl.
"""
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

from ml_collections import ConfigDict

from experiments.lib.finished import complete, look_up, one_line
from experiments.lib.run_list import Run
from gpt1_jax import finetune, zero_shot
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import results, workdir
from gpt1_jax.runs.console import duration


def results_path(config: ConfigDict) -> pathlib.Path:
    """results.jsonl of a ConfigDict of configs/experiments.py."""
    return pathlib.Path(config.results or pathlib.Path(config.out) / 'results.jsonl')


def carry_out(config: ConfigDict, runs: Sequence[Run], dry_run: bool = False,
              may_start: Callable[[], bool] = lambda: True) -> list[Run]:
    """Do the runs whose rows are not all in results.jsonl yet; returns all with their results, in order.

    config: configs/experiments.py's. A run's directory is OUT/runs/NAME-KEY: changed settings never meet an older run.
    dry_run: print the list with tokens to process, run nothing. may_start: called before each run; those for which it
    is False are left out, as all are with config.start=False.
    A failed run is printed as one line; an interrupt stops all.
    """
    path = results_path(config)
    rows = results.read(path)
    runs = [look_up(run, rows, config.any_version) for run in runs]
    to_do = {run.key for run in runs if run.status == 'to do'}  # two runs with one key are one under two names
    counts = [f'{sum(run.status == status for run in runs)} {status}' for status in ('done', 'no data', 'failed')]
    print(f'{len(runs)} runs: {", ".join([f"{len(to_do)} to do", *counts])}', flush=True)
    began, started, printed = time.perf_counter(), [], set()
    for i, run in enumerate(runs):
        if run.status == 'to do' and run.key in started:
            run = look_up(run, rows, False)
            if run.status == 'to do':
                run = replace(run, status='done' if dry_run else 'failed', error='as above')
        elif run.status == 'to do' and not dry_run and not (config.start and may_start()):
            run = replace(run, status='left out')
        elif run.status == 'to do':
            started.append(run.key)
            run = _count_tokens(run) if dry_run else _do(config, run, f'[{len(started)}/{len(to_do)}] {run.name}')
            rows += run.rows
        if run.status == 'ran':
            elapsed = time.perf_counter() - began
            left = elapsed / len(started) * (len(to_do) - len(started))
            print(f'{duration(elapsed)} elapsed, about {duration(left)} left', flush=True)
        line = _line(run)
        if line not in printed and (dry_run or run.status in ('no data', 'failed', 'left out')):
            printed.add(line)  # once for all runs without a set
            print(line, flush=True)
        runs[i] = run
    if dry_run:
        print(f'in all: {sum(run.tokens for run in runs):,} tokens to process')
    return runs


def _line(run):
    if run.status == 'no data':
        return f'{run.task}: no data: {run.error}'
    if run.status == 'to do':
        return f'{run.name}: {run.tokens:,} tokens'
    return f'{run.name}: {run.status}{": " if run.error else ""}{run.error}'


def _do(config, run, name):
    """The run with its rows, or failed; raises nothing but an interrupt. name: printed when it starts and ends."""
    own = run.config.copy_and_resolve_references()
    own.results = str(results_path(config))
    directory = pathlib.Path(config.out) / 'runs' / f'{run.name}-{run.key[:8]}'
    for path in (pathlib.Path(own.results), directory):
        path.parent.mkdir(parents=True, exist_ok=True)
    print(name, flush=True)
    began = time.perf_counter()
    try:
        if run.kind == 'zero_shot':
            rows = _score_missing(run, own)
        else:
            rows = finetune.run(own, directory)
            if not (run.keep or config.keep_checkpoints):
                shutil.rmtree(workdir.Run(directory, {}).checkpoints, ignore_errors=True)
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, UserError):  # a bug: also keep the traceback
            directory.with_name(f'{directory.name}.error.txt').write_text(traceback.format_exc(), encoding='utf-8')
        return replace(run, status='failed', rows=(), error=one_line(error))
    print(f'{name}: done; {time.perf_counter() - began:.0f} s, ', end='', flush=True)
    return replace(run, status='ran', rows=tuple(rows))


def _score_missing(run, config):
    """All rows of a zero-shot run, of which only the steps without complete rows are scored."""
    missing = [step for step in run.steps if not complete(replace(run, steps=(step,)), run.rows)]
    return [row for row in run.rows if row['step'] not in missing] + zero_shot.run(config, missing)


def _count_tokens(run):
    """A run to do in a dry run."""
    try:
        if run.kind == 'finetune':
            return replace(run, tokens=finetune.count_tokens(run.config)['tokens'])
        return replace(run, tokens=zero_shot.count_tokens(run.config) * len(run.steps))
    except Exception as error:
        return replace(run, status='failed', error=one_line(error))
