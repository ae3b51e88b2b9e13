"""Reads the headers of a Parquet file's pages, which tell their sizes before anything is
decompressed.

pyarrow decompresses a page as a whole and does not show its header. Asked about a column's chunk,
pyarrow 26 ends the process if the chunk's statistics are damaged. So the footer and the headers are
read here. They are structs in Thrift's compact protocol, with the field numbers of parquet.thrift.
"""

import io
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from gpt1_jax import storage
from gpt1_jax.data.document import LONGEST, too_long
from gpt1_jax.errors import UserError

# How many times its compressed size a page may have. Text has about five times, one repeated letter
# thousands of times
MOST_TIMES = 100
_HEADER = 2**16  # bytes. A page's header takes less


class Page(NamedTuple):
    """A page.

    group:            the number of its row group.
    rows:             the numbers of the rows in that group.
    column:           the name of its column.
    values:           the number of its rows, or of items in a column of lists.
    size, compressed: the bytes after its header.
    """

    group: int
    rows: range
    column: str
    values: int
    size: int
    compressed: int


def pages(path: str, columns: Sequence[str], groups: Container[int]) -> list[Page]:
    """The pages of some columns in some row groups of a Parquet file that pyarrow can open.

    UserError naming the file if it is damaged, and as in `_check`.
    """
    found: list[Page] = []
    first = 0
    try:
        with storage.opened(path) as stream:
            for number, group in enumerate(_footer(stream).get(4, [])):
                rows = range(first, first + group[3])
                first = rows.stop
                for chunk in group[1] if number in groups else ():
                    meta = chunk[3]
                    column = meta[3][0].decode()
                    if column in columns:
                        found += (
                            Page(number, rows, column, *header) for header in _headers(stream, meta)
                        )
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise UserError(f'{path}: cannot be read (a damaged header of a page: {error!r})') from None
    _check(path, found)
    return found


def _check(path, found):
    """UserError for a page that is too large to read.

    A page is too large if one of its rows must have more than LONGEST bytes. It is also too large
    if it is above LONGEST and more than MOST_TIMES its compressed size, which no text reaches:
    reading it would take memory out of proportion to the file.
    """
    for page in found:
        first = page.rows.start
        last = page.rows.stop - 1
        if page.size > LONGEST * max(1, page.values):
            raise too_long(
                f'{path}: column {page.column!r} of row {first}'
                if first == last
                else f'{path}: column {page.column!r} of one of the rows {first} to {last}'
            )
        if page.size > max(LONGEST, MOST_TIMES * page.compressed):
            raise UserError(
                f'{path}: rows {first} to {last}: column {page.column!r} has {page.size >> 20} MiB '
                f'in {page.compressed:,} bytes, more than {MOST_TIMES} times as much, which no '
                'text has'
            )


def _footer(stream):
    """The struct FileMetaData."""
    end = stream.seek(0, io.SEEK_END)
    stream.seek(end - 8)
    size = int.from_bytes(stream.read(4), 'little')
    stream.seek(end - 8 - size)
    return _value(io.BytesIO(stream.read(size)), _STRUCT)


def _headers(stream, meta):
    """(values, size, compressed size) of each page of a chunk. meta: its struct ColumnMetaData."""
    place = min(meta[9], meta.get(11) or meta[9])  # of the first data page and the dictionary page
    end = place + meta[7]
    while place < end:
        stream.seek(place)
        content = io.BytesIO(stream.read(min(_HEADER, end - place)))
        header = _value(content, _STRUCT)
        size = header[2]
        compressed = header[3]
        if size < 0 or compressed < 0:
            raise ValueError('a negative size')
        # Data page, dictionary, data page of version 2
        own = header.get(5) or header.get(7) or header.get(8) or {}
        yield own.get(1, 0), size, compressed
        place += content.tell() + compressed


# The types of Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


def _value(stream: io.BytesIO, kind: int) -> Any:
    """Reads a value of a type. A struct is {number of a field: its value}."""
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE
    if kind == _BYTE:
        return stream.read(1)[0]
    if kind in (_I16, _I32, _I64):
        return _signed(stream)
    if kind == _DOUBLE:
        return stream.read(8)
    if kind == _BINARY:
        return stream.read(_unsigned(stream))
    if kind in (_LIST, _SET):
        head = stream.read(1)[0]
        count = head >> 4 if head >> 4 < 15 else _unsigned(stream)
        item = head & 15
        return [_value(stream, _BYTE if item in (_TRUE, _FALSE) else item) for _ in range(count)]
    if kind == _STRUCT:
        fields = {}
        number = 0
        while head := stream.read(1)[0]:
            number = number + (head >> 4) if head >> 4 else _signed(stream)
            fields[number] = _value(stream, head & 15)
        return fields
    raise ValueError(f'type {kind}')


def _unsigned(stream):
    """Reads an integer of seven bits a byte, the lowest bits first.

    The highest bit of a byte says that another byte follows.
    """
    result = 0
    for shift in range(0, 64, 7):
        byte = stream.read(1)[0]
        result |= (byte & 127) << shift
        if byte < 128:
            return result
    raise ValueError('an integer that is too long')


def _signed(stream):
    """Reads an integer n, which is written as 2n, or as -2n - 1 if it is negative."""
    written = _unsigned(stream)
    return written >> 1 ^ -(written & 1)
