"""A user's own labelled set, described by fields and no code: tables or JSON lines -> the Examples of Section 3.3."""
import functools
import hashlib
import json
import pathlib
import re

from gpt1_jax.data.tasks import custom_spec, reading, tables, tfds_source
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import RowFault
from gpt1_jax.errors import UserError


def task(fields: dict) -> Task:
    """The Task that a plain dict of custom_spec.Spec's fields describes. UserError listing every mistake in them."""
    return _task(custom_spec.check(fields))


@functools.cache  # so that equal descriptions give equal tasks: rows are read once in a sweep
def _task(spec):
    target = 'labels' if spec.labels else 'score' if spec.score else 'choices'
    whole = tuple(map(float if spec.squared else int, spec.score))
    if spec.labels:
        labels = spec.labels
    elif spec.score:
        labels = (spec.label,) if spec.squared else tuple(str(value) for value in range(whole[0], whole[1] + 1))
    else:
        labels = _positions(spec)
    splits = tuple(split for split in ('train', 'dev', 'test') if spec.file(split) or split == 'dev')
    unlabelled = ('unlabelled',) if spec.file('unlabelled') else ()

    def files(directory, split):
        if tfds_source.is_tfds(directory):
            raise UserError(f'{directory}: TFDS has no set {spec.name}')
        if split not in (*splits, *unlabelled):
            raise UserError(f'{spec.name} has no split {split!r} (there are {", ".join((*splits, *unlabelled))})')
        # dev may be a part of train
        return [str(pathlib.Path(directory) / (spec.file(split) or spec.file('train')))]

    def read(directory, split, skipped=None):
        return _read(spec, files(directory, split)[0], split, skipped)

    return Task(
        spec.name, 'similarity' if spec.orders == 2 else 'choice' if spec.choices else 'classify', labels,
        spec.metrics or custom_spec.METRICS[target][:2 if spec.score else 1], splits, read, files,
        unlabelled=unlabelled, segments=tuple(map(len, spec.segments)),
        cut=spec.texts.index(spec.cut) if spec.cut else None,
        score=whole or None, squared=spec.squared, positive=labels.index(spec.positive) if spec.positive else 1,
        n_texts=len(spec.texts), read_file=functools.partial(_read_file, spec))


def _read(spec, path, split, skipped):
    """The examples of a split, in the order of its file. `skipped` and errors as in Task.read."""
    labelled = split != 'unlabelled'
    needed = (*spec.texts, *spec.choices, *filter(None, (spec.id, spec.label if labelled else '')))
    columns = tuple(column for column in spec.columns if labelled or column != spec.label)
    rows = tables.read(path, needed, columns, spec.quoting, spec.delimiter)
    found = reading.collect(rows, lambda row_id, row: _example(spec, row_id, row, labelled), path, skipped=skipped)
    if not spec.dev_fraction or split not in ('train', 'dev'):
        return found
    train, dev = divide(found, spec.dev_fraction, spec.dev_seed)
    if not train:
        raise UserError(f'{path}: {len(found)} rows leave none for train beside '
                        f'config.custom.dev_fraction = {spec.dev_fraction}')
    return dev if split == 'dev' else train


def _read_file(spec, path, skipped=None):
    """The examples of a file with the columns of the set's, labels aside: see Task.read_file."""
    if spec.format == 'jsonl' and not str(path).endswith('.jsonl'):
        raise UserError(f'{path}: the files of {spec.name} are JSON lines, must end in .jsonl')
    needed = (*spec.texts, *spec.choices, *filter(None, (spec.id,)))
    layouts = [spec.columns, tuple(column for column in spec.columns if column != spec.label)]
    columns = tables.layout(path, needed, layouts, spec.quoting, spec.delimiter)
    rows = tables.read(path, needed, columns, spec.quoting, spec.delimiter)
    return reading.collect(rows, lambda row_id, row: _example(spec, row_id, row, False), str(path), skipped=skipped)


def divide(examples: list[Example], fraction: float, seed: int) -> tuple[list[Example], list[Example]]:
    """(train, dev): round(fraction * n) rows, at least one, are dev.

    They are those with the smallest hashes of (seed, texts, choices): the same ones whatever the order of the rows,
    and rows with the same text stay together, so that none is trained on and tested.
    """
    def key(example):
        return hashlib.sha256(json.dumps([seed, example.texts, example.choices]).encode()).digest()

    keys = [key(example) for example in examples]
    last = sorted(keys)[max(1, round(fraction * len(examples))) - 1]
    return ([example for example, own in zip(examples, keys) if own > last],
            [example for example, own in zip(examples, keys) if own <= last])


def _positions(spec):
    """Names of the choices' positions, as `label` writes them."""
    n = spec.max_choices or len(spec.choices)
    first = 0 if spec.answer == 'index0' else 1
    return tuple(custom_spec.LETTERS[:n]) if spec.answer == 'letter' else tuple(map(str, range(first, first + n)))


def _example(spec, row_id, row, labelled):
    """{column: value} of a row -> Example. RowFault naming column and cause."""
    def cell(column):
        """A value as text, stripped."""
        if column not in row:
            raise RowFault(f'no {column}')
        if isinstance(row[column], (list, dict)):
            raise RowFault(f'{column}: {_shown(row[column])} is not a text')
        return _text(row[column])

    def full(column):
        text = cell(column)
        if not text:
            raise RowFault(f'{column} is empty')
        return text

    texts = tuple(full(column) for column in spec.texts)
    choices = ()
    if len(spec.choices) == 1:
        choices = _listed(row, spec.choices[0], spec.max_choices)
    elif spec.choices:
        choices = tuple(cell(column) for column in spec.choices)
        while choices and not choices[-1]:
            choices = choices[:-1]
        if '' in choices:
            raise RowFault(f'{spec.choices[choices.index("")]} is empty, and a choice after it is not')
        if len(choices) < 2:
            raise RowFault(f'{spec.choices[len(choices)]} is empty, so the row has {len(choices)} choices, '
                           'must be 2 or more')
    label = _label(spec, full(spec.label), choices) if labelled else None
    return Example(full(spec.id) if spec.id else row_id, texts, choices, label)


def _text(value):
    """A cell's text; JSON's numbers and true, false as JSON writes them, null as nothing."""
    if isinstance(value, str):
        return value.strip()
    return '' if value is None else json.dumps(value)


def _shown(value):
    """A list or an object as JSON writes it, if it does."""
    try:
        return json.dumps(value)
    except RecursionError:
        return f'a {type(value).__name__} in which too many others are nested'


def _listed(row, column, most):
    """The choices of a JSON list, or of a cell that holds one."""
    value = row.get(column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowFault(f'{column}: not a JSON list ({error})') from None
    if not isinstance(value, list) or any(isinstance(choice, (list, dict)) for choice in value):
        raise RowFault(f'{column}: not a JSON list of texts')
    choices = tuple(map(_text, value))
    if '' in choices:
        raise RowFault(f'{column}: choice {choices.index("") + 1} is empty')
    if not 2 <= len(choices) <= most:
        raise RowFault(f'{column}: {len(choices)} choices, must be 2 to {most} (config.custom.max_choices)')
    return choices


def _label(spec, value, choices):
    """The label's index, the right choice's, or the score."""
    if spec.labels:
        if value not in spec.labels:
            raise RowFault(f'{spec.label}: {value!r} is none of {", ".join(spec.labels)}')
        return spec.labels.index(value)
    if spec.score:
        try:
            score = float(value)
        except ValueError:
            raise RowFault(f'{spec.label}: {value!r} is not a number') from None
        if not spec.score[0] <= score <= spec.score[1]:
            raise RowFault(f'{spec.label}: {value} is out of range {spec.score[0]} to {spec.score[1]}')
        return score
    if spec.answer == 'text':
        if choices.count(value) != 1:
            many = 'more than one' if value in choices else 'none'
            raise RowFault(f"{spec.label}: {value!r} is {many} of the row's choices")
        return choices.index(value)
    names = _positions(spec)[:len(choices)]
    if spec.answer == 'letter':
        value = value.upper()
    elif re.fullmatch('[0-9]+', value):
        value = value.lstrip('0') or '0'  # '01' is 1
    if value not in names:
        raise RowFault(f"{spec.label}: {value!r} is none of the row's {len(choices)} choices, "
                       f'{names[0]} to {names[-1]}')
    return names.index(value)
