"""Section 4.1: reads the rows of any file, with one reader a format.

READERS is the list. pyarrow and TFDS are imported only if a file needs them.
"""

from collections.abc import Iterator
from typing import Any

from gpt1_jax.data import files
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.readers import parquet, records, tables, tfds
from gpt1_jax.data.rows import Bad, How, Row
from gpt1_jax.errors import UserError

PIECE = 2**20  # bytes, about a novel: a text file longer than LONGEST is cut into such rows


def rows(path: Any, how: How = How(), kind: str | None = None) -> Iterator[Row | Bad]:
    """Yields the rows of a file, in order, each with its place in the file.

    kind: a key of READERS, by default by the file's extension.
    UserError if the file cannot be read, naming it, and for an extension that is not known.
    """
    kind = kind or files.kind(str(path))
    if kind not in READERS:
        raise UserError(f'{path}: unknown extension, must be one of these: {files.READ}')
    return READERS[kind](str(path), how)


def text(path: str, how: How) -> Iterator[Row]:
    """Reads a text file as one row with the field 'text', whose place is `path`.

    A file of more than LONGEST bytes counts as a collection. It gives rows of whole lines, of PIECE
    bytes and the rest of a line, so that memory does not grow with the file. If how.divided is
    given, a piece goes on to the next line with that text. Their places are `path: line N`. Their
    ids, one after the other, are the ids of the whole text, except for HTML, see text.parts.
    UserError naming the file if the text is not UTF-8. UserError naming the file and the line for a
    NUL character, and for a line of more than LONGEST bytes.
    """
    # Not in text mode: ftfy deals with carriage returns and other oddities later
    with files.opened(path) as stream:
        data = stream.read(rows_lib.LONGEST + 1)
        if len(data) <= rows_lib.LONGEST:
            rows_lib.check_nul(data, path, 1)
            whole = rows_lib.decoded(data, path).removeprefix('\ufeff')
            del data  # frees the bytes before the text is used
            yield Row(path, {'text': whole})
            return
    del data
    number = 1
    with files.opened(path) as stream:
        while piece := _piece(stream, how.divided):
            rows_lib.check_nul(piece, path, number)
            last_line = piece.rfind(b'\n', 0, -1) + 1
            if len(piece) - last_line > rows_lib.LONGEST:
                number += piece.count(b'\n', 0, last_line)
                raise rows_lib.too_long(f'{path}: line {number}')
            where = f'{path}: line {number}'
            yield Row(where, {'text': rows_lib.decoded(piece, where).removeprefix('\ufeff')})
            number += piece.count(b'\n')


def _piece(stream, divided):
    """The next PIECE bytes, and the rest of their last line. b'' at the end of the file."""
    found = stream.read(PIECE) + stream.readline(rows_lib.LONGEST + 1)
    if divided is None or not found:
        return found
    more = [found]
    length = len(found)
    while line := stream.readline(rows_lib.LONGEST + 1):
        more.append(line)
        length += len(line)
        if divided.encode() in line or length > rows_lib.LONGEST:
            break
    return b''.join(more)


READERS = {
    'txt': text,
    'csv': tables.read,
    'tsv': tables.read,
    'json': records.read,
    'jsonl': records.read,
    'parquet': parquet.read,
    'tfds': tfds.read,
}
