"""Labelled sets of our own making as JSON lines: written, read back with every row checked, and made a Task."""
import dataclasses
import json
import pathlib
from collections.abc import Iterable

from gpt1_jax import storage
from gpt1_jax.data.tasks import reading, tables, tfds_source
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import UserError, shown


def write(path, examples: Iterable[Example]):
    """Examples -> a JSON-lines file of {"id", "texts", "choices", "label"}, made in one step."""
    lines = ''.join(json.dumps(dataclasses.asdict(example), ensure_ascii=False) + '\n' for example in examples)
    storage.write(path, lines.encode('utf-8', 'backslashreplace'))


def read(path, n_texts: int, n_choices: int, n_labels: int, skipped: list[str] | None = None) -> list[Example]:
    """The examples of a file that `write` made. UserError naming file, line and cause.

    skipped: takes the messages of bad lines, which are left out.
    """
    def make(row_id, fields):
        try:
            row = json.loads(fields['line'])
        except (ValueError, RecursionError) as error:
            cause = f'{error.msg} at column {error.colno}' if isinstance(error, json.JSONDecodeError) else error
            raise RowFault(f'not JSON ({cause})') from None
        cause = wrong_with(row, n_texts, n_choices, n_labels)
        if cause:
            raise RowFault(cause)
        return Example(row['id'], tuple(row['texts']), tuple(row['choices']), row['label'])

    rows = (Row(f'{path}: line {number}', str(number), {'line': line})
            for number, line in enumerate(reading.decoded_lines(path), 1))
    return reading.collect(rows, make, str(path), skipped=skipped)


def wrong_with(row, n_texts: int, n_choices: int, n_labels: int) -> str | None:
    """What is wrong with a row of a file, or None."""
    if not isinstance(row, dict):
        return f'{type(row).__name__}, expected an object'
    missing = [name for name in ('id', 'texts', 'choices', 'label') if name not in row]
    if missing:
        return f'no field {missing[0]!r}'
    if not isinstance(row['id'], str):
        return f'id {shown(row["id"])} is not a string'
    for name, wanted in (('texts', n_texts), ('choices', n_choices)):
        value = row[name]
        if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
            return f'{name} is not a list of non-empty strings'
        if len(value) != wanted:
            return f'{len(value)} {name}, expected {wanted}'
    label = row['label']
    if label is not None and (isinstance(label, bool) or not isinstance(label, int)):
        return f'label {shown(label)} is not a whole number'
    if label is not None and not 0 <= label < n_labels:
        return f'label {label} is out of range 0..{n_labels - 1}'
    return None


def read_file(path, task: Task, skipped: list[str] | None = None) -> list[Example]:
    """The examples of any task as {"texts": [...]} lines, with "choices" where the task has them, and "id", by default
    the row's number from 0. Labels are not read. Errors and `skipped` as of Task.read."""
    return from_rows(tables.read(path), task, str(path), skipped)


def from_rows(rows: Iterable[Row], task: Task, what: str, skipped: list[str] | None = None) -> list[Example]:
    """The same of Rows with these fields. what: where they come from, for messages."""
    most = len(task.labels) if task.head == 'choice' else 0

    def listed(fields, name):
        value = fields.get(name, [])
        if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) and text.strip() for text in value):
            raise RowFault(f'{name} is not a list of non-empty strings')
        return tuple(value)

    def make(row_id, fields):
        texts, choices = listed(fields, 'texts'), listed(fields, 'choices')
        if len(texts) != task.n_texts:
            raise RowFault(f'{len(texts)} texts, expected {task.n_texts}')
        if not (2 if most else 0) <= len(choices) <= most:
            raise RowFault(f'{len(choices)} choices, expected {f"2 to {most}" if most > 2 else most}')
        return Example(reading.row_id(fields, 'id', row_id), texts, choices)
    return reading.collect(rows, make, what, skipped=skipped)


def task(name: str, head: str, labels: tuple[str, ...], splits: tuple[str, ...], n_texts: int, n_choices: int) -> Task:
    """The Task over '{name}_{split}.jsonl' in a directory."""
    def files(directory, split_name):
        if tfds_source.is_tfds(directory):
            raise UserError(f'{directory}: TFDS has no set {name}')
        if split_name not in splits:
            raise UserError(f'{name} has no split {split_name!r} (there are {", ".join(splits)})')
        return [str(pathlib.Path(directory) / f'{name}_{split_name}.jsonl')]

    def read_split(directory, split_name, skipped=None):
        return read(files(directory, split_name)[0], n_texts, n_choices, len(labels), skipped)

    return Task(name, head, labels, ('accuracy',), splits, read_split, files, n_texts=n_texts)
