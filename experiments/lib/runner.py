"""Does a list of runs one after the other. Runs that are in results.jsonl are not repeated; a failed run is named, and
the next one starts. Tables and figures are made from the rows of the outcomes, never from other rows of results.jsonl.
"""
import dataclasses
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from experiments.lib import finished
from experiments.lib.finished import Outcome
from experiments.lib.run_list import RunSpec
from gpt1_jax import finetune, zero_shot
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import results, workdir
from gpt1_jax.runs.console import duration


def results_path(config: ConfigDict) -> pathlib.Path:
    """results.jsonl of a ConfigDict of configs/experiments.py."""
    return pathlib.Path(config.results or pathlib.Path(config.out) / 'results.jsonl')


def carry_out(config: ConfigDict, specs: Sequence[RunSpec], dry_run: bool = False,
              may_start: Callable[[], bool] = lambda: True) -> list[Outcome]:
    """Do the runs whose rows are not all in results.jsonl yet; returns an Outcome for each, in order.

    config: configs/experiments.py's. A run's directory is OUT/runs/NAME-KEY: changed settings never meet an older run.
    dry_run: print the list with tokens to process, run nothing. may_start: called before each run; those for which it
    is False are left out, as all are with config.start=False.
    A failed run is printed as one line; an interrupt stops all.
    """
    path = results_path(config)
    rows = results.read(path)
    outcomes = [finished.look_up(spec, rows, config.any_version) for spec in specs]
    to_do = {each.key for each in outcomes if each.status == 'to do'}  # two specs with one key are one run
    counts = [f'{sum(each.status == status for each in outcomes)} {status}' for status in ('done', 'no data', 'failed')]
    print(f'{len(specs)} runs: {", ".join([f"{len(to_do)} to do", *counts])}', flush=True)
    began, started, printed = time.perf_counter(), [], set()
    for i, outcome in enumerate(outcomes):
        if outcome.status == 'to do' and outcome.key in started:
            outcome = finished.look_up(outcome.spec, rows, False)
            if outcome.status == 'to do':
                outcome = dataclasses.replace(outcome, status='done' if dry_run else 'failed', error='as above')
        elif outcome.status == 'to do' and not dry_run and not (config.start and may_start()):
            outcome = dataclasses.replace(outcome, status='left out')
        elif outcome.status == 'to do':
            started.append(outcome.key)
            outcome = (_count_tokens(outcome) if dry_run else
                       _do(config, outcome, f'[{len(started)}/{len(to_do)}] {outcome.spec.name}'))
            rows += outcome.rows
        if outcome.status == 'ran':
            elapsed = time.perf_counter() - began
            left = elapsed / len(started) * (len(to_do) - len(started))
            print(f'{duration(elapsed)} elapsed, about {duration(left)} left', flush=True)
        line = _line(outcome)
        if line not in printed and (dry_run or outcome.status in ('no data', 'failed', 'left out')):
            printed.add(line)  # once for all runs without a set
            print(line, flush=True)
        outcomes[i] = outcome
    if dry_run:
        print(f'in all: {sum(outcome.tokens for outcome in outcomes):,} tokens to process')
    return outcomes


def _line(outcome):
    if outcome.status == 'no data':
        return f'{outcome.spec.task}: no data: {outcome.error}'
    if outcome.status == 'to do':
        return f'{outcome.spec.name}: {outcome.tokens:,} tokens'
    return f'{outcome.spec.name}: {outcome.status}{": " if outcome.error else ""}{outcome.error}'


def _do(config, outcome, name):
    """The Outcome of a run; raises nothing but an interrupt. name: printed when it starts and ends."""
    spec, own = outcome.spec, outcome.spec.config.copy_and_resolve_references()
    own.results = str(results_path(config))
    directory = pathlib.Path(config.out) / 'runs' / f'{spec.name}-{outcome.key[:8]}'
    for path in (pathlib.Path(own.results), directory):
        path.parent.mkdir(parents=True, exist_ok=True)
    print(name, flush=True)
    began = time.perf_counter()
    try:
        if spec.kind == 'zero_shot':
            rows = _score_missing(spec, own, outcome.rows)
        else:
            rows = finetune.run(own, directory)
            if not (spec.keep or config.keep_checkpoints):
                shutil.rmtree(workdir.Run(directory, {}).checkpoints, ignore_errors=True)
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, UserError):  # a bug: also keep the traceback
            directory.with_name(f'{directory.name}.error.txt').write_text(traceback.format_exc(), encoding='utf-8')
        return Outcome(spec, 'failed', error=finished.one_line(error))
    print(f'{name}: done; {time.perf_counter() - began:.0f} s, ', end='', flush=True)
    return dataclasses.replace(outcome, status='ran', rows=tuple(rows))


def _score_missing(spec, config, found):
    """All rows of a zero-shot run, of which only the steps without complete rows are scored."""
    missing = [step for step in spec.steps if not finished.complete(dataclasses.replace(spec, steps=(step,)), found)]
    kept = [row for row in found if row['step'] not in missing]
    return kept + zero_shot.run(config, missing)


def _count_tokens(outcome):
    """The Outcome of a run to do in a dry run."""
    spec = outcome.spec
    try:
        if spec.kind == 'finetune':
            return dataclasses.replace(outcome, tokens=finetune.count_tokens(spec.config)['tokens'])
        return dataclasses.replace(outcome, tokens=zero_shot.count_tokens(spec.config) * len(spec.steps))
    except Exception as error:
        return Outcome(spec, 'failed', error=finished.one_line(error))
