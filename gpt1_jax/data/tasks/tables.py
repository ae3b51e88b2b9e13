"""Reads a table with one example a row: TSV without quoting, as in GLUE; CSV; JSON records."""
import csv
import pathlib
from collections.abc import Iterator, Sequence

from gpt1_jax.data.tasks import json_records, reading
from gpt1_jax.data.tasks.reading import Row, RowFault, ShortRow
from gpt1_jax.errors import UserError


def read(path: str | pathlib.Path, needed: Sequence[str] = (), columns: Sequence[str] = (), quoted: bool = False,
         delimiter: str = '\t') -> Iterator[Row]:
    """The rows of a table. Ids are positions from 0; messages count lines from 1 as an editor does, header included.

    path:    the file; for .jsonl and .json see json_records.read.
    needed:  columns that the file must have, in any order.
    columns: column names for a file without a header; else the first row has them.
    quoted:  whether the file has CSV quoting. GLUE's files do not.
    A row that ends before the last needed column is a ShortRow. Columns after it may be missing, as the annotators'
    labels at the end of some rows of SNLI. A row with more columns than the header is a RowFault. Blank lines are
    skipped and not counted in ids, as csv.DictReader, and so TFDS, does.
    UserError if the file is missing, empty or not UTF-8, lacks a needed column, or has broken CSV quoting.
    """
    if json_records.is_json(path):
        yield from json_records.read(path, columns)
        return
    rows = _rows(path, quoted, delimiter)
    if not columns:
        columns = [name.strip() for name in next(rows, (0, ()))[1]]
        if not any(columns):
            raise UserError(f'{path}: empty')
    missing = [name for name in needed if name not in columns]
    if missing:
        other = next((one for one in ',;\t|' if len(columns) == 1 and one in columns[0]), None)
        hint = f'; are they separated by {other!r}? (config.custom.format)' if other else ''
        raise UserError(f'{path}: no column {missing[0]!r} (columns: {", ".join(columns)}){hint}')
    twice = next((name for name in needed if list(columns).count(name) > 1), None)
    if twice:
        raise UserError(f'{path}: two columns are called {twice!r}')
    least = 1 + max((columns.index(name) for name in needed), default=len(columns) - 1)
    position = 0
    for number, row in rows:
        if row == [] or row == [''] and len(columns) > 1:
            continue
        fault = f'{len(row)} columns, expected {len(columns)} ({", ".join(columns)})'
        if len(row) < least:
            fields: dict | RowFault = ShortRow(fault)
        elif len(row) > len(columns):
            fields = RowFault(fault)
        else:
            fields = dict(zip(columns, row))
        yield Row(f'{path}: row {number}', str(position), fields)
        position += 1


def header(path: str | pathlib.Path, delimiter: str) -> list[str]:
    """The column names in the first row of a table with CSV quoting. UserError as in `read`."""
    return [name.strip() for name in next(_rows(path, True, delimiter), (0, ()))[1]]


def layout(path: str | pathlib.Path, needed: Sequence[str], layouts: Sequence[Sequence[str]], quoted: bool = False,
           delimiter: str = '\t') -> tuple[str, ...]:
    """The `columns` argument of `read` for a file that may lack a header.

    () if the first row names all needed columns, else the first of the layouts with as many columns as that row.
    """
    if json_records.is_json(path):
        return json_records.layout(path, layouts)
    _, first = next(_rows(path, quoted, delimiter), (0, ()))
    if {*needed} <= {name.strip() for name in first}:
        return ()
    return next((tuple(columns) for columns in layouts if columns and len(columns) == len(first)), ())


def _rows(path, quoted, delimiter):
    """(number of its last line, cells) of each row."""
    lines = reading.decoded_lines(path)
    if not quoted:
        for number, line in enumerate(lines, 1):
            yield number, line.split(delimiter)
        return
    csv.field_size_limit(2 ** 31 - 1)  # by default a cell has at most 131,072 characters
    reader = csv.reader((line + '\n' for line in lines), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:  # after a broken quote no later row can be read
        raise UserError(f'{path}: row {reader.line_num}: {error}') from None
