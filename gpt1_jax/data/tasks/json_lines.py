"""Labelled sets in a JSON lines format of our own: {"id", "texts", "choices", "label"} a line."""
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable

from gpt1_jax import storage
from gpt1_jax.data.tasks import json_records, reading
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import fail, shown


def write(path: str | pathlib.Path, examples: Iterable[Example]) -> None:
    """Write examples as a JSON lines file, atomically."""
    lines = ''.join(json.dumps(dataclasses.asdict(example), ensure_ascii=False) + '\n' for example in examples)
    storage.write(path, lines.encode('utf-8', 'backslashreplace'))


def from_rows(rows: Iterable[Row], task: Task, what: str, on_bad: Callable[[str], None] = fail,
              labelled: bool = False) -> list[Example]:
    """The Examples of Rows with the fields "texts", "choices" if the task has choices, and "label" if `labelled`.

    "id" is by default the row's number from 0. what: the source of the rows, for messages. Errors and `on_bad` as in
    Task.read.
    """
    most = len(task.labels) if task.head == 'choice' else 0  # choices
    least = 2 if most else 0

    def listed(fields, name):
        value = fields.get(name, [])
        if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) and text.strip() for text in value):
            raise RowFault(f'{name} is not a list of non-empty strings')
        return tuple(value)

    def make(row_id, fields):
        texts = listed(fields, 'texts')
        choices = listed(fields, 'choices')
        if len(texts) != task.n_texts:
            raise RowFault(f'{len(texts)} texts, expected {task.n_texts}')
        if not least <= len(choices) <= most:
            expected = f'2 to {most}' if most > 2 else most
            raise RowFault(f'{len(choices)} choices, expected {expected}')
        label = fields.get('label') if labelled else None
        if labelled and (type(label) is not int or not 0 <= label < len(task.labels)):
            raise RowFault(f'label {shown(label)} is not a whole number from 0 to {len(task.labels) - 1}')
        return Example(reading.row_id(fields, 'id', row_id), texts, choices, label)
    return reading.collect(rows, make, what, on_bad=on_bad)


def task(name: str, head: str, labels: tuple[str, ...], splits: tuple[str, ...], segments: tuple[int, ...]) -> Task:
    """The Task of the files '{name}_{split}.jsonl' in a directory."""
    def files(directory, split):
        reading.check_own_split(directory, name, split, splits)
        return [str(pathlib.Path(directory) / f'{name}_{split}.jsonl')]

    def read(directory, split, on_bad=fail):
        (path,) = files(directory, split)
        return from_rows(json_records.read(path), described, path, on_bad, labelled=True)

    described = Task(name, head, labels, ('accuracy',), splits, read, files, segments=segments, n_texts=sum(segments))
    return described
