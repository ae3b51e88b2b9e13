"""Reads a labelled set that config fields describe instead of code: tables or JSON files as
Examples."""

import collections
import dataclasses
import functools
import json
import pathlib

from gpt1_jax import storage
from gpt1_jax.data.tasks import custom_spec, own_file, reading, tables
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import RowFault, Split
from gpt1_jax.errors import UserError, fail


def task(fields: dict | None) -> Task:
    """The Task described by a plain dict of custom_spec.Spec's fields.

    UserError listing every mistake in the fields.
    """
    return _task(custom_spec.check(fields))


def of_file(fields: dict | None, path: str) -> Task:
    """The Task of the fields, but every split is all rows of one other labelled file."""
    spec = _as_written(custom_spec.check(fields), path)
    files = tuple((split, str(pathlib.Path(path).absolute())) for split in ('train', 'dev', 'test'))
    return _task(dataclasses.replace(spec, files=files, dev_fraction=0.0))


@functools.cache  # equal descriptions give the same Task, so a sweep reads its rows once
def _task(spec):
    if spec.labels:
        target = 'labels'
        labels = spec.labels
        score = None
    elif spec.choices:
        target = 'choices'
        labels = _positions(spec)
        score = None
    elif spec.squared:
        target = 'score'
        labels = (spec.label,)
        score = tuple(map(float, spec.score))
    else:
        low, high = score = tuple(map(int, spec.score))
        target = 'score'
        labels = tuple(map(str, range(low, high + 1)))
    splits = {
        split: Split((spec.file(split) or spec.file('train'),), labelled=split != 'unlabelled')
        # Dev may be a part of train
        for split in custom_spec.FILES
        if spec.file(split) or split == 'dev'
    }
    task = reading.labelled_set(
        spec.name,
        'choice' if spec.choices else 'classify',
        labels,
        spec.metrics or custom_spec.METRICS[target][: 2 if spec.score else 1],
        splits,
        functools.partial(_example, spec),
        functools.partial(_rows, spec),
        new=functools.partial(_new, spec),
        find=lambda directory, split: [str(pathlib.Path(directory) / split.files[0])],
        segments=tuple(map(len, spec.segments)),
        score=score,
        squared=spec.squared,
        positive=labels.index(spec.positive) if spec.positive else 1,
        n_texts=len(spec.texts),
        columns=(*spec.texts, *spec.choices),
    )
    return (
        dataclasses.replace(task, read=functools.partial(_divided, spec, task))
        if spec.dev_fraction
        else task
    )


def _divided(spec, task, directory, split, on_bad=fail):
    """The examples of a split if dev is a part of the training file.

    Of the n rows with each label (for a score or choices, of all rows) round(dev_fraction * n) are
    dev, at least one. A label with a single row has no dev row. Dev rows have the smallest hashes
    of (dev_seed, texts, choices), whatever the order. Rows with equal text stay together.
    """
    found = task.read(directory, split, on_bad)
    if split not in ('train', 'dev'):
        return found
    hashes = [
        storage.json_digest([spec.dev_seed, example.texts, example.choices]) for example in found
    ]
    groups = collections.defaultdict(list)
    for example, hashed in zip(found, hashes):
        groups[example.label if spec.labels else None].append(hashed)
    chosen = set()
    for group in groups.values():
        n = max(1, round(spec.dev_fraction * len(group)))
        if len(group) > 1 or len(groups) == 1:
            chosen.update(sorted(group)[:n])
    train = [example for example, hashed in zip(found, hashes) if hashed not in chosen]
    dev = [example for example, hashed in zip(found, hashes) if hashed in chosen]
    if not train or not dev:
        raise UserError(
            f'{task.files(directory, split)[0]}: {len(found)} rows leave none for '
            f'{"dev" if train else "train"} by config.custom.dev_fraction = {spec.dev_fraction}'
        )
    return dev if split == 'dev' else train


def _rows(spec, paths, split):
    """Reads the rows of a file."""
    (path,) = paths
    needed = (
        *spec.texts,
        *spec.choices,
        *filter(None, (spec.id, spec.label) if split.labelled else ()),
    )
    return tables.read(path, needed, (), spec.quoting, spec.delimiter, encoding=spec.encoding)


def _new(spec, path, split):
    return _rows(_as_written(spec, path), [path], split)


def _as_written(spec, path):
    """The Spec for another file with the set's columns.

    The separator and the quoting of the other file may differ.
    """
    if tables.is_json(path):
        return spec
    if spec.format in custom_spec.JSON:
        raise UserError(
            f'{path}: the files of {spec.name} are records, must end in .jsonl, .json or .parquet'
        )
    suffix = pathlib.Path(path).suffix.lower()
    if spec.delimiter not in own_file.SEPARATORS or suffix not in own_file.SUFFIXES:
        return spec
    try:
        found = own_file.describe(pathlib.Path(path), (*spec.texts, *spec.choices), spec.encoding)
    except UserError:
        if spec.quoting:
            raise
        return spec  # the file's header may have quotation marks that are text
    quoting = spec.quoting or custom_spec.FORMATS.get(found, found) != spec.delimiter
    return dataclasses.replace(
        spec,
        format=found,
        quoting=quoting
        and not (found == 'tsv' and tables.quotes_are_text(path, '\t', spec.encoding)),
    )


def _positions(spec):
    """The names of the choices' positions, as the label column writes them."""
    n = spec.max_choices or len(spec.choices)
    if spec.answer == 'letter':
        return tuple(custom_spec.LETTERS[:n])
    first = 0 if spec.answer == 'index0' else 1
    return tuple(str(position) for position in range(first, first + n))


def _example(spec, split, row_id, row):
    """Makes the Example of a row {column: value}. RowFault naming column and cause."""

    def cell(column, may_be_empty=False):
        """The text of a column, stripped."""
        if column not in row:
            raise RowFault(f'no {column}')
        value = row[column]
        if isinstance(value, (list, dict)):
            raise RowFault(f'{column}: {json.dumps(value)} is not a text')
        text = reading.of_cell(value)
        if not text and not may_be_empty:
            raise RowFault(f'{column} is empty')
        return text

    texts = tuple(map(cell, spec.texts))
    choices = ()
    if len(spec.choices) == 1:
        choices = _listed(row, spec.choices[0], spec.max_choices)
    elif spec.choices:
        choices = tuple(cell(column, may_be_empty=True) for column in spec.choices)
        while choices and not choices[-1]:
            choices = choices[:-1]
        if '' in choices or len(choices) < 2:
            empty = choices.index('') if '' in choices else len(choices)
            raise RowFault(
                f'{spec.choices[empty]} is empty: a row has 2 choices or more, the empty ones last'
            )
    label = _label(spec, cell(spec.label), choices) if split.labelled else None
    own_id = spec.id and (split.labelled or spec.id in row)  # rows to predict may lack the column
    return Example(cell(spec.id) if own_id else row_id, texts, choices, label)


def _listed(row, column, most):
    """The choices in a JSON list, or in a cell of a table that contains one."""
    value = row.get(column)
    if isinstance(value, str):
        value = reading.json_value(value)
        if isinstance(value, RowFault):
            raise RowFault(f'{column}: {value}, must be a JSON list')
    if not isinstance(value, list) or any(isinstance(choice, (list, dict)) for choice in value):
        raise RowFault(f'{column}: not a JSON list of texts')
    choices = tuple(map(reading.of_cell, value))
    if '' in choices:
        raise RowFault(f'{column}: choice {choices.index("") + 1} is empty')
    if not 2 <= len(choices) <= most:
        raise RowFault(
            f'{column}: {len(choices)} choices, must be 2 to {most} (config.custom.max_choices)'
        )
    return choices


def _label(spec, value, choices):
    """The index of the label or of the right choice, or the score."""
    if spec.labels:
        name = value if value in spec.labels else reading.label_name(value)
        return reading.label(name, spec.labels, spec.label)
    if spec.score:
        return reading.score(value, spec.score, spec.label)
    if spec.answer == 'text':
        if choices.count(value) > 1:
            raise RowFault(f"{spec.label} {value!r} is more than one of the row's choices")
        return reading.label(value, choices, spec.label)
    value = value.upper() if spec.answer == 'letter' else value
    return reading.label(value, _positions(spec)[: len(choices)], spec.label)
