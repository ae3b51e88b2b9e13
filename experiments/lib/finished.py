"""Which runs are done already: a run's rows of results.jsonl are found by its key, a digest of its settings, files,
pretrained parameters and code.
"""
import dataclasses
import pathlib
from collections.abc import Sequence

from experiments.lib.run_list import RunSpec, has_data
from gpt1_jax import finetune, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir


@dataclasses.dataclass(frozen=True)
class State:
    """A run before anything is done: its status, the key that its rows have, those found already, an error."""
    status: str
    run_key: str = ''
    rows: tuple[dict, ...] = ()
    error: str = ''


def state_of(spec: RunSpec, rows: Sequence[dict], any_version: bool) -> State:
    """The State of a run. rows: of results.jsonl. any_version: also take rows made by other versions of the code."""
    needed = set(spec.splits)
    if spec.kind == 'finetune':
        needed.add('train')
    if not all(has_data(spec.task, spec.config.data.dir, split) for split in needed):
        return State('no data', error=f'{spec.config.data.dir} lacks files of {", ".join(sorted(needed))}')
    try:
        run_key = _run_key(spec)
        found = _rows_with(spec, run_key, rows)
        if not complete(spec, found) and any_version:
            found = _of_another_version(spec, rows) or found
    except Exception as error:
        return State('failed', error=one_line(error))
    return State('done' if complete(spec, found) else 'to do', run_key, tuple(found))


def after_its_twin(spec: RunSpec, state: State, rows: Sequence[dict], dry_run: bool) -> State:
    """The State of a run whose twin, the same run under another name, stands before it in the list."""
    found = tuple(_rows_with(spec, state.run_key, rows))
    if dry_run or complete(spec, found):
        return State('done', state.run_key, found)
    return State('failed', state.run_key, found, 'as above')


def _run_key(spec, **code):
    """The `key` of the rows of the run; of several zero-shot steps their keys, joined. code: as in finetune.run_key."""
    if spec.kind == 'finetune':
        return finetune.run_key(spec.config, **code)
    if not spec.steps:
        raise UserError(f'{spec.config.init_from}: no complete checkpoint yet')
    return '+'.join(zero_shot.run_key(spec.config, step, **code) for step in spec.steps)


def _rows_with(spec, run_key, rows):
    """The rows of this very run: same settings, files, pretrained parameters and code."""
    keys = set(run_key.split('+'))
    return [row for row in rows if row.get('key') in keys and row['split'] in spec.splits
            and (spec.kind == 'zero_shot' or row['selection'] in spec.selections)]


def complete(spec: RunSpec, found: Sequence[dict]) -> bool:
    """Whether every metric of every evaluation is there with its predictions (which intervals are made of), and the
    checkpoint where it is to be kept."""
    if spec.keep and not all(workdir.Run(pathlib.Path(row['run']), {}).steps() for row in found):
        return False
    there = {(_evaluation(spec, row), row['metric']) for row in found if pathlib.Path(row['predictions']).exists()}
    if spec.kind == 'zero_shot':
        evaluations = spec.steps
    else:
        evaluations = [(split, selection) for split in spec.splits for selection in spec.selections]
    wanted = {(one, metric) for one in evaluations for metric in tasks.get(spec.task).metrics}
    return wanted <= there


def _evaluation(spec, row):
    return row['step'] if spec.kind == 'zero_shot' else (row['split'], row['selection'])


def _of_another_version(spec, rows):
    """The rows of this run made by other code, the newest complete ones; [] without any."""
    codes = dict.fromkeys(row['code'] for row in reversed(rows) if row.get('code'))
    for code in codes:
        found = _rows_with(spec, _run_key(spec, code=code), rows)
        if complete(spec, found):
            print(f'{spec.name}: rows of another version of the code are taken ({code})', flush=True)
            return found
    return []


def one_line(error: Exception) -> str:
    """An error as one line, with its type where it is not the user's mistake."""
    text = ' '.join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f'{type(error).__name__}: {text}'
