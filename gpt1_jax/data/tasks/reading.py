"""Section 3.3: reads a labelled set from its official files, TFDS or Parquet, with the same
Examples from each.

Each source yields Rows. One function of the set, `make`, turns the fields of a Row into an Example.
A bad row is an error that names the row, or is skipped and reported.
"""

import dataclasses
import functools
import io
import json
import pathlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from gpt1_jax.data import records
from gpt1_jax.data.document import LONGEST, too_long
from gpt1_jax.data.tasks import parquet_source, tfds_source
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError, did_you_mean, fail, one_line

# {the first bytes of a file: its encoding}: a mark, or two characters of which half the bytes are 0
UTF_16 = {
    b'\xff\xfe|\xfe\xff': 'utf-16',
    b'[^\0]\0[^\0]\0': 'utf-16-le',
    b'\0[^\0]\0[^\0]': 'utf-16-be',
}


class RowFault(Exception):
    """A fault of one row. `collect` adds which row it is, and passes the message to `on_bad`."""


class LeftOut(RowFault):
    """A row that every user of the set leaves out.

    The row is skipped without an error, and counted for a message.
    """


class Row(NamedTuple):
    """A row of a source.

    where: file and row, for messages. id: unique in its split. fields: {column: value}, or the
    fault because of which there are none.
    """

    where: str
    id: str
    fields: dict | RowFault


@dataclasses.dataclass(frozen=True)
class Split:
    """The places of one split."""

    # Names in the directory, or patterns of one file. The first that exists is read
    files: tuple[str, ...]
    # The published number, without rows that are left out. 0: no number is known
    rows: int = 0
    # 'builder/config:split' in TFDS, in order. () if TFDS lacks the split or its labels
    tfds: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of a file without a header
    labelled: bool = True
    id_column: str | None = None  # None: ids are positions among the file's rows, from 0
    # Selects rows of the file (Story Cloze); None: all of them
    part: Callable[[list[Row]], list[Row]] | None = None
    also_rows: int = 0  # another published number, in another release or in TFDS
    # As `tfds`, in the Hub's Parquet files. By default `tfds`
    parquet: tuple[str, ...] = ()


def find(directory: str | pathlib.Path, split: Split) -> list[str]:
    """The single file of a split.

    UserError if none of its names exists, or if a pattern matches several files.
    """
    for name in split.files:
        path = pathlib.Path(directory) / name
        found = [path] if path.exists() else sorted(pathlib.Path(directory).glob(name))
        if len(found) > 1:
            raise UserError(f'{directory}: {len(found)} files match {name}, expected one')
        if found:
            return [str(found[0])]
    first, *others = split.files
    also = f' (nor {", ".join(others)})' if others else ''
    raise UserError(f'{pathlib.Path(directory) / first}: no such file{also}')


def labelled_set(
    name: str,
    head: str,
    labels: tuple[str, ...],
    metrics: tuple[str, ...],
    splits: dict[str, Split],
    make: Callable[[Split, str, dict], Example],
    official: Callable[[list[str], Split], Iterable[Row]],
    tfds: Callable | None = None,
    parquet: Callable | None = None,
    new: Callable[[str, Split], Iterable[Row]] | None = None,
    find: Callable[[str, Split], list[str]] = find,
    **options: Any,
) -> Task:
    """Makes the Task of a set that is read from official files, TFDS or the Hub's Parquet files.

    make:          (Split, id, fields) -> Example. Raises RowFault for a bad row, and LeftOut for a
                   row that does not belong to the set.
    official:      (paths, Split) -> Rows.
    tfds, parquet: (directory, Split, names of the split there) -> Rows. None if the set is not
                   there.
    new:           (path, unlabelled Split) -> Rows of any file in the set's layout, for
                   Task.read_file.
    find:          (directory, Split) -> the paths for `official`.
    options:       further fields of Task.
    """

    def opened(directory, split_name) -> tuple[Split, list[str], Iterable[Row]]:
        """(Split, its paths, its Rows).

        Parquet files are read if the directory has no official files.
        """
        if split_name not in splits:
            raise UserError(
                f'{name} has no split {split_name!r}{did_you_mean(split_name, splits)} (there are '
                f'{", ".join(splits)})'
            )
        split = splits[split_name]
        named = next(
            (library for library in (tfds_source, parquet_source) if library.is_named(directory)),
            None,
        )
        if named is None:
            try:
                paths = find(directory, split)
                return split, paths, official(paths, split)
            except UserError:
                if not parquet_source.holds(directory):
                    raise
        library, rows = (tfds_source, tfds) if named is tfds_source else (parquet_source, parquet)
        if rows is None:
            raise UserError(
                f'{directory}: {name} is not read from {library.KIND}: give its own files'
            )
        names = library.names(directory, split)
        paths = [path for each in names for path in library.files(directory, each)]
        return split, paths, rows(directory, split, names)

    def read(directory, split_name, on_bad=fail):
        split, paths, rows = opened(directory, split_name)
        if split.part:
            rows = split.part(list(rows))
        one_file = len(paths) == 1 and not tfds_source.is_named(directory)
        what = f'{paths[0] if one_file else directory} ({name} {split_name})'
        return collect(
            rows, functools.partial(make, split), what, (split.rows, split.also_rows), on_bad
        )

    def read_file(path, on_bad=fail, rows=None):
        id_column = next((split.id_column for split in splits.values() if split.id_column), None)
        split = Split((), labelled=False, id_column=id_column)
        rows = new(path, split) if rows is None else rows
        one = functools.partial(make, split)
        return collect(rows, one, str(path), on_bad=on_bad, keep=True)

    labelled = tuple(key for key, split in splits.items() if split.labelled)
    unlabelled = tuple(key for key, split in splits.items() if not split.labelled)
    return Task(
        name,
        head,
        labels,
        metrics,
        labelled,
        read,
        lambda directory, split: opened(directory, split)[1],
        unlabelled=unlabelled,
        read_file=read_file if new else None,
        **options,
    )


def collect(
    rows: Iterable[Row],
    make: Callable[[str, dict], Example],
    what: str,
    published: tuple[int, ...] = (),
    on_bad: Callable[[str], None] = fail,
    keep: bool = False,
) -> list[Example]:
    """Makes the Examples of rows, in order.

    make:      (id, fields) -> Example.
    what:      the source, for messages.
    published: the expected numbers of rows. Any other number only gives a warning, because part of
               a set is usable.
    on_bad:    called with the message of a bad row, or of a row with a duplicate id. If on_bad
               returns, the row is skipped.
    keep:      whether the fields become Example.record if `make` did not set it.
    UserError if no row is left.
    """
    found = {}
    bad = []
    left_out = []
    for row in rows:
        try:
            if isinstance(row.fields, RowFault):
                raise row.fields
            example = make(row.id, row.fields)
            if example.id in found:
                raise RowFault(f'duplicate id {example.id!r}')
            if keep and example.record is None:
                example = dataclasses.replace(example, record=row.fields)
            found[example.id] = example
        except LeftOut as fault:
            left_out.append(one_line(f'{row.where}: {fault}'))
        except RowFault as fault:
            bad.append(one_line(f'{row.where}: {fault}'))
            on_bad(bad[-1])
    if left_out:
        _say(one_line(f'{what}: {len(left_out):,} row(s) left out, the first: {left_out[0]}'))
    if not found:
        raise UserError(
            f'{what}: no rows'
            if not bad
            else f'{what}: all {len(bad)} rows are bad, the first: {bad[0]}'
        )
    n = len(found) + len(bad)
    if any(published) and n not in published:
        warnings.warn(
            one_line(f'{what}: {n:,} rows, the published set has {published[0]:,}'), stacklevel=3
        )
    return list(found.values())


@functools.cache  # prints each line once, however often a set is read
def _say(line):
    print(line, flush=True)


def field(fields: dict, name: str, may_be_empty: bool = False) -> str:
    """The text of a field, stripped.

    RowFault if the field is missing, not text, or empty without `may_be_empty`.
    """
    value = fields.get(name)
    if value is None:
        raise RowFault(f'no {name}')
    if not isinstance(value, str):
        raise RowFault(f'{name} is {type(value).__name__}, must be text')
    value = value.strip()
    if not value and not may_be_empty:
        raise RowFault(f'{name} is empty')
    return value


def of_cell(value: Any) -> str:
    """The text of a cell. JSON's values are written as in JSON, others, such as dates, as Python's.

    null is empty, and so is NaN, which pandas writes instead of null.
    """
    if value is None or value != value:
        return ''
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, int, float, list, dict)):
        return json.dumps(value, default=str)
    return str(value)


def label_name(text: str) -> str:
    """The form of a label for comparisons: a whole number has no decimals, so 1.0 becomes 1."""
    whole, point, decimals = text.partition('.')
    is_whole = (
        point and decimals and not decimals.strip('0') and whole.removeprefix('-').isdecimal()
    )
    return whole if is_whole else text


def row_id(fields: dict, column: str | None, default: str) -> str:
    """The id in a column, a text or an integer, or the default if there is no such column."""
    if column is None or column not in fields:
        return default
    if isinstance(fields[column], int) and not isinstance(fields[column], bool):
        return str(fields[column])
    return field(fields, column)


def label(value: str, labels: tuple[str, ...], column: str = 'label') -> int:
    """The index of a label's name. RowFault, naming the column, for any other name."""
    if value not in labels:
        raise RowFault(f'{column} {value!r} is not one of {", ".join(labels)}')
    return labels.index(value)


def score(value: str, limits: tuple[float, float], column: str) -> float:
    """A score as a float. RowFault, naming the column, unless it is a number within the limits."""
    try:
        number = float(value)
    except ValueError:
        raise RowFault(f'{column} {value!r} is not a number') from None
    low, high = limits
    if not low <= number <= high:
        raise RowFault(f'{column} {value} is out of range {low:g} to {high:g}')
    return number


def json_value(text: str) -> Any:
    """The value of a JSON text (a row, a cell or a whole file), or a RowFault if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return RowFault(f'not JSON ({error})')


def json_object(value: Any) -> dict | RowFault:
    """A value of `json_value` if it is an object, else a RowFault."""
    if isinstance(value, (dict, RowFault)):
        return value
    return RowFault(f'{type(value).__name__}, expected an object')


def decoded_lines(path: str | pathlib.Path, encoding: str | None = None) -> Iterator[str]:
    """Yields the lines of a text file without their ends, one in memory at a time.

    encoding: see records.decoded.
    Only \\n ends a line, because texts contain \\x85 and \\u2028. A byte-order mark is no text
    (MRPC begins with one). UTF-16, as Excel writes it, is read whatever the encoding. It is
    recognized by its mark, or because every second of its first bytes is NUL. UserError for a file
    that is empty. UserError naming the line for text of another encoding, for a NUL character, and
    for a line of more than LONGEST bytes, before more bytes are read. OSError if the file cannot be
    read.
    """
    number = 0
    with open(path, 'rb') as file:
        read_line, encoding = _line_reader(file, encoding)
        while line := read_line(LONGEST + 1):
            number += 1
            where = f'{path}: line {number}'
            records.check_nul(line, path, number)
            if len(line) > LONGEST:
                raise too_long(where)
            yield records.decoded(line, where, encoding).removesuffix('\n').removesuffix('\r')
    if not number:
        raise UserError(f'{path}: empty')


def _line_reader(file, encoding):
    """(`file.readline`, encoding), for UTF-16 (a function that gives the lines in UTF-8, None)."""
    start = file.peek(4)[:4]
    for pattern, name in UTF_16.items():
        if re.match(pattern, start, re.DOTALL):
            return functools.partial(_recoded, io.TextIOWrapper(file, name, newline='\n')), None
    return file.readline, encoding


def _recoded(text, size):
    try:
        return text.readline(size).encode()
    except UnicodeDecodeError as error:
        raise UserError(f'{text.name}: damaged, or not {text.encoding} ({error.reason})') from None
