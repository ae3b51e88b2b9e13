"""Reads rows to predict for any task: from a file in the task's layout, from JSON records with
"texts", or from memory."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpt1_jax.data.tasks import reading, tables
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import UserError, fail, shown


def read(
    task: Task, path: str | pathlib.Path, on_bad: Callable[[str], None] = fail
) -> list[Example]:
    """Reads the unlabelled examples of a file, in its order.

    If the first record of a JSON file has "texts", and the task has no column "texts", the file
    holds records {"id", "texts", "choices"}. Any other file has the layout of the task's files, and
    needs only the columns of the texts. Labels are not read. Without ids in the file, ids are row
    numbers from 0. on_bad: called with the message of a bad row, see Task.read. By default the
    message, which names file, row and cause, is a UserError.
    """
    path = str(path)
    first = tables.first_record(path) if tables.is_json(path) else None
    if isinstance(first, dict) and 'texts' in first and 'texts' not in task.columns:
        return _of_texts(tables.read(path), task, path, on_bad)
    if task.read_file is None:
        raise UserError(f'{path}: rows of {task.name} are JSON lines (.jsonl) with "texts"')
    return task.read_file(path, on_bad)


def given(task: Task, rows: Iterable[str | Sequence[str] | dict]) -> list[Example]:
    """Makes unlabelled examples from rows in memory.

    A row is a text, several texts, or {"id", "texts", "choices"}. If the task is a custom set and
    the first row is a dict of its columns, every row is such a dict, {column: value}. Ids are row
    numbers from 0, unless a dict has an "id". UserError naming row and cause.
    """
    check(rows, 'rows')
    found = []
    in_columns = False
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            row = {'texts': row if isinstance(row, (list, tuple)) else [row]}
        elif i == 0:
            in_columns = not isinstance(row.get('texts'), (list, tuple))
        found.append(Row(f'row {i}', str(i), row))
    if in_columns and task.columns and task.read_file:
        return task.read_file('rows', rows=found)
    return _of_texts(found, task, 'rows', fail)


def check(rows: Any, what: str) -> None:
    """UserError for rows that are no list.

    From a text, a dict or a table a loop would take characters or columns.
    """
    if (
        isinstance(rows, (str, Mapping))
        or hasattr(rows, 'columns')
        or not isinstance(rows, Iterable)
    ):
        raise UserError(f'rows is {shown(rows)}, must be a list of {what}')


def _of_texts(rows, task, what, on_bad):
    """Makes Examples of Rows with the fields "texts" and, if the task has choices, "choices".

    what: the source, for messages.
    """
    least, most = (2, len(task.labels)) if task.head == 'choice' else (0, 0)

    def listed(fields, name):
        value = fields.get(name, [])
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(text, str) and text.strip() for text in value
        ):
            raise RowFault(f'{name} is not a list of non-empty strings')
        return tuple(value)

    def make(row_id, fields):
        texts = listed(fields, 'texts')
        choices = listed(fields, 'choices')
        if len(texts) != task.n_texts:
            raise RowFault(f'{len(texts)} texts, expected {task.n_texts}')
        if not least <= len(choices) <= most:
            raise RowFault(
                f'{len(choices)} choices, expected {f"2 to {most}" if most > 2 else most}'
            )
        return Example(reading.row_id(fields, 'id', row_id), texts, choices)

    return reading.collect(rows, make, what, on_bad=on_bad, keep=True)
