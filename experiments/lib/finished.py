"""Which runs are done already: a run's rows of results.jsonl are found by its key, a digest of its settings, files,
pretrained parameters and code.
"""
import pathlib
from collections.abc import Sequence
from dataclasses import replace

from experiments.lib.run_list import Run, lacks_data, splits_read
from gpt1_jax import finetune, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir


def look_up(run: Run, rows: Sequence[dict], any_version: bool) -> Run:
    """A run before it is started: 'done', 'to do', 'no data' or 'failed'.

    rows: of results.jsonl. any_version: also take rows made by other versions of the code.
    """
    if lacks_data(run):
        needed = ', '.join(sorted(splits_read(run)))
        return replace(run, status='no data', error=f'{run.config.data.dir} lacks files of {needed}')
    try:
        key = _key(run)
        found = _rows_with(run, key, rows)
        if not complete(run, found) and any_version:
            found = _of_another_version(run, rows) or found
    except Exception as error:
        return replace(run, status='failed', error=one_line(error))
    return replace(run, status='done' if complete(run, found) else 'to do', key=key, rows=tuple(found))


def _key(run, **code):
    """The `key` of the rows of the run; of several zero-shot steps their keys, joined. code: as in finetune.run_key."""
    if run.kind == 'finetune':
        return finetune.run_key(run.config, **code)
    if not run.steps:
        raise UserError(f'{run.config.init_from}: no complete checkpoint yet')
    return '+'.join(zero_shot.run_key(run.config, step, **code) for step in run.steps)


def _rows_with(run, key, rows):
    """The rows of this very run: same settings, files, pretrained parameters and code."""
    keys = set(key.split('+'))
    return [row for row in rows if row.get('key') in keys and row['split'] in run.splits
            and (run.kind == 'zero_shot' or row['selection'] in run.selections)]


def complete(run: Run, found: Sequence[dict]) -> bool:
    """Whether every metric of every evaluation is there with its predictions (which intervals are made of), and the
    checkpoint where it is to be kept."""
    if run.keep and not all(workdir.Run(pathlib.Path(row['run']), {}).steps() for row in found):
        return False
    if run.kind == 'zero_shot':
        fields, evaluations = ('step',), [(step,) for step in run.steps]
    else:
        fields = 'split', 'selection'
        evaluations = [(split, selection) for split in run.splits for selection in run.selections]
    there = {(*(row[field] for field in fields), row['metric']) for row in found
             if pathlib.Path(row['predictions']).exists()}
    return {(*each, metric) for each in evaluations for metric in tasks.get(run.task).metrics} <= there


def _of_another_version(run, rows):
    """The rows of this run made by other code, the newest complete ones; [] without any."""
    for code in dict.fromkeys(row['code'] for row in reversed(rows) if row.get('code')):
        found = _rows_with(run, _key(run, code=code), rows)
        if complete(run, found):
            print(f'{run.name}: rows of another version of the code are taken ({code})', flush=True)
            return found
    return []


def one_line(error: Exception) -> str:
    """An error as one line, with its type where it is not the user's mistake."""
    text = ' '.join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f'{type(error).__name__}: {text}'
