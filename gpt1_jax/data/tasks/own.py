"""Tasks of a user's own: a table and the names of its columns, or a function in a Python file.

    gpt1 finetune --data=my.csv --text=COLUMN --label=COLUMN

`from_records` makes a Task of files and a function. `task` makes one of a table in the same way:
its function is written from the names of the columns. your_task.py has examples to copy.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import math
import pathlib
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpt1_jax import metrics, rules, storage
from gpt1_jax.data import files as files_lib
from gpt1_jax.data import hub, readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Bad, How, Row
from gpt1_jax.data.tasks.example import SEVERAL, Example, Task, file_state, kept, label_name
from gpt1_jax.errors import UserError, in_code, listed, shown

HEADS = ('classify', 'similarity', 'choice')
MOST_LABELS = 1000  # each row's target has a number for each label
MANY_LABELS = 30  # more labels, if mostly different, are probably a score or free text
DEV_FRACTION = 0.1  # of the training rows, without a file for dev


@dataclasses.dataclass(frozen=True, eq=False)
class File:
    """The source of a split that is one file of the set's directory."""

    name: str
    how: How = How()
    published: tuple[int, ...] = ()

    def files(self, directory: str) -> list[str]:
        return [str(storage.path(directory) / self.name)]

    def rows(self, directory: str) -> Iterable[Row | Bad]:
        return table_rows(self.files(directory)[0], self.how)


def table_rows(path: str, how: How = How()) -> Iterator[Row | Bad]:
    """Yields the rows of a labelled file, where .txt is a table.

    UserError after the last row if no row has a needed column. Rows of a table in memory (`saved`)
    count from 0.
    """
    kind = files_lib.kind(path)
    in_memory = storage.path(path).parent == storage.cache('tables')
    known: dict[str, None] = {}
    for number, row in enumerate(readers.rows(path, how, 'csv' if kind == 'txt' else kind)):
        if isinstance(row, Row) and isinstance(row.fields, dict):
            known |= dict.fromkeys(row.fields)
        yield row._replace(where=f'{path}: row {number}') if in_memory else row
    if known:
        rows_lib.check_columns(path, how.needed, list(known))


# A Python file


def from_records(
    name: str,
    head: str,
    labels: tuple[str, ...],
    files: Mapping[str, str],
    example: Callable[[Any], Example | Iterable[Example]],
    metrics: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    encoding: str = 'utf-8',
    quoted: bool | None = None,
    score: tuple[float, float] | None = None,
    **options: Any,
) -> Task:
    """Makes a Task whose rows a function makes from the records of files.

    head:    'classify', 'similarity' or 'choice'.
    labels:  the names of the labels, or of the positions of choices. () for a score.
    files:   {'train': name, 'dev': name, ...} in config.data.dir. Without dev, a tenth of the
             training rows of each label is dev (dev_fraction, dev_seed).
    example: a record, as in its file (from a table a dict) -> an Example or several, with label
             None if the record has no label.
    metrics: the first selects the best epoch. By default accuracy, or pearson and spearman.
    columns: the names of the columns of tables without a header.
    encoding, quoted: of tables. By default the quoting is found from the first lines.
    score:   (low, high) of labels that are numbers.
    options: other fields of Task.
    A bad row is a UserError that names its file and line, and the line of `example` that failed.
    """
    if head not in HEADS:
        raise UserError(
            f'{name}: head is {shown(head)}, must be {", ".join(HEADS)}; '
            "of labels that are numbers: head 'classify', labels (), score=(LOW, HIGH)"
        )
    if score is not None:
        labels = bins(score)
    if not labels:
        raise UserError(
            f'{name}: labels is {shown(labels)}, must be names; of labels that are numbers: '
            'labels (), score=(LOW, HIGH)'
        )
    how = How(columns=tuple(columns), encoding=encoding, quoted=quoted)
    sources = {split: File(file, how) for split, file in files.items()}
    if 'dev' not in sources and 'train' in sources:
        sources['dev'] = sources['train']
        options = {'dev_fraction': DEV_FRACTION} | options
    return Task(
        name,
        head,
        tuple(labels),
        metrics_of(metrics, score),
        sources,
        functools.partial(_in_user_code, example),
        new=lambda path: table_rows(path, how),
        score=score,
        **options,
    )


def _in_user_code(example, record):
    """The Examples of a record. UserError if the user's function fails."""
    try:
        with in_code(inspect.getfile(inspect.unwrap(example))):
            found = example(record)
            found = [found] if isinstance(found, Example) else list(found)
    except UserError as error:
        hint = ''
        if 'KeyError' in str(error) and isinstance(record, dict):
            hint = (
                f' (columns: {listed(record)}; of a table without a header, give '
                'from_records columns=(NAME, ...))'
            )
        raise UserError(f'{error}{hint}') from None
    for made in found:
        if not isinstance(made, Example):
            raise UserError(f'{example.__name__} returns {shown(made)}, must return an Example')
    return found


def bins(score: Sequence[float]) -> tuple[str, ...]:
    """The labels of a score: one for each whole number, or a single one with the squared loss."""
    low, high = score
    if float(low).is_integer() and float(high).is_integer() and high - low < MOST_LABELS:
        return tuple(map(str, range(int(low), int(high) + 1)))
    return ('score',)


def metrics_of(names: Sequence[str], score: Any) -> tuple[str, ...]:
    """The names of metrics, by default the usual ones. UserError for one that does not apply."""
    what = 'labels'
    known = metrics.LABEL_METRICS
    usual: tuple[str, ...] = ('accuracy',)
    if score:
        what = 'scores'
        known = usual = metrics.VALUE_METRICS
    for name in names:
        rules.choose(f'metric of {what}', name, dict.fromkeys(known))
    return tuple(names) or usual


# A table


class Table(File):
    """The source of the split `name` of a table, a directory of tables, or hf:USER/NAME."""

    def files(self, directory: str) -> list[str]:
        found = files_lib.splits(directory)
        if self.name not in found and self.name != 'dev':
            raise UserError(f'{directory}: no table for the split {self.name!r}')
        return [found.get(self.name, found['train'])]


def of(fields: Mapping[str, Any], labels: Sequence[str] | None = None) -> Task:
    """The Task of a plain dict of configs/custom.py's fields. Arguments and errors as in `task`.

    UserError also for a field that is missing or unknown.
    """
    try:
        given = inspect.signature(task).bind(**fields, labels=labels)
    except TypeError as error:
        raise UserError(f'config.custom: {error}') from None
    return task(*given.args, **given.kwargs)


def task(
    data: str,
    text: str | Sequence[str],
    label: str,
    choices: Sequence[str] = (),
    score: Sequence[Any] = (),
    encoding: str = 'utf-8',
    labels: Sequence[str] | None = None,
) -> Task:
    """Makes the Task of a table.

    data:    a table, a directory with train.csv and, if there are any, dev.csv and test.csv, or
             hf:USER/NAME. Task.read takes it as the directory.
    text:    the column of the text, or several, each a segment.
    label:   the column of the label, of the right choice (its letter, number or text), or of the
             score.
    choices: the columns of the answers, the last of which may be empty, or one column of lists.
    score:   (low, high) of labels that are numbers.
    labels:  the names of the labels, if they are known. By default they are read from the table,
             which must have at least two and not nearly as many as rows.
    UserError for names that do not fit together, or do not fit the table.
    """
    names = [(name,) if isinstance(name, str) else tuple(name) for name in (text, choices)]
    texts, answers = (tuple(map(rows_lib.column_name, one)) for one in names)
    label = rows_lib.column_name(label or '')
    limits = limits_of(score)
    every = (*texts, *answers, label)
    twice = next((name for name in every if every.count(name) > 1), None)
    for wrong, message in (
        (not data, 'give --data=FILE'),
        (not texts or not all(texts) or not label, 'give --text=COLUMN and --label=COLUMN'),
        (bool(answers) and bool(limits), 'choices and score are both given: give one of the two'),
        (twice is not None, f'column {twice!r} is given twice'),
    ):
        if wrong:
            raise UserError(message)
    state = None
    if labels is None and not limits:
        path = files_lib.splits(data)['train']
        state = path, file_state(path)
    return _task(data, texts, label, answers, limits, encoding, labels and tuple(labels), state)


def limits_of(score: Sequence[Any]) -> tuple[float, ...]:
    """(low, high) of a score, or (). UserError for other values."""
    if not score:
        return ()
    try:
        low, high = map(float, score)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f'score is {shown(score)}, must be LOW,HIGH, two numbers')
    return low, high


@functools.lru_cache(maxsize=8)  # equal descriptions give the same Task, which reads its rows once
def _task(data, texts, label, choices, score, encoding, labels, state):
    example = functools.partial(_example, texts, label, choices)
    how = How((*texts, *choices, label), encoding=encoding)
    sources = {split: Table(split, how) for split in files_lib.SPLITS}
    if score:
        labels = bins(score)
    elif labels is None:
        found = kept(sources['train'], data, example)
        read = _positions if choices else _names
        labels = read(found, label, sources['train'].files(data)[0])
    new = How((*texts, *choices), rest=True, encoding=encoding)
    return Task(
        name(data),
        'choice' if choices else 'classify',
        labels,
        metrics_of((), score),
        sources,
        example,
        new=lambda path: table_rows(path, new),
        score=score or None,
        n_texts=len(texts),
        columns=(*texts, *choices),
        dev_fraction=DEV_FRACTION,
    )


def whole(task: Task) -> Task:
    """The same Task, but every split is all rows of the file that is given as its directory."""
    sources: dict[str, Any] = dict(task.sources)
    for split, source in sources.items():
        sources[split] = File('', source.how)
    return dataclasses.replace(task, sources=sources, dev_fraction=0.0)


def name(data: str) -> str:
    """The name of a table's task: of the file without extension, of the directory or on the Hub."""
    if hub.is_name(data):
        return hub.split(data)[0].rpartition('/')[2]
    return pathlib.Path(data).absolute().name.split('.')[0]  # absolute, because '.' has no name


def _example(texts, label, choices, row):
    """The Example of a row. Its label is the cell's text."""
    found = tuple(rows_lib.text(row, column) for column in texts)
    return Example('', found, _choices(row, choices), rows_lib.of_cell(row.get(label)))


def _choices(row, columns):
    if not columns:
        return ()
    if len(columns) == 1:
        return _listed(row, columns[0])
    found = [rows_lib.text(row, column, may_be_empty=True) for column in columns]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _listed(row, column):
    """The choices in a JSON list, or in a cell of a table that contains one."""
    value = row.get(column)
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    if not isinstance(value, list) or any(isinstance(choice, (list, dict)) for choice in value):
        raise UserError(f'{column}: not a JSON list of texts')
    return tuple(map(rows_lib.of_cell, value))


# What the column of the label holds


def _examples(found, path):
    """The Examples with a label. UserError with the first fault if there are none."""
    sound = [one for _, one in found if isinstance(one, Example) and one.label]
    if not sound:
        faults = (f'{where}: {one}' for where, one in found if isinstance(one, UserError))
        nothing = 'no row has a label' if found else 'no rows'
        raise UserError(next(faults, f'{path}: {nothing}'))
    return sound


def _names(found, column, path):
    """The labels: numbers in order of size, then other names by alphabet."""
    values = [label_name(one.label) for one in _examples(found, path)]
    names = set(values)
    lists = sorted(name for name in names if re.fullmatch(r'\[.*\]|\{.*\}|\(.*\)', name))
    many = f'{path}: column {column!r} has {len(names):,} different labels in {len(values):,} rows'
    if lists:
        raise UserError(f'{path}: column {column!r} has lists, such as {lists[0]}: {SEVERAL}')
    if len(names) < 2:
        raise UserError(
            f'{path}: {len(names)} different label(s) in column {column!r}, at least 2 are needed'
        )
    if len(names) > min(max(MANY_LABELS, len(values) // 2), MOST_LABELS):
        if all(map(_is_number, names)):
            raise UserError(f'{many}; of a score give --score=LOW,HIGH')
        raise UserError(
            f'{many}: few rows share a label, or there are more than {MOST_LABELS:,}; is it the '
            'column of the label?'
        )
    return tuple(
        sorted(names, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name))
    )


def _positions(found, column, path):
    """The names of the choices' positions, as the column of the right one writes them.

    If the column has the text of the right choice, no choice may be taken for a position: #1, #2.
    """
    examples = _examples(found, path)
    n = max(len(one.choices) for one in examples)
    answers = {one.label for one in examples}
    if sum(one.label in one.choices for one in examples) > len(examples) / 2:
        return tuple(f'#{position}' for position in range(1, n + 1))
    if answers <= {*string.ascii_letters}:
        return tuple(string.ascii_uppercase[:n])
    first = 0 if '0' in answers else 1
    return tuple(str(position) for position in range(first, first + n))


def _is_whole(name):
    return name.removeprefix('-').isdecimal()


def _is_number(name):
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


# Tables in memory


def is_frame(value: Any) -> bool:
    """Whether a value has columns, as a DataFrame of pandas or polars, or a table of pyarrow."""
    return hasattr(value, 'columns') or hasattr(value, 'column_names')


def records_of(frame: Any) -> list[dict]:
    """The rows of a table in memory as {column: value}."""
    names = list(getattr(frame, 'column_names', None) or frame.columns)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f'the table has {names.count(twice[0])} columns called {twice[0]!r}')
    method = next(each for each in _RECORDS if hasattr(frame, each))
    given = ('records',) if method == 'to_dict' else ()
    return [
        {str(name): _plain(value) for name, value in record.items()}
        for record in getattr(frame, method)(*given)
    ]


def _plain(value):
    return value.tolist() if hasattr(value, 'tolist') else value  # numpy's


# Of pyarrow, polars and pandas
_RECORDS = ('to_pylist', 'to_dicts', 'to_dict')


def saved(frame: Any) -> str:
    """The path of a file with the rows of a table in memory.

    It is in the cache, named for its contents, and stays there for the runs that name it.
    """
    text = ''.join(
        json.dumps(record, ensure_ascii=False, default=str) + '\n' for record in records_of(frame)
    )
    data = text.encode('utf-8', 'backslashreplace')
    folder = storage.cache('tables')
    storage.mkdir(folder)
    path = folder / f'table-{hashlib.sha256(data).hexdigest()[:16]}.jsonl'
    if not path.exists():
        storage.write(path, data)
    return str(path)
