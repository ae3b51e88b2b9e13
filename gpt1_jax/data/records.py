"""Section 4.1: text files, and the rows of JSON lines, Parquet files and TFDS data sets, one
Document at a time.

pyarrow and TFDS are imported where a source needs them.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import files, parquet_pages
from gpt1_jax.data.document import LONGEST, Document, too_long
from gpt1_jax.errors import UserError, did_you_mean, fail, shown

PIECE = 2**20  # bytes of a document of a text file longer than LONGEST: about a novel
_BATCH = 2**22  # bytes of Parquet rows in memory at a time, about
# Bytes of a Parquet column read at a time, so that a row group's size does not matter
_BUFFER = 2**20


def text(path: str) -> Iterator[Document]:
    """A text file as one Document, called `path`.

    A file of more than LONGEST bytes is a collection rather than a document: it gives Documents of
    whole lines, of PIECE bytes or one line more, called `path:line` for their first lines, so that
    memory does not grow with the file. Their ids, one after the other, are those of the whole text,
    but for HTML, see text.parts. UserError naming the file for text that is not UTF-8; also naming
    the line for a NUL character, and for a line of more than LONGEST bytes.
    """
    # Not in text mode: ftfy deals with carriage returns and other oddities later
    with files.opened(path) as stream:
        data = stream.read(LONGEST + 1)
        if len(data) <= LONGEST:
            check_nul(data, path, 1)
            whole = decoded(data, path)
            del data  # frees the bytes before the text is used
            yield Document(path, whole)
            return
    del data
    number = 1
    with files.opened(path) as stream:
        while piece := stream.read(PIECE) + stream.readline(LONGEST + 1):
            check_nul(piece, path, number)
            last_line = piece.rfind(b'\n', 0, -1) + 1
            if len(piece) - last_line > LONGEST:
                number += piece.count(b'\n', 0, last_line)
                raise too_long(f'{path}: line {number}')
            name = f'{path}:{number}'
            yield Document(name, decoded(piece, name))
            number += piece.count(b'\n')


def json_lines(
    path: str, field: str, key: str | None = None, on_bad: Callable[[str], None] = fail
) -> Iterator[Document]:
    """The rows of a file of JSON lines, `path:line`, the first line being 1. Blank lines are left
    out.

    field, key: names of the text and of the key. on_bad: called with a message naming file and line
    for a line that is not UTF-8, no JSON object or without these fields; the row is left out if it
    returns. UserError for an array, and a line longer than LONGEST bytes, of which no more are
    read.
    """
    number = 0
    with files.opened(path) as stream:
        # No `for`: it would keep a line while the next one is read
        while line := stream.readline(LONGEST + 1):
            number += 1
            where = f'{path}: line {number}'
            if line[:99].lstrip()[:1] == b'[':  # refused before a whole array is parsed
                raise UserError(
                    f'{where} is list, must be an object with field {field!r}: one record a line'
                )
            if len(line) > LONGEST:
                raise too_long(where)
            if line.isspace():
                continue
            try:
                text = decoded(line, where)
                del line  # frees the bytes before the text is parsed
                record = json.loads(text)
                del text  # frees it before the field is used
                if not isinstance(record, dict):
                    raise UserError(
                        f'{where} is {type(record).__name__}, must be an object '
                        f'with field {field!r}'
                    )
            except UserError as error:
                on_bad(str(error))
            except (ValueError, RecursionError) as error:
                on_bad(f'{where} is not JSON ({error})')
            else:
                yield from _document(f'{path}:{number}', record, field, key, where, on_bad)
                del record


def tfds(
    spec: str, field: str, key: str | None = None, on_bad: Callable[[str], None] = fail
) -> Iterator[Document]:
    """The records of tfds:NAME:SPLIT[:FIELD]; NAME may contain a config and a version, as in
    tfds:wiki40b/en:1.3.0:train. UserError if TFDS cannot open it. on_bad: as in `json_lines`, for a
    record without the field."""
    name = r'([^:]+(?::\d+\.\d+\.\d+)?)'
    split = r'([^:\[]+(?:\[[^\]]*\])?)'  # train, or train[:5%]
    match = re.fullmatch(rf'tfds:{name}:{split}(?::([^:]+))?', spec)
    if not match:
        raise UserError(f'{spec}: must be tfds:NAME:SPLIT or tfds:NAME:SPLIT:FIELD')
    name, split, own_field = match.groups()
    try:
        import tensorflow_datasets

        records = tensorflow_datasets.data_source(name, split=split)
    # TFDS raises many classes; the cause is the spec or the data on this machine
    except Exception as error:
        raise UserError(f'{spec}: TFDS cannot open it ({shown(error)})') from None
    for number in range(len(records)):
        # By index, because iterating over a source that lacks records ends early without an error.
        where = f'{spec}: record {number}'
        try:
            record = records[number]
        except Exception as error:  # a shard is opened only now: it may be damaged, or gone
            raise UserError(f'{where}: TFDS cannot read it ({shown(error)})') from None
        yield from _document(f'{spec}:{number}', record, own_field or field, key, where, on_bad)


def parquet(
    path: str,
    field: str,
    key: str | None = None,
    groups: Sequence[int] | None = None,
    on_bad: Callable[[str], None] = fail,
) -> Iterator[Document]:
    """The rows of a Parquet file, `path:row`, the first row being 0; only its text and key columns
    are read.

    groups: numbers of the row groups to read, ascending; default all. on_bad: as in `json_lines`,
    for a null and a text that is not UTF-8 or longer than LONGEST bytes. UserError for a file that
    is damaged, and a column that is missing or not of text. Memory holds a few rows.
    """
    import pyarrow

    columns = list(dict.fromkeys(name for name in (field, key) if name is not None))
    with parquet_file(path) as file:
        names = file.schema_arrow.names
        for name in columns:
            _check_field(name, names, path)
            if names.count(name) > 1:
                raise UserError(f'{path}: {names.count(name)} columns are called {name!r}')
        kind = file.schema_arrow.field(field).type
        if not is_text(kind):
            raise UserError(f'{path}: column {field!r} is {shown(str(kind))}, must be text')
        for number, batch in row_batches(path, file, columns, groups):
            arrays = {name: batch.column(name) for name in columns}
            arrays[field] = arrays[field].cast(pyarrow.large_binary())  # of a dictionary as well
            for values in zip(*arrays.values()):
                record = {name: value.as_py() for name, value in zip(columns, values)}
                where = f'{path}: row {number}'
                yield from _document(f'{path}:{number}', record, field, key, where, on_bad)
                del record  # frees its text before the next row is read
                number += 1


def row_batches(
    path: str, file: Any, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[tuple[int, Any]]:
    """(number of its first row, pyarrow.RecordBatch) of a few rows at a time of a ParquetFile's
    columns.

    A batch has a single row, or at most LONGEST bytes, however its rows are encoded. groups: as in
    `parquet`. UserError for pages that are too large, before they are read, and where a row group
    lacks rows.
    """
    chosen = range(file.num_row_groups) if groups is None else groups
    # Row group: bytes of its largest page, which no row exceeds, of a dictionary neither
    largest: dict[int, int] = {}
    for page in parquet_pages.pages(path, columns, chosen):
        largest[page.group] = max(page.size, largest.get(page.group, 0))
    counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    first = [0, *itertools.accumulate(counts)]
    for group in chosen:
        number = first[group]
        rows = min(_rows_a_batch(file, group), max(1, LONGEST // max(1, largest.get(group, 1))))
        for batch in file.iter_batches(rows, [group], columns, use_threads=False):
            yield number, batch
            number += batch.num_rows
        if number != first[group + 1]:
            raise UserError(
                f'{path}: damaged, row group {group} has {number - first[group]} '
                f'rows, not {counts[group]}'
            )


@contextlib.contextmanager
def parquet_file(path):
    """Opens a pyarrow.parquet.ParquetFile that verifies page checksums; read errors become
    UserErrors naming it."""
    import pyarrow
    import pyarrow.parquet

    try:
        with (
            storage.opened(path) as stream,
            pyarrow.parquet.ParquetFile(
                stream, buffer_size=_BUFFER, page_checksum_verification=True
            ) as file,
        ):
            yield file
    # The second of a column's name
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise UserError(f'{path}: cannot be read ({" ".join(str(error).split())[:300]})') from None


def row_group_sizes(path: str) -> list[int]:
    """The bytes of each row group of a Parquet file, uncompressed. UserError if it cannot be
    read."""
    with parquet_file(path) as file:
        return [
            file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)
        ]


def decoded(data: bytes, where: Any) -> str:
    """Bytes as text. UserError if they are not UTF-8; where: the file, or the row, for its
    message."""
    try:
        return data.decode().removeprefix('\ufeff')  # a byte-order mark is not part of the text
    except UnicodeDecodeError as error:
        encoding = 'UTF-16' if data[:2] in (b'\xff\xfe', b'\xfe\xff') else 'WINDOWS-1252'
        raise UserError(
            f'{where}: not UTF-8 at byte {error.start} ({data[error.start]:#04x}); if it is '
            f'{encoding}, iconv -f {encoding} -t UTF-8 converts it'
        ) from None


def check_nul(data: bytes, path: Any, line: int) -> None:
    """UserError naming file and line for a NUL character in bytes of a text file. line: the number
    of their first."""
    place = data.find(b'\0')
    # With such a mark `decoded` names the encoding
    if place >= 0 and not data.startswith((b'\xff\xfe', b'\xfe\xff')):
        line += data.count(b'\n', 0, place)
        raise UserError(
            f'{path}: line {line} has a NUL character, as no text has: the file is damaged, or '
            'binary, or UTF-16 (iconv -f UTF-16LE -t UTF-8 converts it)'
        )


def _document(name, record, field, key, where, on_bad):
    """[the Document of a record], or [] of a bad one."""
    try:
        return [Document(name, *_texts(record, field, key, where))]
    except UserError as error:
        on_bad(str(error))
        return []


def _texts(record, field, key, where):
    """(text, key) of a record."""
    for name in (field, key):
        if name is not None:
            _check_field(name, record, where)
    text = record[field]
    if not isinstance(text, (str, bytes)):
        raise UserError(f'{where}: field {field!r} is {type(text).__name__}, must be text')
    if len(text) > LONGEST:
        raise too_long(where)
    return text if isinstance(text, str) else decoded(text, where), None if key is None else record[
        key
    ]


def _check_field(field, known, where):
    """UserError listing the fields that there are instead."""
    if field not in known:
        others = ', '.join(map(repr, list(known)[:10])) or 'none'
        raise UserError(
            f'{where} has no field {field!r}, only {others}{did_you_mean(field, known)}'
        )


def is_text(kind: Any) -> bool:
    """Whether a pyarrow.DataType is of texts or bytes, dictionaries of them included."""
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind).removeprefix('large_') in ('string', 'string_view', 'binary', 'binary_view')


def _rows_a_batch(file, group):
    """As many rows of a row group as hold about _BATCH bytes, all columns together. (The size of
    one column is in `metadata.column`, which ends the process where the file's statistics are
    damaged: pyarrow 26.)"""
    metadata = file.metadata.row_group(group)
    return min(max(1, _BATCH * metadata.num_rows // max(1, metadata.total_byte_size)), 10_000)
