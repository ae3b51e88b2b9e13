"""A list of runs, done one after the other: what results.jsonl has already is not done again, what fails is named.

A script makes its list with `plans` and `zero_shot_plan`, has it done by `carry_out`, and writes a table or a plot from
the rows of the outcomes: never from whatever else results.jsonl holds.
"""
import dataclasses
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable, Sequence

from absl import flags
from ml_collections import config_flags

from experiments.planned import Planned, check, has_data, plans, zero_shot_plan  # noqa: F401  (scripts need run alone)
from gpt1_jax import cli, finetune, results, workdir, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.progress import duration

flags.disclaim_key_flags()  # --help of a script shows the flags that `command` defines for it


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a Planned.

    status: 'done' (found in results.jsonl), 'ran', 'to do' (dry run), 'no data', 'no budget', 'failed'.
    rows: its rows of results.jsonl. error: one line. tokens: estimate for a dry run's run to do.
    """
    planned: Planned
    status: str
    rows: tuple[dict, ...] = ()
    error: str = ''
    tokens: int = 0


class Failed(UserError):
    """Some runs of a list failed; what could be written from the others is written."""


def results_path(config) -> pathlib.Path:
    return pathlib.Path(config.results or pathlib.Path(config.out) / 'results.jsonl')


def carry_out(config, wanted: Sequence[Planned], dry_run: bool = False) -> list[Outcome]:
    """`execute` with the files and choices of a ConfigDict of configs/experiments.py."""
    return execute(wanted, results_path(config), dry_run, out=config.out, keep_checkpoints=config.keep_checkpoints,
                   any_version=config.any_version, fits=(lambda _: config.start))


def execute(wanted: Sequence[Planned], path, dry_run: bool = False, *, out=None, keep_checkpoints: bool = False,
            any_version: bool = False, fits: Callable[[Planned], bool] = lambda _: True) -> list[Outcome]:
    """Do the runs whose rows are not all in results.jsonl yet; returns an Outcome for each, in order.

    path: of results.jsonl. out: a run's directory is OUT/runs/NAME-KEY, so changed settings never meet an older run;
    default beside `path`. dry_run: print the list with tokens to process, run nothing. keep_checkpoints: of finished
    runs. any_version: take rows of other versions of the code, too, and say so. fits: asked before each run that is to
    do; what does not is left out.
    A failing run is printed as one line and the rest goes on; an interrupt stops all.
    """
    path = pathlib.Path(path)
    runs = pathlib.Path(out or path.parent) / 'runs'
    rows, outcomes, keys, began = results.read(path), [], set(), time.perf_counter()
    states = [_state(planned, rows, any_version) for planned in wanted]
    left = {state[1] for state in states if state[0] == 'to do'}  # one run may stand in a list under two names
    print(f'{len(wanted)} runs: {len(left)} to do, '
          + ', '.join(f'{n} {name}' for name in ('done', 'no data', 'failed')
                      for n in [sum(state[0] == name for state in states)]), flush=True)
    number = 0
    for planned, (status, key, found, error) in zip(wanted, states):
        if status == 'to do' and key in keys:  # an earlier one of this list was the same run under another name
            found = _found(planned, key, rows)
            status, error = ('done', '') if dry_run or _complete(planned, found) else ('failed', 'as above')
        if status != 'to do':
            outcomes.append(Outcome(planned, status, tuple(found), error))
            if status != 'done' or dry_run:
                print(f'{planned.name}: {status}{error and ": " + error}', flush=True)
            continue
        if not dry_run and not fits(planned):
            outcomes.append(Outcome(planned, 'no budget', tuple(found)))
            print(f'{planned.name}: n/a (budget)', flush=True)
            continue
        number += 1
        keys.add(key)
        if dry_run:
            outcomes.append(_estimate(planned))
            continue
        print(f'[{number}/{len(left)}] {planned.name}', flush=True)
        started = time.perf_counter()
        outcome = _do(planned, path, runs / f'{planned.name}-{key[:8]}', keep_checkpoints, found)
        outcomes.append(outcome)
        rows += outcome.rows
        now = time.perf_counter()
        print(f'[{number}/{len(left)}] {planned.name}: {outcome.error or "done"}; {now - started:.0f} s, '
              f'{duration(now - began)} elapsed, about {duration((now - began) / number * (len(left) - number))} left',
              flush=True)
    if dry_run:
        print(f'in all: {sum(outcome.tokens for outcome in outcomes):,} tokens to process')
    return outcomes


def write(config, name: str, lines: Sequence[str], outcomes: Sequence[Outcome] = ()) -> list[str]:
    """Write OUT/NAME (Markdown), print it, and return the lines. Failed where runs failed, after writing."""
    path = pathlib.Path(config.out) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines).rstrip() + '\n', encoding='utf-8')
    print('\n'.join(lines) + f'\n{path}', flush=True)
    raise_failures(outcomes)
    return list(lines)


def raise_failures(outcomes: Sequence[Outcome]):
    """Failed, one line, where runs failed, or where none has its data."""
    if outcomes and all(outcome.status == 'no data' for outcome in outcomes):
        raise Failed(f'none of the {len(outcomes)} runs has its data: {outcomes[0].error}')
    bad = [outcome.planned.name for outcome in outcomes if outcome.status == 'failed']
    if bad:
        raise Failed(f'{len(bad)} of {len(outcomes)} runs failed: {", ".join(bad)}')


def command(function, default: str = 'configs/experiments.py'):
    """The command line of a script: function(config, dry_run)."""
    def define():
        config_flags.DEFINE_config_file('config', default, 'Runs to use and settings; --config.FIELD=VALUE overrides.')
        flags.DEFINE_bool('dry_run', False, 'Print the list of runs and the tokens to process, and stop.')
        flags.DEFINE_bool('any_version', False, 'Take rows that another version of the code made, too.')

    def main():
        f = flags.FLAGS
        f.config.any_version = f.config.any_version or f.any_version
        function(f.config, f.dry_run)
    cli.run(main, define)


def _state(planned, rows, any_version):
    """(status, key, rows found, error) of a run before anything is done."""
    needed = planned.splits if planned.kind == 'zero_shot' else {'train', *planned.splits}
    if not all(has_data(planned.task, planned.config.data.dir, split) for split in needed):
        return 'no data', '', (), f'{planned.config.data.dir} lacks files of {", ".join(sorted(needed))}'
    try:
        key = _key(planned)
        found = _found(planned, key, rows)
        if not _complete(planned, found) and any_version:
            found = _of_another_version(planned, rows) or found
    except Exception as error:
        return 'failed', '', (), _one_line(error)
    return 'done' if _complete(planned, found) else 'to do', key, found, ''


def _key(planned, **code):
    if planned.kind == 'finetune':
        return finetune.key(planned.config, **code)
    if not planned.steps:
        raise UserError(f'{planned.config.init_from}: no complete checkpoint yet')
    return '+'.join(zero_shot.key(planned.config, step, **code) for step in planned.steps)


def _found(planned, key, rows):
    """The rows of this very run: same settings, files, pretrained parameters and code."""
    keys = set(key.split('+'))
    return [row for row in rows if str(row.get('key')) in keys and row['split'] in planned.splits
            and (planned.kind == 'zero_shot' or row['selection'] in planned.selections)]


def _complete(planned, found):
    """Whether every metric of every evaluation is there, with the predictions that intervals are made of, and the
    checkpoint where it is wanted."""
    if planned.keep and not all(workdir.Run(pathlib.Path(row['run']), {}).steps() for row in found):
        return False
    evaluations = (planned.steps if planned.kind == 'zero_shot' else
                   [(split, selection) for split in planned.splits for selection in planned.selections])
    return {(one, metric) for one in evaluations for metric in tasks.get(planned.task).metrics} <= {
        (_evaluation(planned, row), row['metric']) for row in found if pathlib.Path(row['predictions']).exists()}


def _evaluation(planned, row):
    return row['step'] if planned.kind == 'zero_shot' else (row['split'], row['selection'])


def _of_another_version(planned, rows):
    """The rows of this run made by other code, the newest complete ones; [] without any."""
    codes = dict.fromkeys(row['code'] for row in reversed(rows) if row.get('code') and isinstance(row['code'], str))
    for code in codes:
        found = _found(planned, _key(planned, code=code), rows)
        if _complete(planned, found):
            print(f'{planned.name}: rows of another version of the code are taken ({code})', flush=True)
            return found
    return []


def _do(planned, path, directory, keep_checkpoints, found):
    """Run it; never raises but for an interrupt."""
    config = planned.config.copy_and_resolve_references()
    config.results = str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        if planned.kind == 'zero_shot':
            lacking = [step for step in planned.steps
                       if not _complete(dataclasses.replace(planned, steps=(step,)), found)]
            rows = [*(row for row in found if row['step'] not in lacking), *zero_shot.run(config, lacking)]
        else:
            rows = finetune.run(config, directory)
            if not (planned.keep or keep_checkpoints):
                shutil.rmtree(workdir.Run(directory, {}).checkpoints, ignore_errors=True)
        return Outcome(planned, 'ran', tuple(rows))
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, UserError):  # a bug: the line alone would not do
            directory.with_name(f'{directory.name}.error.txt').write_text(traceback.format_exc(), encoding='utf-8')
        return Outcome(planned, 'failed', error=_one_line(error))


def _estimate(planned):
    try:
        tokens = (finetune.plan(planned.config)['tokens'] if planned.kind == 'finetune' else
                  zero_shot.tokens(planned.config) * len(planned.steps))
    except Exception as error:
        print(f'{planned.name}: failed: {_one_line(error)}', flush=True)
        return Outcome(planned, 'failed', error=_one_line(error))
    print(f'{planned.name}: {tokens:,} tokens', flush=True)
    return Outcome(planned, 'to do', tokens=tokens)


def _one_line(error):
    text = ' '.join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f'{type(error).__name__}: {text}'
