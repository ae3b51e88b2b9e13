"""Reads Parquet: row groups are streamed, and a file out of proportion is refused by its footer."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Bad, How, Row
from gpt1_jax.errors import UserError

# Row groups of a file, columns of a file
MOST_GROUPS = 50_000
MOST_COLUMNS = 10_000
LARGEST_GROUP = 2**33  # bytes of a row group
# How many times its file's size a row group may have. Text has about five times, one repeated
# letter thousands of times
MOST_TIMES = 100
_BATCH = 2**22  # bytes of rows in memory at a time, about
# Bytes of a column read at a time, so that the size of a row group does not matter
_BUFFER = 2**20


def read(path: str, how: How) -> Iterator[Row | Bad]:
    """Yields the rows of a file, from row 0 on. Memory holds a few rows.

    Numbers that have names in the schema's metadata, as the Hub's, become these names, and -1
    becomes ''. UserError if the file is damaged or out of proportion, if a needed column is missing
    or there twice, and for a cell of more than LONGEST bytes.
    """
    with opened(path) as file:
        schema = file.schema_arrow
        names = list(map(rows_lib.column_name, schema.names))
        known = dict(zip(names, schema.names))
        columns = list(known) if how.rest or not how.needed else list(how.needed)
        rows_lib.check_columns(path, (*how.needed, *columns), names)
        labels = {name: class_names(schema, known[name]) for name in columns}
        for number, batch in _batches(path, file, [known[name] for name in columns], how.groups):
            arrays = [batch.column(known[name]) for name in columns]
            for position in range(batch.num_rows):
                where = f'{path}: row {number + position}'
                try:
                    fields = {
                        name: _value(array[position], labels[name], where)
                        for name, array in zip(columns, arrays)
                    }
                except UserError as error:
                    yield Bad(where, str(error).removeprefix(f'{where}: '))
                    continue
                yield Row(where, fields)
                del fields


def _value(scalar, names, where):
    """The Python value of a cell. A number with a name becomes the name."""
    try:
        value = scalar.as_py()
    except UnicodeDecodeError as error:
        value = error.object
    if isinstance(value, bytes):
        value = rows_lib.decoded(value, where)
    if isinstance(value, str) and len(value) > rows_lib.LONGEST:
        raise rows_lib.too_long(where)
    if names and isinstance(value, int) and value < len(names):
        return names[value] if value >= 0 else ''  # the Hub's number for no label is -1
    return value


def _batches(path, file, columns, groups):
    """Yields (number of the first row, pyarrow.RecordBatch)."""
    counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    first = [0, *itertools.accumulate(counts)]
    for group in range(file.num_row_groups) if groups is None else groups:
        number = first[group]
        size = max(1, file.metadata.row_group(group).total_byte_size)
        # No row is longer than its group, in which a dictionary has each different text once
        rows = min(10_000, max(1, _BATCH * counts[group] // size))
        for batch in file.iter_batches(rows, [group], columns, use_threads=False):
            yield number, batch
            number += batch.num_rows
        if number != first[group + 1]:
            raise UserError(
                f'{path}: damaged, row group {group} has {number - first[group]} rows, not '
                f'{counts[group]}'
            )


@contextlib.contextmanager
def opened(path: str) -> Iterator[Any]:
    """Opens a pyarrow.parquet.ParquetFile that verifies page checksums.

    Texts keep the encoding of a dictionary, so that a text that many rows share is in memory once.
    UserError naming the file for read errors, for too many row groups or columns, and for a row
    group that declares more than LARGEST_GROUP bytes, or MOST_TIMES as many as the file has.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with storage.opened(path) as stream:
            limits = {'thrift_container_size_limit': MOST_GROUPS}
            how = {'buffer_size': _BUFFER, 'page_checksum_verification': True}
            with pyarrow.parquet.ParquetFile(stream, **how, **limits) as file:
                _check(path, file)
                yield file
    # A column's name may raise the second
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        cause = ' '.join(str(error).split())[:300]
        if 'Exceeded size limit' in cause:
            cause = f'more than {MOST_GROUPS:,} row groups or columns'
        raise UserError(f'{path}: cannot be read ({cause})') from None


def _check(path, file):
    if file.metadata.num_columns > MOST_COLUMNS:
        raise UserError(
            f'{path}: {file.metadata.num_columns:,} columns, more than {MOST_COLUMNS:,}'
        )
    most = min(LARGEST_GROUP, max(rows_lib.LONGEST, MOST_TIMES * storage.size(path)))
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).total_byte_size
        if not 0 <= size <= most:
            raise UserError(
                f'{path}: row group {group} has {size:,} bytes, more than {most:,}: out of '
                'proportion to the file'
            )


def row_group_sizes(path: str) -> list[int]:
    """The uncompressed bytes of each row group. UserError as in `opened`."""
    with opened(path) as file:
        groups = range(file.num_row_groups)
        return [file.metadata.row_group(group).total_byte_size for group in groups]


def class_names(schema: Any, name: str) -> list[str]:
    """The names that a column's numbers stand for, by the schema's metadata, or []."""
    try:
        features = json.loads((schema.metadata or {})[b'huggingface'])['info']['features']
        return list(features[name]['names'])
    except (KeyError, TypeError, ValueError):
        return []
