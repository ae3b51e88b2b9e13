"""Rows to predict, of any task: from a file in the task's layout, from JSON lines with "texts", or from memory."""
import pathlib
from collections.abc import Callable, Iterable, Sequence

from gpt1_jax.data.tasks import json_lines, json_records
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row
from gpt1_jax.errors import UserError, fail, shown


def read(task: Task, path: str | pathlib.Path, on_bad: Callable[[str], None] = fail) -> list[Example]:
    """The unlabelled examples of a file, in its order.

    A JSON file whose first record has "texts" holds {"id", "texts", "choices"} records, see json_lines.from_rows. Any
    other file has the layout of the task's own files. It needs the columns of the texts only; labels are not read. Ids
    are those in the file, else row numbers from 0.
    on_bad: called with the message of a bad row, see Task.read; by default a UserError naming file, row and cause.
    """
    path = str(path)
    if json_records.is_json(path) and _has_texts(path):
        return json_lines.from_rows(json_records.read(path), task, path, on_bad)
    if task.read_file is None:
        raise UserError(f'{path}: rows of {task.name} are JSON lines (.jsonl) with "texts"')
    return task.read_file(path, on_bad)


def given(task: Task, rows: Iterable[str | Sequence[str] | dict]) -> list[Example]:
    """The unlabelled examples of rows in memory: each a text, several texts, or a dict with the fields of a JSON line.

    Ids are row numbers from 0, unless a dict has an "id". UserError naming row and cause.
    """
    if isinstance(rows, (str, dict)):
        raise UserError(f'{shown(rows)} is one row: give a list of rows')

    def fields(row):
        if isinstance(row, dict):
            return row
        return {'texts': row if isinstance(row, (list, tuple)) else [row]}
    return json_lines.from_rows((Row(f'row {i}', str(i), fields(row)) for i, row in enumerate(rows)), task, 'rows')


def _has_texts(path):
    """Whether the first record is an object with "texts". A bad first record is left to the reader to report."""
    first = next(json_records.read(path), None)
    return first is not None and isinstance(first.fields, dict) and 'texts' in first.fields
