"""Reads a file with one example a row: TSV without quoting, as in GLUE, CSV, JSON lines, or an
array of JSON records."""

import csv
import itertools
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpt1_jax.data.document import LONGEST, too_long
from gpt1_jax.data.tasks import parquet_source, reading
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import UserError

# How other programs write quotation marks in CSV: after a space, and escaped by a backslash
DIALECTS: tuple[dict[str, Any], ...] = (
    {'skipinitialspace': True},
    {'escapechar': '\\'},
    {'skipinitialspace': True, 'escapechar': '\\'},
)


def is_json(path: str | pathlib.Path) -> bool:
    """Whether a file holds records: JSON, or Parquet, whose rows are read as records."""
    return str(path).lower().endswith(('.jsonl', '.json', '.parquet'))


def read(
    path: str | pathlib.Path,
    needed: Sequence[str] = (),
    columns: Sequence[str] = (),
    quoted: bool = False,
    delimiter: str = '\t',
    short: type[RowFault] = RowFault,
    encoding: str | None = None,
) -> Iterator[Row]:
    """Yields the rows of a file. Ids are positions from 0.

    Messages count lines from 1 as an editor does, header included.
    needed:  columns that a table must have, in any order and Unicode form.
    columns: column names for a table without a header. By default the first row has the names.
    quoted:  whether the table has CSV quoting. GLUE's files have none.
    short:   the fault of a row that ends before the last needed column. Columns after the last
             needed column may be missing, such as annotators' labels in some rows of SNLI. A row
             with more columns than the header is a RowFault.
    encoding: of a table, see records.decoded. JSON is UTF-8.
    Blank lines are skipped and not counted in ids, as in csv.DictReader and so in TFDS.
    UserError if the file is empty or in another encoding, lacks a needed column, or has broken CSV
    quoting or JSON.
    """
    if is_json(path):
        for position, (where, record) in enumerate(records(path, needed)):
            fields: dict | RowFault = reading.json_object(record)
            if isinstance(fields, dict) and not fields.keys() >= {*needed}:
                fields = dict(zip(_as_asked(fields, needed), fields.values()))
            yield Row(where, str(position), fields)
        return
    rows = _cells(path, quoted, delimiter, encoding)
    if not columns:
        columns = _as_asked(next(rows, (0, ()))[1], needed)
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
        fields = dict(zip(columns, row))
        if not least <= len(row) <= len(columns):
            fault = short if len(row) < least else RowFault
            fields = fault(f'{len(row)} columns, expected {len(columns)} ({", ".join(columns)})')
        yield Row(f'{path}: row {number}', str(position), fields)


def header(
    path: str | pathlib.Path,
    delimiter: str,
    needed: Sequence[str] = (),
    encoding: str | None = None,
) -> list[str]:
    """The column names of a table with CSV quoting, or of the first JSON record.

    needed: names that are returned in this form. UserError as in `read`.
    """
    if is_json(path):
        first = first_record(path)
        names = map(str, first) if isinstance(first, dict) else ()
    else:  # in a header a space before a quotation mark has no other meaning
        names = next(_quoted(path, delimiter, encoding, skipinitialspace=True), (0, ()))[1]
    return _as_asked(names, needed)


def _as_asked(names, needed):
    """Column names without spaces around.

    If a name differs from a needed name only in its Unicode form, the needed name is returned:
    macOS writes é as two characters.
    """
    asked = {unicodedata.normalize('NFC', name): name for name in needed}
    stripped = [name.strip() for name in names]
    return [asked.get(unicodedata.normalize('NFC', name), name) for name in stripped]


def first_record(path: str | pathlib.Path) -> Any:
    """The first record of a JSON file that can be read, None if there is none."""
    return next((record for _, record in records(path) if not isinstance(record, RowFault)), None)


def quotes_are_text(path: str | pathlib.Path, delimiter: str, encoding: str | None = None) -> bool:
    """Whether the quotation marks of a table are text instead of CSV quoting.

    They are text if, read as quoting, they join several lines to a row or break the file, although
    each of these lines has as many delimiters as the first line.
    """
    lines = list(reading.decoded_lines(path, encoding))

    def are_rows(lines):
        return all(line.count(delimiter) == width for line in lines if line)

    last = _lines(path, encoding)[0]
    width = lines[last].count(delimiter)
    try:
        for number, _ in _cells(path, True, delimiter, encoding):
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

    () if the first row names all needed columns, or if the first record is an object. Otherwise the
    first layout with as many columns as that row or record.
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


def _cells(path, quoted, delimiter, encoding=None):
    """(number of its last line, cells) of each row of a table."""
    if quoted:
        return _quoted(path, delimiter, encoding, **_dialect(path, delimiter, encoding))
    left_out, _, lines = _lines(path, encoding)
    return ((number, line.split(delimiter)) for number, line in enumerate(lines, 1 + left_out))


def _lines(path, encoding):
    """(1 or 0, the first line, the lines of the table).

    1 if the first line tells Excel the separator. The lines of the table are then the lines after
    it, otherwise all lines.
    """
    lines = reading.decoded_lines(path, encoding)
    first = next(lines, '')
    if re.fullmatch(r'"?sep=.?"?', first):
        return 1, first, lines
    return 0, first, itertools.chain([first], lines)


def _dialect(path, delimiter, encoding):
    """The options of the csv module for a file.

    If some rows do not fit plain CSV, the first of DIALECTS that all rows fit.
    """
    for options in ({}, *DIALECTS):
        if _fits(path, delimiter, encoding, options):
            return options
    return {}


def _fits(path, delimiter, encoding, options):
    """Whether every row has as many cells as the first row, and the quotation marks fit.

    They do not fit if a cell keeps a space before a quotation mark that may begin the cell.
    """
    width = 0
    keeps = 'skipinitialspace' not in options
    try:
        for _, row in _quoted(path, delimiter, encoding, **options):
            width = width or len(row)
            if len(row) not in (0, width) or keeps and any(map(_SPACED, row)):
                return False
    except UserError:
        return False
    return True


_SPACED = re.compile(' +"').match


def _quoted(path, delimiter, encoding, **options):
    """As `_cells`, for a table with CSV quoting. options: for the csv module."""
    left_out, first, lines = _lines(path, encoding)
    returns_end_rows = '\r' in first  # as in files of old Macs
    csv.field_size_limit(LONGEST)  # by default a cell has at most 131,072 characters
    last = left_out
    length = 0

    def of_row():
        """Yields the lines of the file. The lines of one row are together at most LONGEST long."""
        nonlocal length
        for line in lines:
            length += len(line) + 1
            if length > LONGEST:
                raise too_long(f'{path}: row {last + 1}')
            if returns_end_rows:  # the csv module takes them only at the end of a string
                yield from filter(None, re.split(r'(?<=\r)', line + '\n'))
            elif '"' in line:
                yield line + '\n'
            else:  # the csv module refuses carriage returns in a cell without quotes
                yield line.replace('\r', ' ') + '\n'

    reader = csv.reader(of_row(), delimiter=delimiter, strict=True, **options)
    try:
        for row in reader:
            last = left_out + reader.line_num
            length = 0
            yield last, row
    except csv.Error as error:  # after a broken quote no later row can be read
        raise UserError(
            f'{path}: row {last + 1}: {error} (if quotation marks are text: config.custom.quoting)'
        ) from None


def records(path: str | pathlib.Path, needed: Sequence[str] = ()) -> Iterable[tuple[str, Any]]:
    """(where, record or RowFault) of every record of a JSON file or row of a Parquet file.

    Records of a JSON file are its lines or the items of one array. The first of several lines may
    be a list. A list in a single line is the whole array if its items are records. An object of
    columns, as pandas writes it, is read as its records. needed: the columns of a Parquet file that
    may be lists.
    """
    if str(path).lower().endswith('.parquet'):
        return parquet_source.table(path, needed)
    lines = [
        (number, line) for number, line in enumerate(reading.decoded_lines(path), 1) if line.strip()
    ]
    first = reading.json_value(lines[0][1]) if lines else None
    opening: tuple[str, ...] = ('[',)
    if str(path).lower().endswith('.json'):
        opening = ('[', '{')
        if len(lines) == 1:
            first = _by_columns(first)
    if isinstance(first, RowFault) and lines[0][1].lstrip().startswith(opening):
        items = _by_columns(reading.json_value('\n'.join(line for _, line in lines)))
        if isinstance(items, RowFault):
            raise UserError(f'{path}: neither a JSON array of records nor a record a line: {items}')
        if not isinstance(items, list):
            raise UserError(
                f'{path}: one JSON object, expected an array of records or a record a line '
                "(of pandas: to_json(orient='records'))"
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


def _by_columns(value):
    """The records of an object of columns, {column: {index: value}} or {column: [value]}.

    Any other value is returned as it is, such as {"texts": [text]}, which is a record to predict.
    """
    if not isinstance(value, dict) or len(value) < 2 or 'texts' in value:
        return value
    columns = [
        list(column.values()) if isinstance(column, dict) else column for column in value.values()
    ]
    if not all(isinstance(column, list) for column in columns):
        return value
    rows = list(zip(*columns))
    # Lists of different lengths, or of objects, are no columns
    equal = all(len(column) == len(rows) for column in columns)
    if not rows or not equal or isinstance(rows[0][0], dict):
        return value
    return [dict(zip(value, row)) for row in rows]
