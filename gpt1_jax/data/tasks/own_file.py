"""Reads from a user's labelled file its format, its labels, and how it marks the right answer."""

import pathlib
from collections.abc import Mapping, Sequence

from gpt1_jax.data.tasks import custom_spec, reading, tables
from gpt1_jax.data.tasks.custom_spec import MOST_LABELS
from gpt1_jax.data.tasks.reading import of_cell
from gpt1_jax.errors import UserError, did_you_mean

SUFFIXES = ('.csv', '.tsv', '.jsonl', '.json', '.parquet')
SEPARATORS = {',': 'csv', '\t': 'tsv', ';': ';', '|': '|'}  # config.custom.format
MANY_LABELS = 30  # more labels, if mostly different, are probably a score or free text


def describe(path: pathlib.Path, needed: Sequence[str], encoding: str | None = None) -> str:
    """The config.custom.format of a file.

    UserError for a suffix that is not in SUFFIXES, or for a missing column.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f'{path}: must end in one of {", ".join(SUFFIXES)}')
    formats = {'': suffix[1:]} if tables.is_json(path) else SEPARATORS
    found: dict[str, list[str]] = {}
    errors = []
    for separator, name in formats.items():
        try:
            found[name] = tables.header(path, separator, needed, encoding)
        except UserError as error:  # a quoted cell that another separator follows
            # The traceback would hold the line, of any length
            errors.append(error.with_traceback(None))
            continue
    if not found:
        raise errors[0]
    # The separator that gives the needed columns is best, then the separator with the most columns,
    # then the separator of the file's extension.
    best = max(
        found,
        key=lambda name: (set(needed) <= set(found[name]), len(found[name]), name == suffix[1:]),
    )
    for column in needed:
        if column not in found[best]:
            raise UserError(
                f'{path}: no column {column!r}{did_you_mean(column, found[best])} (columns: '
                f'{", ".join(found[best])})'
            )
    return best


def labels(path: pathlib.Path, custom: Mapping) -> tuple[str, ...]:
    """The labels in a file's column: numbers in order of size, then other names by alphabet.

    custom: the fields of configs/custom.py. UserError if there are fewer than two labels, or nearly
    as many as rows.
    """
    read = _read(path, custom, (custom['label'],))
    rows = _in_order(read)
    if not rows:
        raise UserError(f'{read[0].where}: {read[0].fields}' if read else f'{path}: no rows')
    cells = (of_cell(row.get(custom['label'])) for row in rows)
    values = [reading.label_name(text) for text in cells if text]
    found = set(values)
    if len(found) < 2:
        raise UserError(
            f'{path}: {len(found)} different label(s) in column {custom["label"]!r}, at least 2 '
            'are needed'
        )
    if len(found) > min(max(MANY_LABELS, len(values) // 2), MOST_LABELS):
        raise UserError(
            f'{path}: column {custom["label"]!r} has {len(found):,} different labels in '
            f'{len(values):,} rows; of a score give --score=LOW,HIGH (config.custom.score)'
        )
    return tuple(
        sorted(found, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name))
    )


def kind_of_answer(path: pathlib.Path, custom: Mapping) -> str:
    """The config.custom.answer of a file. custom: as in `labels`.

    'text' if each row's answer is among its choices, otherwise 'letter', 'index0', 'index1' or
    'text'.
    """
    column = custom['label']
    choices = custom['choices']

    def written(row):
        listed = row.get(choices[0]) if len(choices) == 1 else list(map(row.get, choices))
        if isinstance(listed, str):
            listed = reading.json_value(listed)
        return map(of_cell, listed) if isinstance(listed, list) else ()

    rows = [
        row
        for row in _in_order(_read(path, custom, (column, *choices)))
        if of_cell(row.get(column))
    ]
    if rows and all(of_cell(row[column]) in written(row) for row in rows):
        return 'text'
    values = {of_cell(row[column]) for row in rows}
    if values <= set(custom_spec.LETTERS + custom_spec.LETTERS.lower()):
        return 'letter'
    if all(map(_is_whole, values)):
        return 'index0' if '0' in values else 'index1'
    return 'text'


def most_choices(path: pathlib.Path, custom: Mapping) -> int:
    """The length of the longest list of choices in JSON records. custom: as in `labels`."""
    columns = custom['choices']
    lists = (row.get(columns[0]) for row in _in_order(_read(path, custom, columns)))
    return max((len(value) for value in lists if isinstance(value, list)), default=0)


def _read(path, custom, needed):
    delimiter = custom_spec.FORMATS.get(custom['format'], custom['format'])
    rows = tables.read(path, needed, (), custom['quoting'], delimiter, encoding=custom['encoding'])
    return list(rows)


def _in_order(rows):
    """{column: value} of each row without a fault."""
    return [row.fields for row in rows if isinstance(row.fields, dict)]


def _is_whole(name):
    return name.removeprefix('-').isdecimal()
