"""What a user's own labelled file tells about itself: its format, its labels, how it marks the right answer."""
import pathlib
from collections.abc import Iterator

from gpt1_jax.data.tasks import custom_spec, json_records, tables
from gpt1_jax.data.tasks.reading import RowFault
from gpt1_jax.errors import UserError, did_you_mean

SUFFIXES = ('.csv', '.tsv', '.jsonl', '.json')
SEPARATORS = {',': 'csv', '\t': 'tsv', ';': ';', '|': '|'}  # config.custom.format
MANY_LABELS = 30  # of more, which are mostly different, a score or free text is likelier


def describe(path: pathlib.Path, needed: tuple[str, ...]) -> str:
    """The config.custom.format of a file. UserError for another suffix than SUFFIXES, or a missing column."""
    if path.suffix not in SUFFIXES:
        raise UserError(f'{path}: must end in one of {", ".join(SUFFIXES)}')
    if json_records.is_json(path):
        first = next(json_records.read(path), None)
        found = {path.suffix[1:]: list(first.fields) if first and isinstance(first.fields, dict) else []}
    else:
        found = {name: tables.header(path, separator) for separator, name in SEPARATORS.items()}
    # The separator that gives the needed columns, else the most of them.
    best = max(found, key=lambda name: (set(needed) <= set(found[name]), len(found[name])))
    for column in needed:
        if column not in found[best]:
            raise UserError(f'{path}: no column {column!r}{did_you_mean(column, found[best])} '
                            f'(columns: {", ".join(found[best])})')
    return best


def labels(path: pathlib.Path, custom: dict) -> tuple[str, ...]:
    """The labels in a file's column: numbers in order of size, other names in alphabetical order.

    custom: the fields of configs/custom.py. UserError where there are fewer than two, or nearly one a row.
    """
    values = list(_values(path, custom['format'], custom['label'], custom['columns'], custom['quoting']))
    found = set(values)
    if len(found) < 2:
        raise UserError(f'{path}: {len(found)} different label(s) in column {custom["label"]!r}, at least 2 are needed')
    if len(found) > max(MANY_LABELS, len(values) // 2):
        raise UserError(f'{path}: column {custom["label"]!r} has {len(found):,} different labels in {len(values):,} '
                        'rows; of a score give --score=LOW,HIGH (config.custom.score)')
    return tuple(sorted(found, key=lambda name: (0, int(name), '') if _is_whole(name) else (1, 0, name)))


def kind_of_answer(path: pathlib.Path, format: str, column: str) -> str:
    """The config.custom.answer of a column: 'letter', 'index0', 'index1' or 'text'."""
    values = set(_values(path, format, column))
    if values <= set(custom_spec.LETTERS + custom_spec.LETTERS.lower()):
        return 'letter'
    if all(map(_is_whole, values)):
        return 'index0' if '0' in values else 'index1'
    return 'text'


def most_choices(path: pathlib.Path, column: str) -> int:
    """The length of the longest list in a column of JSON records."""
    lists = (row.fields.get(column) for row in json_records.read(path) if isinstance(row.fields, dict))
    return max((len(items) for items in lists if isinstance(items, list)), default=0)


def _values(path, format, column, columns=(), quoting=True) -> Iterator[str]:
    """The cells of a column that are not empty."""
    separator = custom_spec.FORMATS.get(format, format)
    for row in tables.read(path, (column,), tuple(columns), quoting, separator):
        value = None if isinstance(row.fields, RowFault) else row.fields.get(column)
        if value is not None and str(value).strip():
            yield str(value).strip()


def _is_whole(name):
    return name.removeprefix('-').isdecimal()
