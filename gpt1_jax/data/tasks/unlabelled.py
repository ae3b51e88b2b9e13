"""Rows to be answered, of any task: from a file in the layout of the task's own, from JSON lines that fit all, or from
memory."""
import json
from collections.abc import Iterable, Sequence

from gpt1_jax.data.tasks import json_lines, reading
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row
from gpt1_jax.errors import UserError, shown


def read(task: Task, path, skipped: list[str] | None = None) -> list[Example]:
    """The examples of a file, without labels, in the file's order.

    A .jsonl file whose first line has "texts" is {"id", "texts", "choices"} a line, see json_lines.read_file. Any other
    is in the layout of the task's files: the columns of its texts are enough, labels are not read, ids are the
    task's own where the file has them and else the rows' numbers from 0.
    skipped: takes the messages of bad rows, which are left out. UserError naming file, row and cause without it.
    """
    path = str(path)
    if path.endswith('.jsonl') and _has_texts(path):
        return json_lines.read_file(path, task, skipped)
    if task.read_file is None:
        raise UserError(f'{path}: rows of {task.name} are JSON lines (.jsonl) with "texts"')
    return task.read_file(path, skipped)


def given(task: Task, rows: Iterable[str | Sequence[str] | dict]) -> list[Example]:
    """The examples of rows in memory: each a text, several texts, or a dict with the fields of a JSON line; ids are
    the rows' numbers from 0. UserError naming row and cause."""
    if isinstance(rows, (str, dict)):
        raise UserError(f'{shown(rows)} is one row: give a list of rows')

    def fields(row):
        return row if isinstance(row, dict) else {'texts': row if isinstance(row, (list, tuple)) else [row]}
    return json_lines.from_rows((Row(f'row {i}', str(i), fields(row)) for i, row in enumerate(rows)), task, 'rows')


def _has_texts(path):
    """Whether the first line is an object with the field; of a first line that is none, `reading` tells."""
    try:
        first = json.loads(next(reading.decoded_lines(path)))
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and 'texts' in first
