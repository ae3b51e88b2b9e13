"""Reads tables: CSV and TSV as people, pandas, Excel and databases write them.

One dialect a file, decided from its first lines. See the README for why the csv module reads.
"""

import csv
import itertools
import re
from collections.abc import Iterator
from typing import Any

from gpt1_jax.data import files
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Bad, How, Row
from gpt1_jax.errors import UserError, listed

SAMPLE = 2**16  # characters from which the dialect is decided
SEPARATORS = ',\t;|'
# How programs write quotation marks: doubled, after a space, escaped by a backslash, or as text
QUOTING: tuple[dict[str, Any], ...] = (
    {},
    {'skipinitialspace': True},
    {'escapechar': '\\'},
    {'skipinitialspace': True, 'escapechar': '\\'},
    {'quoting': csv.QUOTE_NONE},
)
_SPACED = re.compile(' +"').match
REMEDY = 'name its encoding, such as --encoding=latin-1 or cp1252'


def _is_blank(row):
    """Whether all cells of a row are empty."""
    return not isinstance(row, csv.Error) and not any(cell.strip() for cell in row)


def read(path: str, how: How) -> Iterator[Row | Bad]:
    """Yields the rows of a table. Their places count rows from 1 as a spreadsheet does.

    The first row has the names of the columns, unless `how.columns` has them and the first row
    lacks a needed one. Blank lines are left out. A first line `sep=;` is Excel's. A row with more
    or fewer cells than the header is Bad, but cells after the last needed one may be missing, as
    annotators' labels in some rows of SNLI.
    UserError if the table is empty or in another encoding, lacks a needed column, or has a quote
    that is never closed.
    """
    csv.field_size_limit(rows_lib.LONGEST)  # by default a cell has at most 131,072 characters
    lines = _lines(path, how.encoding)
    lines = itertools.dropwhile(lambda line: not line[1].strip(' \r\n'), lines)
    sample = _sample(lines)
    if not sample:
        raise UserError(f'{path}: empty')
    separator = how.separator
    if marked := re.fullmatch('"?sep=(.?)"?\n', sample[0][1]):
        separator = marked[1] or separator
        del sample[0]
    dialect = _dialect(path, [line for _, line in sample], separator, how)
    first_row = sample[0][0] if sample else 1
    cells = _cells(path, itertools.chain(sample, lines), dialect, first_row)
    # Excel writes an empty first row as separators only
    cells = itertools.dropwhile(lambda row: _is_blank(row[1]), cells)
    number, names = next(cells, (0, []))
    if isinstance(names, csv.Error):
        raise UserError(f'{path}: row {number}, the first: {names}')
    header = list(map(rows_lib.column_name, names))
    if how.columns and not (how.needed and {*how.needed} <= {*header}):
        header = list(how.columns)
        cells = itertools.chain([(number, names)], cells)
    rows_lib.check_columns(path, how.needed, header)
    columns = header if how.rest or not how.needed else how.needed
    places = {name: header.index(name) for name in columns}
    least = 1 + max((places[name] for name in how.needed), default=len(header) - 1)
    for number, row in cells:
        if _is_blank(row):
            continue
        where = f'{path}: row {number}'
        if isinstance(row, csv.Error):
            yield Bad(where, f'{row} (a quotation mark inside a cell is written twice: "")')
        elif not least <= len(row) <= len(header):
            yield Bad(where, f'{len(row)} columns, expected {len(header)} ({listed(header)})')
        else:
            found = {name: row[place] for name, place in places.items() if place < len(row)}
            yield Row(where, found)


def _lines(path, encoding):
    """Yields (number, line) of a file, each line with '\\n' at its end."""
    returns_end_lines = False
    for number, line in rows_lib.lines(path, encoding, REMEDY):
        if isinstance(line, UserError):
            raise line
        if number == 1:  # as in files of old Macs
            returns_end_lines = '\r' in line
        if returns_end_lines:
            yield from enumerate((part + '\n' for part in line.split('\r')), number)
        else:
            yield number, line + '\n'


def _sample(lines):
    """The first lines, of SAMPLE characters or a little more."""
    found = []
    length = 0
    for number, line in lines:
        found.append((number, line))
        length += len(line)
        if length > SAMPLE:
            break
    return found


def _dialect(path, sample, separator, how):
    """The arguments of the csv module that fit the first lines of a file best.

    The needed columns must be in the header. Then the rows count that do not fit: those with
    another number of cells than the header, and those with a space before a quotation mark that may
    begin a cell. Then the separator that gives more columns, the extension's separator, and plain
    quoting. In a TSV, quotation marks are text if reading them as quoting would join lines that are
    rows by themselves.
    """
    tabs = files.kind(path) == 'tsv'
    candidates = [
        {'delimiter': own, **quoting}
        for own in (separator or ('\t,;|' if tabs else SEPARATORS))
        for quoting in QUOTING
        if how.quoted is None or how.quoted == ('quoting' not in quoting)
    ]
    cut = sum(map(len, sample)) > SAMPLE

    def fit(dialect):
        width, bad, rows, known = _fit(sample, dialect, cut, how)
        separate = rows if dialect['delimiter'] == '\t' else 0
        return known, width > 1, -bad, width, separate

    return max(candidates, key=fit)


def _fit(sample, dialect, cut, how):
    """(columns of the header, rows that do not fit, rows, whether the needed columns are there)."""
    header: list[str] = list(how.columns)
    bad = rows = 0
    keeps = 'skipinitialspace' not in dialect and 'quoting' not in dialect
    reader = csv.reader(map(_quiet, sample), strict=True, **dialect)
    while reader.line_num < len(sample):
        try:
            row = next(reader)
        except csv.Error:
            # A quote that is open at the end of the sample may be closed later
            bad += not cut or reader.line_num < len(sample)
            continue
        header = header or list(map(rows_lib.column_name, row))
        if row:
            rows += 1
            bad += len(row) != len(header) or keeps and any(map(_SPACED, row))
    return len(header), bad, rows, {*how.needed} <= {*header}


def _cells(path, lines, dialect, first):
    """Yields (number, cells or csv.Error) of each row. first: the number of the first row."""
    if 'quoting' in dialect:
        separator = dialect['delimiter']
        yield from (
            (number, line[:-1].split(separator)) for number, line in lines if line.strip('\r\n')
        )
        return
    length = 0

    def of_row():
        """Yields the lines. The lines of one row are together at most LONGEST long."""
        nonlocal length
        for _, line in lines:
            length += len(line)
            if length > rows_lib.LONGEST:
                raise rows_lib.too_long(f'{path}: row {number}')
            # The csv module refuses carriage returns in a cell without quotes
            yield _quiet(line)

    reader = csv.reader(of_row(), strict=True, **dialect)
    for number in itertools.count(first):
        length = 0
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if 'unexpected end' in str(error):
                raise UserError(
                    f'{path}: row {number}: a quotation mark opens a cell that is never closed'
                ) from None
            yield number, error
        else:
            yield number, row


def _quiet(line):
    """A line without the carriage returns that the csv module refuses in a cell without quotes."""
    return line if '"' in line else line.replace('\r', ' ')
