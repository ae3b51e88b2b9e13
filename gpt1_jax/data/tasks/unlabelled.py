"""Reads rows to predict for any task: from a file in the task's layout, from JSON records with
"texts", or from memory."""

import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpt1_jax.data import files, readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Row
from gpt1_jax.data.tasks import own
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError, fail, shown


def read(
    task: Task, path: str | pathlib.Path, on_bad: Callable[[str], Any] = fail
) -> list[Example]:
    """Reads the unlabelled examples of a file, in its order.

    If the first record of a JSON file has "texts", and the task has no column "texts", the file
    holds records {"id", "texts", "choices"}. Any other file has the layout of the task's files, and
    needs only the columns of the texts. Labels are not read. Without ids in the file, ids are row
    numbers from 0. on_bad: called with the message of a bad row, see Task.read. By default the
    message, which names file, row and cause, is a UserError.
    """
    path = str(path)
    if files.kind(path) in ('json', 'jsonl', 'parquet'):
        first = next((row for row in readers.rows(path) if isinstance(row, Row)), None)
        if first is not None and _has_texts(task, first.fields):
            return _of_texts(readers.rows(path), task, path, on_bad)
    if task.new is None:
        raise UserError(f'{path}: rows of {task.name} are JSON lines (.jsonl) with "texts"')
    return task.read_new(task.new(path), path, on_bad)


def given(task: Task, rows: Any) -> list[Example]:
    """Makes unlabelled examples from rows in memory.

    A row is a text, several texts, {"id", "texts", "choices"}, or, for a user's table, a dict of
    its columns. A DataFrame is such rows. If the first row has "texts", all rows must. Ids are row
    numbers from 0, unless a dict has an "id". UserError naming row and cause.
    """
    if own.is_frame(rows):
        rows = own.records_of(rows)
    check(rows, 'rows')
    found = []
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            row = {'texts': row if isinstance(row, (list, tuple)) else [row]}
        found.append(Row(f'row {i}', row))
    if not found:
        raise UserError('rows is an empty list, must have a row')
    if task.columns and not _has_texts(task, found[0].fields):
        return task.read_new(found, 'rows')
    return _of_texts(found, task, 'rows', fail)


def check(rows: Any, what: str) -> None:
    """UserError for rows that are no list. Of a text, dict or table a loop takes parts."""
    by_parts = isinstance(rows, (str, Mapping)) or own.is_frame(rows)
    if by_parts or not isinstance(rows, Iterable):
        raise UserError(f'rows is {shown(rows)}, must be a list of {what}')


def _has_texts(task, fields):
    """Whether a row has "texts" that are not a column of the task."""
    if not isinstance(fields, dict) or 'texts' not in fields:
        return False
    return 'texts' not in task.columns or isinstance(fields['texts'], (list, tuple))


def _of_texts(rows, task, what, on_bad):
    """Makes Examples of Rows with the fields "texts" and, if the task has choices, "choices"."""

    def listed(fields, name):
        value = fields.get(name, []) if isinstance(fields, dict) else None
        if not isinstance(value, (list, tuple)):
            raise UserError(f'{name} is not a list of texts')
        return tuple(value)

    def example(fields):
        texts = listed(fields, 'texts')
        choices = listed(fields, 'choices')
        if choices and task.head != 'choice':
            raise UserError(f'{len(choices)} choices, expected 0')
        name = rows_lib.text(fields, 'id') if 'id' in fields else ''
        return Example(name, texts, choices)

    return task.read_new(rows, what, on_bad, example)
