"""Reads JSON: a record a line, an array of records, or a table as pandas' to_json writes it."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from gpt1_jax.data import files
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Bad, How, Row
from gpt1_jax.errors import UserError


def read(path: str, how: How) -> Iterator[Row | Bad]:
    """Yields the records of a file, called by their lines, or by their numbers in an array.

    A record is mostly an object, but may be any value. Blank lines are left out. A line that is no
    JSON is Bad. A file that is not one record a line is read as a whole: an array (of lists if
    how.columns are given), or one object that holds a table, such as {"data": [...]} and the forms
    of pandas. UserError for a file that is none of these, and for a whole of more than LONGEST
    bytes.
    """
    found = _lines(path)
    number, first = next(found, (0, ''))
    where = f'{path}: line {number}'
    value = _parsed(first, where)
    opening = '' if isinstance(first, UserError) else first[:99].lstrip()[:1]
    is_whole = opening == '[' or opening == '{' and files.kind(path) == 'json'
    following = next(found, None) if is_whole else None
    if is_whole and (isinstance(value, Bad) or following is None):
        whole = _whole(path, value, first, itertools.chain(filter(None, [following]), found))
        if whole is not None:
            for number, record in enumerate(whole, 1):
                yield _row(f'{path}: record {number}', record, how)
            return
    del first
    if number:
        yield _row(where, value, how)
    del value
    for number, line in itertools.chain(filter(None, [following]), found):
        following = None
        where = f'{path}: line {number}'
        value = _parsed(line, where)
        del line
        yield _row(where, value, how)
        del value


def _lines(path):
    """Yields (number, text or UserError) of the lines that are not blank."""
    for number, line in rows_lib.lines(path):
        if isinstance(line, UserError) or line and not line.isspace():
            yield number, line
        del line


def _parsed(text: str | UserError, where: str) -> Any:
    """The value of a JSON text, or a Bad."""
    if isinstance(text, UserError):
        return Bad(where, str(text).removeprefix(f'{where}: '))
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Bad(where, f'not JSON ({error})')


def _row(where, record, how):
    """The Row of a record, with the names of its columns in one form."""
    if isinstance(record, Bad):
        return record
    if isinstance(record, list) and how.columns:
        record = dict(zip(how.columns, record))
    if isinstance(record, dict) and not ''.join(record).isascii():
        record = {rows_lib.column_name(name): value for name, value in record.items()}
    return Row(where, record)


def _whole(path, value, first, others):
    """The records of a file that is one value. None if the value is itself a record.

    value: that of the first line. first, others: the lines.
    """
    if isinstance(value, Bad):
        parts = [first]
        length = len(first)
        for _, line in others:
            if isinstance(line, UserError):
                raise line
            parts.append(line)
            length += len(line)
            if length > rows_lib.LONGEST:
                raise UserError(
                    f'{path}: one JSON value of more than {rows_lib.LONGEST >> 20} MiB: write a '
                    'record a line (pandas: to_json(orient="records", lines=True))'
                )
        value = _parsed('\n'.join(parts), str(path))
        if isinstance(value, Bad):
            raise UserError(f'{path}: neither a record a line nor one JSON value: {value.why}')
        if isinstance(value, dict):
            found = table(value)
            if found is None:
                raise UserError(
                    f'{path}: one JSON object, expected an array of records or a record a line '
                    "(of pandas: to_json(orient='records'))"
                )
            return found
        return value
    if isinstance(value, dict):
        return table(value)
    return value if all(isinstance(item, (dict, list)) for item in value) else None


def table(value: dict) -> list | None:
    """The records of an object that holds a table, None if it holds none.

    {"data": [record]} with or without other fields; and as pandas writes a frame, by its names of
    orient: split {"columns": [name], "data": [[value]]}, columns {name: {index: value}}, index
    {index: {name: value}}, list {name: [value]}. An object with "texts" is a record to predict.
    """
    if 'texts' in value:
        return None
    names = value.get('columns')
    if isinstance(names, list) and isinstance(value.get('data'), list):
        return [dict(zip(names, row)) for row in value['data']]
    arrays = [item for item in value.values() if _all(item, dict)]
    if len(arrays) == 1:
        return arrays[0]
    inner = list(value.values())
    if _all(inner, dict):
        if all(name.isdecimal() for name in value):
            return inner
        inner = [list(column.values()) for column in inner]
    if len(inner) < 2 or not _all(inner, list) or len({*map(len, inner)}) != 1:
        return None
    if isinstance(inner[0][0], dict):  # lists of objects are no columns
        return None
    return [dict(zip(value, row)) for row in zip(*inner)]


def _all(items, kind):
    """Whether a value is a list, not empty, whose items are all of a kind, not empty."""
    return (
        isinstance(items, list)
        and bool(items)
        and all(isinstance(item, kind) and item for item in items)
    )
