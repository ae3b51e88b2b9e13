"""Does a list of runs one after the other. Runs that are in results.jsonl are not repeated; a failed run is named, and
the next one starts.

A script lists its runs with `run_list.finetune_specs` and `run_list.zero_shot_specs`, calls `of_script`, and writes a
table or a plot from the rows of the outcomes, never from other rows of results.jsonl.
"""
import dataclasses
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable, Sequence

from absl import flags
from ml_collections import ConfigDict, config_flags

from experiments.lib import finished, run_list
from experiments.lib.run_list import RunSpec
from gpt1_jax import cli, finetune, zero_shot
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import results, workdir
from gpt1_jax.runs.console import duration

BUDGET, NOT_RUN = 'budget', 'not run'  # why a run was left out
flags.disclaim_key_flags()  # --help of a script shows the flags that `command` defines for it


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a RunSpec.

    status: 'done' (found in results.jsonl), 'ran', 'to do' (dry run), 'no data', 'left out', 'failed'.
    rows: its rows of results.jsonl. error: one line; of a run that was left out BUDGET or NOT_RUN. tokens: estimate for
    a dry run's run to do.
    """
    spec: RunSpec
    status: str
    rows: tuple[dict, ...] = ()
    error: str = ''
    tokens: int = 0


class Failed(UserError):
    """Some runs of a list failed; what could be written from the others is written."""


def results_path(config: ConfigDict) -> pathlib.Path:
    """results.jsonl of a ConfigDict of configs/experiments.py."""
    return pathlib.Path(config.results or pathlib.Path(config.out) / 'results.jsonl')


def carry_out(config: ConfigDict, specs: Sequence[RunSpec], dry_run: bool = False,
              leave_out: Callable[[RunSpec], str] | None = None) -> list[Outcome]:
    """`execute` with the files and choices of a ConfigDict of configs/experiments.py."""
    def not_started(spec):
        return BUDGET if spec.name in config.out_of_time else NOT_RUN
    return execute(specs, results_path(config), dry_run, out=config.out, keep_checkpoints=config.keep_checkpoints,
                   any_version=config.any_version, leave_out=leave_out if config.start else not_started)


def of_script(config: ConfigDict, specs: Callable[[ConfigDict], Sequence[RunSpec]],
              dry_run: bool = False) -> list[Outcome]:
    """`carry_out` for a script that writes one table or figure: its config is checked first. In a dry run, Failed where
    no run has its data. specs: config -> the runs."""
    run_list.check(config)
    outcomes = carry_out(config, specs(config), dry_run)
    if dry_run:
        raise_failures(outcomes)
    return outcomes


def execute(specs: Sequence[RunSpec], path: str | pathlib.Path, dry_run: bool = False, *,
            out: str | pathlib.Path | None = None, keep_checkpoints: bool = False, any_version: bool = False,
            leave_out: Callable[[RunSpec], str] | None = None) -> list[Outcome]:
    """Do the runs whose rows are not all in results.jsonl yet; returns an Outcome for each, in order.

    path: of results.jsonl. out: a run's directory is OUT/runs/NAME-KEY, so that changed settings never meet an older
    run; default beside `path`. dry_run: print the list with tokens to process, run nothing. keep_checkpoints: of
    finished runs. any_version: also take rows made by other versions of the code, and print that. leave_out: called
    just before a run that is to do; returns why it is left out, or ''.
    A failed run is printed as one line; an interrupt stops all.
    """
    path = pathlib.Path(path)
    rows = results.read(path)
    states = [finished.state_of(spec, rows, any_version) for spec in specs]
    # Two specs with the same key are one run under two names.
    to_do = len({state.run_key for state in states if state.status == 'to do'})
    _print_counts(states, to_do)
    progress = _Progress(to_do)
    outcomes, run_keys, said = [], set(), set()
    for spec, state in zip(specs, states):
        if state.status == 'to do' and state.run_key in run_keys:
            state = finished.after_its_twin(spec, state, rows, dry_run)
        if state.status != 'to do':
            outcomes.append(Outcome(spec, state.status, tuple(state.rows), state.error))
            if state.status == 'no data' and state.error not in said:
                said.add(state.error)  # once for all runs on a set
                print(f'{spec.task}: no data: {state.error}', flush=True)
            elif state.status == 'failed' or dry_run and state.status == 'done':
                print(f'{spec.name}: {state.status}{": " if state.error else ""}{state.error}', flush=True)
            continue
        why = leave_out(spec) if leave_out and not dry_run else ''
        if why:
            outcomes.append(Outcome(spec, 'left out', tuple(state.rows), why))
            print(f'{spec.name}: n/a ({why})', flush=True)
            continue
        run_keys.add(state.run_key)
        if dry_run:
            outcomes.append(_count_tokens(spec))
            continue
        progress.start(spec.name)
        directory = pathlib.Path(out or path.parent) / 'runs' / f'{spec.name}-{state.run_key[:8]}'
        outcome = _do(spec, path, directory, keep_checkpoints, state.rows)
        outcomes.append(outcome)
        rows += outcome.rows
        progress.end(spec.name, outcome.error or 'done')
    if dry_run:
        print(f'in all: {sum(outcome.tokens for outcome in outcomes):,} tokens to process')
    return outcomes


def write(config: ConfigDict, name: str, lines: Sequence[str], outcomes: Sequence[Outcome] = ()) -> list[str]:
    """Write OUT/NAME (Markdown), print it, and return the lines. Raises Failed, after writing, where runs failed."""
    path = pathlib.Path(config.out) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines).rstrip() + '\n', encoding='utf-8')
    print('\n'.join(lines) + f'\n{path}', flush=True)
    raise_failures(outcomes)
    return list(lines)


def raise_failures(outcomes: Sequence[Outcome]) -> None:
    """Raises Failed, one line, where runs failed, or where none has its data."""
    if outcomes and all(outcome.status == 'no data' for outcome in outcomes):
        raise Failed(f'none of the {len(outcomes)} runs has its data: {outcomes[0].error}')
    failed = [outcome.spec.name for outcome in outcomes if outcome.status == 'failed']
    if failed:
        raise Failed(f'{len(failed)} of {len(outcomes)} runs failed: {", ".join(failed)}')


def command(function: Callable[[ConfigDict, bool], object], define_flags: Callable[[], None] = lambda: None) -> None:
    """The command line of a script: function(config, dry_run). define_flags: the script's own flags."""
    def define():
        define_flags()
        config_flags.DEFINE_config_file('config', 'configs/experiments.py',
                                        'Runs and settings; --config.FIELD=VALUE overrides a field.')
        flags.DEFINE_bool('dry_run', False, 'Print the list of runs and the tokens to process, and stop.')
        flags.DEFINE_bool('any_version', False, 'Also take rows made by another version of the code.')

    def main():
        f = flags.FLAGS
        f.config.any_version = f.config.any_version or f.any_version
        run_list.find_models(f.config)
        function(f.config, f.dry_run)
    cli.run(main, define)


class _Progress:
    """Prints which run of how many is under way, and how long the rest will take at the mean time of a run so far."""

    def __init__(self, total) -> None:
        self.total, self.number, self.began = total, 0, time.perf_counter()

    def start(self, name):
        self.number += 1
        self.started = time.perf_counter()
        print(f'[{self.number}/{self.total}] {name}', flush=True)

    def end(self, name, status):
        now = time.perf_counter()
        elapsed = now - self.began
        left = elapsed / self.number * (self.total - self.number)
        print(f'[{self.number}/{self.total}] {name}: {status}; {now - self.started:.0f} s, '
              f'{duration(elapsed)} elapsed, about {duration(left)} left', flush=True)


def _print_counts(states, to_do):
    counts = [f'{len(states)} runs: {to_do} to do']
    for status in ('done', 'no data', 'failed'):
        counts.append(f'{sum(state.status == status for state in states)} {status}')
    print(', '.join(counts), flush=True)


def _do(spec, path, directory, keep_checkpoints, found):
    """The Outcome of a run; raises nothing but an interrupt."""
    config = spec.config.copy_and_resolve_references()
    config.results = str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        if spec.kind == 'zero_shot':
            rows = _score_missing(spec, config, found)
        else:
            rows = finetune.run(config, directory)
            if not (spec.keep or keep_checkpoints):
                shutil.rmtree(workdir.Run(directory, {}).checkpoints, ignore_errors=True)
        return Outcome(spec, 'ran', tuple(rows))
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, UserError):  # a bug: also keep the traceback
            directory.with_name(f'{directory.name}.error.txt').write_text(traceback.format_exc(), encoding='utf-8')
        return Outcome(spec, 'failed', error=finished.one_line(error))


def _score_missing(spec, config, found):
    """All rows of a zero-shot run, of which only the steps without complete rows are scored."""
    missing = [step for step in spec.steps if not finished.complete(dataclasses.replace(spec, steps=(step,)), found)]
    kept = [row for row in found if row['step'] not in missing]
    return kept + zero_shot.run(config, missing)


def _count_tokens(spec):
    """The Outcome of a run to do in a dry run."""
    try:
        if spec.kind == 'finetune':
            tokens = finetune.count_tokens(spec.config)['tokens']
        else:
            tokens = zero_shot.count_tokens(spec.config) * len(spec.steps)
    except Exception as error:
        print(f'{spec.name}: failed: {finished.one_line(error)}', flush=True)
        return Outcome(spec, 'failed', error=finished.one_line(error))
    print(f'{spec.name}: {tokens:,} tokens', flush=True)
    return Outcome(spec, 'to do', tokens=tokens)
