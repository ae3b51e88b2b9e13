"""A user's own labelled set, described by config fields instead of code: tables or JSON files as Examples."""
import functools
import json
import pathlib

from gpt1_jax import storage
from gpt1_jax.data.tasks import custom_spec, custom_text, reading, tables
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import UserError, fail


def task(fields: dict | None) -> Task:
    """The Task described by a plain dict of custom_spec.Spec's fields. UserError listing every mistake in them."""
    return _task(custom_spec.check(fields))


@functools.cache  # equal descriptions give the same Task, so a sweep reads its rows once
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
        source = reading.source_of(directory)
        if source is not None:
            raise UserError(f'{directory}: {spec.name} is not read from {source.KIND}')
        if split not in splits + unlabelled:
            raise reading.no_split(spec.name, split, splits + unlabelled)
        # dev may be a part of train
        return [str(pathlib.Path(directory) / (spec.file(split) or spec.file('train')))]

    def read(directory, split, on_bad=fail):
        return _read(spec, files(directory, split)[0], split, on_bad)

    return Task(
        spec.name, 'similarity' if spec.orders == 2 else 'choice' if spec.choices else 'classify', labels,
        spec.metrics or custom_spec.METRICS[target][:2 if spec.score else 1], splits, read, files,
        unlabelled=unlabelled, segments=tuple(map(len, spec.segments)),
        cut=_cut(spec) if spec.cut else None,
        score=whole or None, squared=spec.squared, positive=labels.index(spec.positive) if spec.positive else 1,
        n_texts=len(spec.texts), read_file=functools.partial(_read_file, spec))


def _read(spec, path, split, on_bad):
    """The examples of a split, in file order. `on_bad` and errors as in Task.read."""
    found = _examples(spec, path, split != 'unlabelled', on_bad)
    if not spec.dev_fraction or split not in ('train', 'dev'):
        return found
    train, dev = divide(found, spec.dev_fraction, spec.dev_seed, together=bool(spec.questions))
    if not train:
        raise UserError(f'{path}: {len(found)} rows leave none for train beside '
                        f'config.custom.dev_fraction = {spec.dev_fraction}')
    return dev if split == 'dev' else train


def _read_file(spec, path, on_bad=fail):
    """The examples of a file with the set's columns, without labels: see Task.read_file."""
    if spec.format in custom_spec.JSON and not tables.is_json(path):
        raise UserError(f'{path}: the files of {spec.name} are JSON, must end in .jsonl or .json')
    return _examples(spec, path, False, on_bad)


def _examples(spec, path, labelled, on_bad):
    """The examples of a file, one for each question if its records hold several."""
    needed = (*spec.text_columns, *spec.choices, *filter(None, (spec.id, spec.label) if labelled else ()))
    columns = spec.columns
    if not labelled:
        without_label = tuple(column for column in columns if column != spec.label)
        columns = tables.layout(path, needed, [columns, without_label], spec.quoting, spec.delimiter)
    rows = tables.read(path, needed, columns, spec.quoting, spec.delimiter)
    if spec.questions:
        rows = _questions(spec, rows)
    return reading.collect(rows, lambda row_id, row: _example(spec, row_id, row, labelled), str(path), on_bad=on_bad)


def _questions(spec, rows):
    """A row for each question, with the fields of its record. Record 7 has ids '7/0', '7/1', ..., as in RACE."""
    for row in rows:
        if isinstance(row.fields, RowFault):
            yield row
            continue
        found = row.fields.get(spec.questions)
        if not isinstance(found, list) or not found or not all(isinstance(question, dict) for question in found):
            yield row._replace(fields=RowFault(f'{spec.questions}: not a list of objects, one a question'))
            continue
        for number, question in enumerate(found):
            fields = row.fields | question
            own = row.fields.get(spec.id)
            if spec.id not in question and isinstance(own, (str, int)):
                fields[spec.id] = f'{own}/{number}'
            yield Row(f'{row.where}: question {number + 1}', f'{row.id}/{number}', fields)


def _cut(spec):
    """The index of the text that is cut: the column itself, or the template that contains it."""
    if spec.cut in spec.texts:
        return spec.texts.index(spec.cut)
    return next(i for i, part in enumerate(spec.texts) if spec.cut in custom_text.columns(part))


def divide(examples: list[Example], fraction: float, seed: int,
           together: bool = False) -> tuple[list[Example], list[Example]]:
    """(train, dev), with round(fraction * n) rows in dev, at least one: those with the smallest hashes of (seed, texts,
    choices), whatever the order. Rows with equal text stay together; `together`: also rows with the same first text,
    the questions about one passage.
    """
    def key(example):
        if together:
            return storage.json_digest([seed, example.texts[0]])
        return storage.json_digest([seed, example.texts, example.choices])

    keys = [key(example) for example in examples]
    last = sorted(keys)[max(1, round(fraction * len(examples))) - 1]
    train = [example for example, hashed in zip(examples, keys) if hashed > last]
    dev = [example for example, hashed in zip(examples, keys) if hashed <= last]
    return train, dev


def _positions(spec):
    """The names of the choices' positions, as the label column writes them."""
    n = spec.max_choices or len(spec.choices)
    if spec.answer == 'letter':
        return tuple(custom_spec.LETTERS[:n])
    first = 0 if spec.answer == 'index0' else 1
    return tuple(str(position) for position in range(first, first + n))


def _example(spec, row_id, row, labelled):
    """The Example of a row {column: value}. RowFault naming column and cause."""
    def cell(column, may_be_empty=False, lines=False):
        """The text of a column, stripped. lines: a list of texts, such as the turns of a dialogue, becomes lines."""
        if column not in row:
            raise RowFault(f'no {column}')
        items = row[column] if lines and isinstance(row[column], list) else [row[column]]
        if any(isinstance(item, (list, dict)) for item in items):
            raise RowFault(f'{column}: {json.dumps(row[column])} is not a text')
        text = '\n'.join(filter(None, map(_text, items)))
        if not text and not may_be_empty:
            raise RowFault(f'{column} is empty')
        return text

    texts = tuple(custom_text.fill(part, functools.partial(cell, lines=True)) for part in spec.texts)
    choices = ()
    if len(spec.choices) == 1:
        choices = _listed(row, spec.choices[0], spec.max_choices)
    elif spec.choices:
        choices = tuple(cell(column, may_be_empty=True) for column in spec.choices)
        while choices and not choices[-1]:
            choices = choices[:-1]
        if '' in choices:
            raise RowFault(f'{spec.choices[choices.index("")]} is empty, and a choice after it is not')
        if len(choices) < 2:
            raise RowFault(f'{spec.choices[len(choices)]} is empty, so the row has {len(choices)} choices, '
                           'must be 2 or more')
    label = _label(spec, cell(spec.label), choices) if labelled else None
    own_id = spec.id and (labelled or spec.id in row)  # rows to predict may lack the column
    return Example(cell(spec.id) if own_id else row_id, texts, choices, label)


def _text(value):
    """The text of a cell. JSON numbers, true and false are written as in JSON; null is empty, as is NaN, which pandas
    writes for it."""
    if value is None or value != value:
        return ''
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value)


def _listed(row, column, most):
    """The choices in a JSON list, or in a cell of a table that contains one."""
    value = row.get(column)
    if isinstance(value, str):
        try:
            value = reading.json_value(value)
        except RowFault as fault:
            raise RowFault(f'{column}: {fault}, must be a JSON list') from None
    if not isinstance(value, list) or any(isinstance(choice, (list, dict)) for choice in value):
        raise RowFault(f'{column}: not a JSON list of texts')
    choices = tuple(map(_text, value))
    if '' in choices:
        raise RowFault(f'{column}: choice {choices.index("") + 1} is empty')
    if not 2 <= len(choices) <= most:
        raise RowFault(f'{column}: {len(choices)} choices, must be 2 to {most} (config.custom.max_choices)')
    return choices


def _label(spec, value, choices):
    """The index of the label or of the right choice, or the score."""
    if spec.labels:
        return reading.label(value, spec.labels, spec.label)
    if spec.score:
        return reading.score(value, spec.score, spec.label)
    if spec.answer == 'text':
        if choices.count(value) != 1:
            many = 'more than one' if value in choices else 'not one'
            raise RowFault(f"{spec.label}: {value!r} is {many} of the row's choices")
        return choices.index(value)
    names = _positions(spec)[:len(choices)]
    if spec.answer == 'letter':
        value = value.upper()
    if value not in names:
        raise RowFault(f"{spec.label}: {value!r} is not one of the row's {len(choices)} choices, "
                       f'{names[0]} to {names[-1]}')
    return names.index(value)
