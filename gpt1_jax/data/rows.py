"""A row of any file, the rules for its text, and bad rows.

readers/ gives the rows of every format. Pretraining takes a field of a row (corpus.py), and a task
makes an Example of a row (tasks/example.py).
"""

import dataclasses
import functools
import io
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gpt1_jax.data import files
from gpt1_jax.errors import UserError, did_you_mean, fail, listed, one_line, shown

# Bytes of a row or a document, whatever file it comes from. Parsing a row takes about three times
# as much memory.
LONGEST = 2**27
_UTF_16 = (b'\xff\xfe', b'\xfe\xff')  # the marks at the beginning of a file


class Row(NamedTuple):
    """A row.

    where:  its file and place, for messages.
    fields: {column: value}. In JSON and in files of a user's task also any other record.
    id:     unique in its split. '' if the position is the id.
    """

    where: str
    fields: Any
    id: str = ''


class Bad(NamedTuple):
    """A row that cannot be read.

    where:    as in Row.
    why:      the cause.
    left_out: whether every user of the set leaves it out.
    """

    where: str
    why: str
    left_out: bool = False


@dataclasses.dataclass(frozen=True)
class How:
    """How to read a file. Each reader takes what concerns its format.

    needed:   the columns that must be there. If any are given, only these are read, unless `rest`.
    rest:     whether to read the other columns as well.
    columns:  the names of the columns of a table without a header, or of JSON lists.
    encoding: of a table. UTF-16 is recognized.
    quoted:   whether a table has CSV quoting. None: found from its first lines.
    separator: between the cells of a table. None: found from its first lines.
    groups:   the numbers of the row groups of a Parquet file to read, ascending. None: all.
    divided:  a text that ends a piece of a large text file, see Join.
    """

    needed: tuple[str, ...] = ()
    rest: bool = False
    columns: tuple[str, ...] = ()
    encoding: str = 'utf-8'
    quoted: bool | None = None
    separator: str | None = None
    groups: Sequence[int] | None = None
    divided: str | None = None


def too_long(where: str) -> UserError:
    """The error for a row or document of more than LONGEST bytes. where: its file and place."""
    return UserError(
        f'{where} is longer than {LONGEST >> 20} MiB, too long for one document or row'
    )


# Bad rows


class BadRows:
    """The function that gets the message of each bad row: data.skip_bad of corpora and sets.

    Without `skip` the first bad row is a UserError that names the option. With it, bad rows are
    counted.
    """

    def __init__(self, skip: bool, option: str = '--config.data.skip_bad=True'):
        self.skip = skip
        self.option = option
        self.count = 0
        self.first = ''

    def __call__(self, message: str) -> None:
        if not self.skip:
            fail(f'{message}; {self.option} leaves such rows out')
        self.count += 1
        self.first = self.first or message

    def __str__(self) -> str:
        """'2 bad row(s) left out, the first: ...', or ''."""
        if not self.count:
            return ''
        return one_line(f'{self.count:,} bad row(s) left out, the first: {self.first}')


def good(rows: Iterable[Row | Bad], on_bad: Callable[[str], Any]) -> Iterator[Row]:
    """Yields the Rows. on_bad: called with the message of each Bad row."""
    for row in rows:
        if isinstance(row, Bad):
            on_bad(one_line(f'{row.where}: {row.why}'))
        else:
            yield row
        del row  # frees its text before the next row is read


# Columns and cells


def column_name(name: Any) -> str:
    """The name of a column without spaces around, in one Unicode form.

    macOS writes é as two characters.
    """
    return unicodedata.normalize('NFC', str(name).strip())


def check_columns(path: Any, needed: Sequence[str], known: Sequence[str]) -> None:
    """UserError for a needed column that is missing, with the known columns, or is there twice."""
    for name in needed:
        count = list(known).count(name)
        if not count:
            raise UserError(
                f'{path}: no column {name!r}{did_you_mean(name, known)} (columns: {listed(known)})'
            )
        if count > 1:
            raise UserError(f'{path}: {count} columns are called {name!r}')


def of_cell(value: Any) -> str:
    """The text of a cell. JSON's values are written as in JSON, others, such as dates, as Python's.

    null is empty, and so is NaN, which pandas writes instead of null.
    """
    if value is None or value != value:
        return ''
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, int, float, list, tuple, dict)):
        return json.dumps(value, default=str)
    return str(value)


def cell(fields: Any, column: str) -> Any:
    """A row's value in a column. UserError if the row is no object or lacks the column."""
    if not isinstance(fields, dict):
        raise UserError(f'{type(fields).__name__}, expected an object with {column}')
    if column not in fields:
        others = listed(fields) or 'nothing'
        raise UserError(f'no {column}, only {others}{did_you_mean(column, fields)}')
    return fields[column]


def text(fields: Any, column: str, may_be_empty: bool = False) -> str:
    """The text of a row's cell, stripped. UserError if it is missing, a list, or empty."""
    value = cell(fields, column)
    if isinstance(value, (list, dict)):
        raise UserError(f'{column}: {shown(value)} is not a text')
    found = of_cell(value)
    if not found and not may_be_empty:
        raise UserError(f'{column} is empty')
    return found


# Lines


def lines(
    path: Any, encoding: str = 'utf-8', remedy: str = ''
) -> Iterator[tuple[int, str | UserError]]:
    """Yields (number from 1, text without the line's end) of the lines of a file.

    Only \\n ends a line, because texts contain \\x85 and \\u2028. A byte-order mark is no text.
    UTF-16, as Excel writes it, is recognized by its mark. A line in another encoding gives the
    error of `decoded`, which has `remedy`.
    UserError naming the line for a NUL character, and for a line of more than LONGEST bytes, before
    more bytes are read.
    """
    with files.opened(path) as stream:
        read_line, encoding = _line_reader(path, stream, encoding)
        number = 0
        # No `for`: it would keep a line while the next one is read
        while line := read_line(LONGEST + 1):
            number += 1
            check_nul(line, path, number)
            if len(line) > LONGEST:
                raise too_long(f'{path}: line {number}')
            if number == 1:
                line = line.removeprefix(b'\xef\xbb\xbf')
            line = line.removesuffix(b'\n').removesuffix(b'\r')
            found: list[str | UserError] = []
            try:
                found.append(decoded(line, f'{path}: line {number}', encoding, remedy))
            except UserError as error:
                found.append(error.with_traceback(None))
            del line
            yield number, found.pop()  # and keeps no reference to a long text


def _line_reader(path, stream, encoding):
    """(a function that reads a line of at most so many bytes, the encoding of these lines)."""
    if stream.peek(2)[:2] not in _UTF_16:
        return stream.readline, encoding
    decoded = io.TextIOWrapper(stream, 'utf-16', newline='\n')
    return functools.partial(_recoded, path, decoded), 'utf-8'


def _recoded(path, stream, size):
    try:
        return stream.readline(size).encode()
    except UnicodeError as error:
        raise UserError(f'{path}: damaged, or not {stream.encoding} ({error})') from None


def decoded(data: bytes, where: Any, encoding: str = 'utf-8', remedy: str = '') -> str:
    """Decodes bytes to text. UserError if they are not in the encoding.

    where:  the file, or the row, for the message.
    remedy: what a user may do, by default to convert the file.
    """
    try:
        return data.decode(encoding)
    except LookupError:
        raise UserError(
            f'{where}: no encoding {shown(encoding)}: utf-8, latin-1 and cp1252 are usual'
        ) from None
    except UnicodeDecodeError as error:
        other = 'WINDOWS-1252'
        if data.startswith(_UTF_16):
            other = 'UTF-16'
        remedy = remedy or f'if it is {other}, iconv -f {other} -t UTF-8 converts it'
        name = encoding.upper() if encoding == 'utf-8' else encoding
        raise UserError(
            f'{where}: not {name} at byte {error.start} ({data[error.start]:#04x}); {remedy}'
        ) from None


def check_nul(data: bytes, path: Any, line: int) -> None:
    """UserError naming file and line if bytes of a text file have a NUL character.

    line: the number of the first line of these bytes.
    """
    place = data.find(b'\0')
    # If the file begins with a byte-order mark, `decoded` names the encoding
    if place >= 0 and not data.startswith(_UTF_16):
        line += data.count(b'\n', 0, place)
        raise UserError(
            f'{path}: line {line} has a NUL character, as no text has: the file is damaged, or '
            'binary, or UTF-16 (iconv -f UTF-16LE -t UTF-8 converts it)'
        )
