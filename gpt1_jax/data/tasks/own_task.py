"""Makes a task from a user's Python file. `config.task = 'FILE:NAME'` names a Task there, which
`from_records` makes.

    def example(record):
        return Example(record['id'], (record['text'],), label=int(record['good']))

    FILES = {'train': 'train.jsonl', 'dev': 'dev.jsonl'}
    REVIEWS = from_records('reviews', 'classify', ('bad', 'good'), FILES, example)

experiments/ideas/copa.py and experiments/ideas/dream.py are two published sets, to copy.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpt1_jax.data.tasks import reading, tables
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row, RowFault, Split
from gpt1_jax.errors import UserError, in_code, shown


def from_records(
    name: str,
    head: str,
    labels: tuple[str, ...],
    files: Mapping[str, str],
    example: Callable[[Any], Example | Iterable[Example]],
    metrics: tuple[str, ...] = ('accuracy',),
    **options: Any,
) -> Task:
    """Makes a Task whose rows a function makes from the records of files.

    files:   {'train': name, 'dev': name, ...} in config.data.dir: .jsonl, .json (an array), .csv or
             .tsv.
    example: a record, as in its file (from a table a dict) -> an Example or several, with label
             None if the record has no label.
    name, head, labels, metrics, options: fields of Task.
    A bad row is a UserError that names its file and line, and the line of `example` that failed.
    """
    splits = {split: Split((file,)) for split, file in files.items()}
    task = reading.labelled_set(
        name,
        head,
        labels,
        metrics,
        splits,
        lambda split, row_id, fields: fields['example'],
        lambda paths, split: _rows(task, example, paths[0], True),
        new=lambda path, split: _rows(task, example, path, False),
        **options,
    )
    return task


def _rows(task, example, path, labelled):
    """Yields a Row for each Example of a file. Its only field is the Example."""
    position = 0
    for where, record in _records(str(path)):
        try:
            found = record if isinstance(record, RowFault) else _made(example, record)
        except UserError as error:
            found = RowFault(str(error))
        if isinstance(found, RowFault):
            yield Row(where, where, found)
            continue
        for number, made in enumerate(found, 1):
            place = where if len(found) == 1 else f'{where}: example {number}'
            made = dataclasses.replace(made, id=made.id or str(position))
            position += 1
            if not labelled:
                columns = record if isinstance(record, dict) else {'record': record}
                made = dataclasses.replace(made, label=None, record=columns)
            fault = _fault(task, made, labelled)
            yield Row(place, made.id, RowFault(fault) if fault else {'example': made})


def _records(path):
    """(where, record or RowFault) of each record of a file."""
    if tables.is_json(path):
        return tables.records(path)
    tabs = path.endswith('.tsv')
    rows = tables.read(path, quoted=not tabs, delimiter='\t' if tabs else ',')
    return ((row.where, row.fields) for row in rows)


def _made(example, record):
    """The Examples of a record. UserError if the user's function fails."""
    with in_code(inspect.getfile(inspect.unwrap(example))):
        found = example(record)
        found = [found] if isinstance(found, Example) else list(found)
    for made in found:
        if not isinstance(made, Example):
            raise UserError(f'{example.__name__} returns {shown(made)}, must return an Example')
    return found


def _fault(task, example, labelled):
    """A description of the fault of an Example, or ''."""
    texts = (*example.texts, *example.choices)
    if len(example.texts) != task.n_texts:
        return f'{len(example.texts)} texts, expected {task.n_texts} (n_texts of the task)'
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return f'texts and choices are {shown(texts)}, must be texts that are not empty'
    if task.head == 'choice' and not 2 <= len(example.choices) <= len(task.labels):
        return f'{len(example.choices)} choices, expected 2 to {len(task.labels)}'
    if not labelled:
        return ''
    label = example.label
    if task.score:
        low, high = task.score
        inside = isinstance(label, (int, float)) and low <= label <= high
        return '' if inside else f'label is {shown(label)}, must be a number from {low} to {high}'
    n = len(example.choices) if task.head == 'choice' else len(task.labels)
    inside = isinstance(label, int) and 0 <= label < n
    return '' if inside else f'label is {shown(label)}, must be an index below {n}'
