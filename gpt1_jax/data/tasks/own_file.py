"""What a user's own labelled file tells about itself: its format, its labels, how it marks the right answer."""
import pathlib

from gpt1_jax.data.tasks import custom_spec, tables
from gpt1_jax.errors import UserError, did_you_mean

SUFFIXES = ('.csv', '.tsv', '.jsonl', '.json')
SEPARATORS = {',': 'csv', '\t': 'tsv', ';': ';', '|': '|'}  # config.custom.format
MANY_LABELS = 30  # of more, which are mostly different, a score or free text is likelier
MOST_LABELS = 1000  # read from a file


def describe(path: pathlib.Path, needed: tuple[str, ...]) -> str:
    """The config.custom.format of a file. UserError for another suffix than SUFFIXES, or a missing column."""
    if path.suffix not in SUFFIXES:
        raise UserError(f'{path}: must end in one of {", ".join(SUFFIXES)}')
    formats = {'': path.suffix[1:]} if tables.is_json(path) else SEPARATORS
    found = {name: tables.header(path, separator) for separator, name in formats.items()}
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
    values = [str(value).strip() for value in _values(
        path, custom['format'], custom['label'], custom['columns'], custom['quoting'])]
    found = set(values)
    if len(found) < 2:
        raise UserError(f'{path}: {len(found)} different label(s) in column {custom["label"]!r}, at least 2 are needed')
    if len(found) > min(max(MANY_LABELS, len(values) // 2), MOST_LABELS):
        raise UserError(f'{path}: column {custom["label"]!r} has {len(found):,} different labels in {len(values):,} '
                        'rows; of a score give --score=LOW,HIGH (config.custom.score)')
    return tuple(sorted(found, key=lambda name: (0, int(name), '') if _is_whole(name) else (1, 0, name)))


def kind_of_answer(path: pathlib.Path, format: str, column: str) -> str:
    """The config.custom.answer of a column: 'letter', 'index0', 'index1' or 'text'."""
    values = {str(value).strip() for value in _values(path, format, column)}
    if values <= set(custom_spec.LETTERS + custom_spec.LETTERS.lower()):
        return 'letter'
    if all(map(_is_whole, values)):
        return 'index0' if '0' in values else 'index1'
    return 'text'


def most_choices(path: pathlib.Path, column: str) -> int:
    """The length of the longest list in a column of JSON records."""
    return max((len(value) for value in _values(path, 'json', column) if isinstance(value, list)), default=0)


def _values(path, format, column, columns=(), quoting=True):
    """The cells of a column that are not empty."""
    rows = tables.read(path, (column,), tuple(columns), quoting, custom_spec.FORMATS.get(format, format))
    values = (row.fields.get(column) for row in rows if isinstance(row.fields, dict))
    return [value for value in values if value is not None and str(value).strip()]


def _is_whole(name):
    return name.removeprefix('-').isdecimal()
