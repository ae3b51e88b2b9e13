"""Which runs are done already: a run's rows of results.jsonl are found by its key, a digest of its settings, files,
pretrained parameters and code.
"""
import dataclasses
import pathlib
from collections.abc import Sequence

from experiments.lib.run_list import RunSpec, lacks_data, splits_read
from gpt1_jax import finetune, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a RunSpec.

    status: 'done' (in results.jsonl), 'ran', 'to do' (dry run), 'no data', 'left out', 'failed'.
    key: of its rows. rows: of results.jsonl. error: one line. tokens: to process, estimated in a dry run.
    """
    spec: RunSpec
    status: str
    key: str = ''
    rows: tuple[dict, ...] = ()
    error: str = ''
    tokens: int = 0


def look_up(spec: RunSpec, rows: Sequence[dict], any_version: bool) -> Outcome:
    """The Outcome of a run before it is started: 'done', 'to do', 'no data' or 'failed'.

    rows: of results.jsonl. any_version: also take rows made by other versions of the code.
    """
    if lacks_data(spec):
        needed = ', '.join(sorted(splits_read(spec)))
        return Outcome(spec, 'no data', error=f'{spec.config.data.dir} lacks files of {needed}')
    try:
        key = _key(spec)
        found = _rows_with(spec, key, rows)
        if not complete(spec, found) and any_version:
            found = _of_another_version(spec, rows) or found
    except Exception as error:
        return Outcome(spec, 'failed', error=one_line(error))
    return Outcome(spec, 'done' if complete(spec, found) else 'to do', key, tuple(found))


def _key(spec, **code):
    """The `key` of the rows of the run; of several zero-shot steps their keys, joined. code: as in finetune.run_key."""
    if spec.kind == 'finetune':
        return finetune.run_key(spec.config, **code)
    if not spec.steps:
        raise UserError(f'{spec.config.init_from}: no complete checkpoint yet')
    return '+'.join(zero_shot.run_key(spec.config, step, **code) for step in spec.steps)


def _rows_with(spec, key, rows):
    """The rows of this very run: same settings, files, pretrained parameters and code."""
    keys = set(key.split('+'))
    return [row for row in rows if row.get('key') in keys and row['split'] in spec.splits
            and (spec.kind == 'zero_shot' or row['selection'] in spec.selections)]


def complete(spec: RunSpec, found: Sequence[dict]) -> bool:
    """Whether every metric of every evaluation is there with its predictions (which intervals are made of), and the
    checkpoint where it is to be kept."""
    if spec.keep and not all(workdir.Run(pathlib.Path(row['run']), {}).steps() for row in found):
        return False
    if spec.kind == 'zero_shot':
        fields, evaluations = ('step',), [(step,) for step in spec.steps]
    else:
        fields = 'split', 'selection'
        evaluations = [(split, selection) for split in spec.splits for selection in spec.selections]
    there = {(*(row[field] for field in fields), row['metric']) for row in found
             if pathlib.Path(row['predictions']).exists()}
    return {(*each, metric) for each in evaluations for metric in tasks.get(spec.task).metrics} <= there


def _of_another_version(spec, rows):
    """The rows of this run made by other code, the newest complete ones; [] without any."""
    for code in dict.fromkeys(row['code'] for row in reversed(rows) if row.get('code')):
        found = _rows_with(spec, _key(spec, code=code), rows)
        if complete(spec, found):
            print(f'{spec.name}: rows of another version of the code are taken ({code})', flush=True)
            return found
    return []


def one_line(error: Exception) -> str:
    """An error as one line, with its type where it is not the user's mistake."""
    text = ' '.join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f'{type(error).__name__}: {text}'
