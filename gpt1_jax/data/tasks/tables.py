"""Rows of a file with one example a row: TSV without quoting, as GLUE's; CSV; JSON lines; an array
of JSON records."""

import csv
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpt1_jax.data.document import LONGEST, too_long
from gpt1_jax.data.tasks import reading
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import UserError


def is_json(path: str | pathlib.Path) -> bool:
    return str(path).lower().endswith(('.jsonl', '.json'))


def read(
    path: str | pathlib.Path,
    needed: Sequence[str] = (),
    columns: Sequence[str] = (),
    quoted: bool = False,
    delimiter: str = '\t',
    short: type[RowFault] = RowFault,
) -> Iterator[Row]:
    """The rows of a file. Ids are positions from 0; messages count lines from 1 as an editor does,
    header included.

    needed:  columns that a table must have, in any order.
    columns: column names for a table without a header; else the first row has them.
    quoted:  whether the table has CSV quoting. GLUE's files do not.
    short:   the fault of a row that ends before the last needed column. Columns after it may be
             missing, as the annotators' labels at the end of some rows of SNLI. A row with more
             columns than the header is a RowFault.
    Blank lines are skipped and not counted in ids, as csv.DictReader, and so TFDS, does.
    UserError if the file is empty or not UTF-8, lacks a needed column, or has broken CSV quoting or
    JSON.
    """
    if is_json(path):
        for position, (where, record) in enumerate(records(path)):
            yield Row(where, str(position), reading.json_object(record))
        return
    rows = _cells(path, quoted, delimiter)
    if not columns:
        columns = [name.strip() for name in next(rows, (0, ()))[1]]
        if not any(columns):
            raise UserError(f'{path}: empty')
    for name in needed:
        if name not in columns:
            other = next((one for one in ',;\t|' if len(columns) == 1 and one in columns[0]), None)
            hint = f'; are they separated by {other!r}? (config.custom.format)' if other else ''
            raise UserError(f'{path}: no column {name!r} (columns: {", ".join(columns)}){hint}')
        if list(columns).count(name) > 1:
            raise UserError(f'{path}: two columns are called {name!r}')
    least = 1 + max((columns.index(name) for name in needed), default=len(columns) - 1)
    blank = ([],) if quoted and len(columns) == 1 else ([], [''])  # a quoted cell may be empty
    rows = (row for row in rows if row[1] not in blank)
    for position, (number, row) in enumerate(rows):
        fields: dict | RowFault = dict(zip(columns, row))
        if not least <= len(row) <= len(columns):
            fault = short if len(row) < least else RowFault
            fields = fault(f'{len(row)} columns, expected {len(columns)} ({", ".join(columns)})')
        yield Row(f'{path}: row {number}', str(position), fields)


def header(path: str | pathlib.Path, delimiter: str) -> list[str]:
    """The column names of a table with CSV quoting, or of the first JSON record. UserError as in
    `read`."""
    if is_json(path):
        first = first_record(path)
        return list(map(str, first)) if isinstance(first, dict) else []
    return [name.strip() for name in next(_cells(path, True, delimiter), (0, ()))[1]]


def first_record(path: str | pathlib.Path) -> Any:
    """The first record of a JSON file that can be read; None if there is none."""
    return next((record for _, record in records(path) if not isinstance(record, RowFault)), None)


def quotes_are_text(path: str | pathlib.Path, delimiter: str) -> bool:
    """Whether the quotation marks of a table are text, not CSV quoting: read as quoting they make
    one row of several lines, or none at all, though each of these lines has as many delimiters as
    the first one."""
    lines = list(reading.decoded_lines(path))

    def are_rows(lines):
        return all(line.count(delimiter) == width for line in lines if line)

    width = lines[0].count(delimiter)
    last = 0
    try:
        for number, _ in _cells(path, True, delimiter):
            if number > last + 1 and are_rows(lines[last:number]):
                return True
            last = number
    except UserError:
        return are_rows(lines[last:])
    return False


def layout(
    path: str | pathlib.Path,
    needed: Sequence[str],
    layouts: Sequence[Sequence[str]],
    quoted: bool = False,
    delimiter: str = '\t',
) -> tuple[str, ...]:
    """The `columns` argument of `read` for a file that may lack a header.

    () if the first row names all needed columns, or the first record is an object; else the first
    of the layouts with as many columns as that row or record.
    """
    first = (
        first_record(path) if is_json(path) else next(_cells(path, quoted, delimiter), (0, ()))[1]
    )
    if (
        not isinstance(first, (list, tuple))
        or not is_json(path)
        and {*needed} <= {name.strip() for name in first}
    ):
        return ()
    return next(
        (tuple(columns) for columns in layouts if columns and len(columns) == len(first)), ()
    )


def _cells(path, quoted, delimiter):
    """(number of its last line, cells) of each row of a table."""
    lines = reading.decoded_lines(path)
    first = next(lines, '')
    # A line that tells Excel the separator
    left_out = 1 if re.fullmatch(r'"?sep=.?"?', first) else 0
    if not left_out:
        lines = itertools.chain([first], lines)
    if not quoted:
        for number, line in enumerate(lines, 1 + left_out):
            yield number, line.split(delimiter)
        return
    returns_end_rows = '\r' in first  # as in files of old Macs
    csv.field_size_limit(LONGEST)  # by default a cell has at most 131,072 characters
    last = left_out
    length = 0

    def of_row():
        """The lines of the file. Those of one row, whose cells may have line breaks, have a row's
        length together."""
        nonlocal length
        for line in lines:
            length += len(line) + 1
            if length > LONGEST:
                raise too_long(f'{path}: row {last + 1}')
            if returns_end_rows:  # the csv module takes them at the end of what it is given
                yield from filter(None, re.split(r'(?<=\r)', line + '\n'))
            elif '"' in line:
                yield line + '\n'
            else:  # in a cell without quotes the csv module refuses them
                yield line.replace('\r', ' ') + '\n'

    reader = csv.reader(of_row(), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            last = left_out + reader.line_num
            length = 0
            yield last, row
    except csv.Error as error:  # after a broken quote no later row can be read
        raise UserError(f'{path}: row {last + 1}: {error}') from None


def records(path: str | pathlib.Path) -> Iterable[tuple[str, Any]]:
    """(where, record or RowFault) of every record of a JSON file: a line each, or the items of one
    array.

    The first line of JSON lines may also be a list. It is the whole array if no line follows and
    its items are records themselves.
    """
    lines = [
        (number, line) for number, line in enumerate(reading.decoded_lines(path), 1) if line.strip()
    ]
    first = reading.json_value(lines[0][1]) if lines else None
    opening = ('[', '{') if str(path).endswith('.json') else '['
    if isinstance(first, RowFault) and lines[0][1].lstrip().startswith(opening):
        items = reading.json_value('\n'.join(line for _, line in lines))
        if isinstance(items, RowFault):
            raise UserError(f'{path}: neither a JSON array of records nor a record a line: {items}')
        if not isinstance(items, list):
            raise UserError(
                f'{path}: one JSON object, expected an array of records or a record a line'
            )
    elif (
        len(lines) == 1
        and isinstance(first, list)
        and all(isinstance(item, (dict, list)) for item in first)
    ):
        items = first
    else:
        return ((f'{path}: row {number}', reading.json_value(line)) for number, line in lines)
    return ((f'{path}: record {number}', item) for number, item in enumerate(items, 1))
