"""Section 4.1: reads text files, and the rows of JSON lines, Parquet files and TFDS data sets, one
Document at a time.

pyarrow and TFDS are imported only if a source needs them.
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

PIECE = 2**20  # bytes, about a novel: a text file longer than LONGEST is cut into such documents
_BATCH = 2**22  # bytes of Parquet rows in memory at a time, about
# Bytes of a Parquet column read at a time, so that the size of a row group does not matter
_BUFFER = 2**20


def text(path: str) -> Iterator[Document]:
    """Reads a text file as one Document, called `path`.

    A file of more than LONGEST bytes counts as a collection. It gives Documents of whole lines, of
    PIECE bytes and the rest of a line, so that memory does not grow with the file. They are called
    `path:line` for their first lines. Their ids, one after the other, are the ids of the whole
    text, except for HTML, see text.parts. UserError naming the file if the text is not UTF-8.
    UserError naming the file and the line for a NUL character, and for a line of more than LONGEST
    bytes.
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
    """Reads the rows of a file of JSON lines, called `path:line` from line 1 on.

    Blank lines are left out.
    field, key: the names of the text's field and of the key's field.
    on_bad:     called with a message naming file and line if a line is not UTF-8, is no JSON object
                or lacks one of these fields. If on_bad returns, the row is left out.
    UserError for an array, and for a line longer than LONGEST bytes, before more bytes are read.
    """
    number = 0
    with files.opened(path) as stream:
        # No `for`: it would keep a line while the next one is read
        while line := stream.readline(LONGEST + 1):
            number += 1
            where = f'{path}: line {number}'
            # Refused before a whole array is parsed
            if number == 1 and line[:99].lstrip()[:1] == b'[':
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
                del text  # frees the text before the field is used
                if not isinstance(record, dict):
                    raise UserError(
                        f'{where} is {type(record).__name__}, must be an object with field '
                        f'{field!r}'
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
    """Reads the records of tfds:NAME:SPLIT[:FIELD].

    NAME may contain a config and a version, as in tfds:wiki40b/en:1.3.0:train. on_bad: as in
    `json_lines`, for a record without the field. UserError if TFDS cannot open the data set.
    """
    name = r'([^:]+(?::\d+\.\d+\.\d+)?)'
    split = r'([^:\[]+(?:\[[^\]]*\])?)'  # train, or train[:5%]
    match = re.fullmatch(rf'tfds:{name}:{split}(?::([^:]+))?', spec)
    if not match:
        raise UserError(f'{spec}: must be tfds:NAME:SPLIT or tfds:NAME:SPLIT:FIELD')
    name, split, own_field = match.groups()
    try:
        import tensorflow_datasets

        records = tensorflow_datasets.data_source(name, split=split)
    # TFDS raises many classes. The cause is the spec, or the data on this machine
    except Exception as error:
        raise UserError(f'{spec}: TFDS cannot open it ({shown(error)})') from None
    for number in range(len(records)):
        # By index, because iterating over a source that lacks records ends early without an error
        where = f'{spec}: record {number}'
        try:
            record = records[number]
        except Exception as error:  # a shard is opened only now, and may be damaged or gone
            raise UserError(f'{where}: TFDS cannot read it ({shown(error)})') from None
        yield from _document(f'{spec}:{number}', record, own_field or field, key, where, on_bad)


def parquet(
    path: str,
    field: str,
    key: str | None = None,
    groups: Sequence[int] | None = None,
    on_bad: Callable[[str], None] = fail,
) -> Iterator[Document]:
    """Reads the rows of a Parquet file, called `path:row` from row 0 on.

    Only the text column and the key column are read, and memory holds a few rows.
    groups: the numbers of the row groups to read, ascending. By default all.
    on_bad: as in `json_lines`, for a null, and for a text that is not UTF-8 or longer than LONGEST
            bytes.
    UserError if the file is damaged, or if a column is missing or not of text.
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
    """Yields (number of the first row, pyarrow.RecordBatch) of a ParquetFile's columns.

    A batch has a single row, or at most LONGEST bytes, however its rows are encoded. groups: as in
    `parquet`. UserError for pages that are too large, before they are read, and for a row group
    that lacks rows.
    """
    chosen = range(file.num_row_groups) if groups is None else groups
    # {row group: bytes of its largest page}. No row is longer than that page, even in a dictionary
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
                f'{path}: damaged, row group {group} has {number - first[group]} rows, not '
                f'{counts[group]}'
            )


@contextlib.contextmanager
def parquet_file(path):
    """Opens a pyarrow.parquet.ParquetFile that verifies page checksums.

    Read errors become UserErrors that name the file.
    """
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
    # A column's name may raise the second
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise UserError(f'{path}: cannot be read ({" ".join(str(error).split())[:300]})') from None


def row_group_sizes(path: str) -> list[int]:
    """The uncompressed bytes of each row group of a Parquet file.

    UserError if the file cannot be read.
    """
    with parquet_file(path) as file:
        return [
            file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)
        ]


def decoded(data: bytes, where: Any, encoding: str | None = None) -> str:
    """Decodes bytes to text. UserError if they are not in the encoding.

    where:    the file, or the row, for the message.
    encoding: a codec of Python that the user may name. None: UTF-8, without a choice.
    """
    name = encoding or 'UTF-8'
    try:
        return data.decode(name).removeprefix('\ufeff')  # a byte-order mark is not text
    except LookupError:
        raise UserError(
            f'{where}: no encoding {shown(encoding)}: utf-8, latin-1 and cp1252 are usual'
        ) from None
    except UnicodeDecodeError as error:
        other = 'UTF-16' if data[:2] in (b'\xff\xfe', b'\xfe\xff') else 'WINDOWS-1252'
        remedy = f'if it is {other}, iconv -f {other} -t UTF-8 converts it'
        if encoding:
            remedy = 'name its encoding, such as --encoding=latin-1 or cp1252'
        raise UserError(
            f'{where}: not {name} at byte {error.start} ({data[error.start]:#04x}); {remedy}'
        ) from None


def check_nul(data: bytes, path: Any, line: int) -> None:
    """UserError naming file and line if bytes of a text file have a NUL character.

    line: the number of the first line of these bytes.
    """
    place = data.find(b'\0')
    # If the file begins with a byte-order mark, `decoded` names the encoding
    if place >= 0 and not data.startswith((b'\xff\xfe', b'\xfe\xff')):
        line += data.count(b'\n', 0, place)
        raise UserError(
            f'{path}: line {line} has a NUL character, as no text has: the file is damaged, or '
            'binary, or UTF-16 (iconv -f UTF-16LE -t UTF-8 converts it)'
        )


def _document(name, record, field, key, where, on_bad):
    """[the Document of a record], or [] if the record is bad."""
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
    """UserError listing the known fields if this field is not among them."""
    if field not in known:
        others = ', '.join(map(repr, list(known)[:10])) or 'none'
        raise UserError(
            f'{where} has no field {field!r}, only {others}{did_you_mean(field, known)}'
        )


def is_text(kind: Any) -> bool:
    """Whether a pyarrow.DataType holds texts or bytes, or a dictionary of them."""
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind).removeprefix('large_') in ('string', 'string_view', 'binary', 'binary_view')


def _rows_a_batch(file, group):
    """The number of rows of a row group that hold about _BATCH bytes in all columns together.

    The size of a single column is in `metadata.column`, which ends the process if the file's
    statistics are damaged (pyarrow 26).
    """
    metadata = file.metadata.row_group(group)
    return min(max(1, _BATCH * metadata.num_rows // max(1, metadata.total_byte_size)), 10_000)
