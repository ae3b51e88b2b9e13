"""The texts in a segment of a user's own set: a column, a template with columns, or a template chosen by a column.

COPA is an example of the last: its `question` column chooses between '{premise} because' and '{premise} so'.
"""
import json
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from gpt1_jax.data.tasks.reading import RowFault


class ByValue(NamedTuple):
    """A text for each value of a column. In a config it is a dictionary:
    {'column': 'question', 'cause': '{premise} because', 'effect': '{premise} so'}.

    texts: (value, column or template) pairs.
    """
    column: str
    texts: tuple[tuple[str, str], ...]


Part = str | ByValue  # a string with braces is a template; any other is a column's name


def parse(value: Any) -> Part:
    """The Part, which can be hashed, of a string or dictionary in a config. TypeError for anything else, ValueError
    with what is wrong with a template."""
    if type(value) is str:
        _check(value)
        return value
    if type(value) is not dict or not all(type(item) is str for pair in value.items() for item in pair):
        raise TypeError
    texts = tuple((name, text) for name, text in value.items() if name != 'column')
    if not value.get('column') or not texts:
        raise ValueError("a dictionary must have 'column', whose value chooses the text, and a text for each value")
    for _, text in texts:
        _check(text)
    return ByValue(value['column'], texts)


def _check(text):
    try:
        pieces = _pieces(text)
    except ValueError as error:
        raise ValueError(f'{text!r} is no template ({error}): a column goes in {{ }}, and {{{{ is a brace') from None
    if text and any(column == '' or width or conversion for _, column, width, conversion in pieces):
        raise ValueError(f'{text!r} is no template: between {{ and }} there must be the name of a column')


def _pieces(text):
    """(literal, column or None, format, conversion) of each piece of a template or a column's name."""
    return list(string.Formatter().parse(text)) if '{' in text or '}' in text else [('', text, '', None)]


def columns(part: Part) -> list[str]:
    """The columns that a part reads, in order, with repetitions."""
    if isinstance(part, ByValue):
        return [part.column, *(column for _, text in part.texts for column in columns(text))]
    return [column for _, column, _, _ in _pieces(part) if column is not None]


def of_cell(value: Any) -> str:
    """The text of a cell. JSON numbers, true and false are written as in JSON; null is empty, as is NaN, which pandas
    writes for it."""
    if value is None or value != value:
        return ''
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value)


def fill(part: Part, cell: Callable[[str], str]) -> str:
    """The text of a part in a row. cell: column -> its text. RowFault if there is none for a column's value."""
    if isinstance(part, ByValue):
        value = cell(part.column)
        texts = dict(part.texts)
        if value not in texts:
            raise RowFault(f'{part.column}: {value!r} is not one of {", ".join(texts)}')
        return fill(texts[value], cell)
    return ''.join(literal + ('' if column is None else cell(column)) for literal, column, _, _ in _pieces(part))
