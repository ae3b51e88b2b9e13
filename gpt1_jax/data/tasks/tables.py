"""Rows of the official files: unquoted TSV as GLUE has it, and CSV. Every complaint names file, row and cause."""
import csv
import pathlib
import warnings

from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError


def read(path, columns=None, quoted=False, delimiter='\t'):
    """Yield (row number, {column: value}) of a table.

    path: the file; row numbers count from 1, the header included, as an editor shows them. columns: the names where the
    file has no header; else its first row names them. quoted: CSV quoting; GLUE's files have none.
    UserError: file missing or not UTF-8, or a row with another number of columns than the header.
    """
    path = pathlib.Path(path)
    try:
        # utf-8-sig: MRPC begins with a byte-order mark. Lines end at \n alone: text holds \x85 and \u2028.
        text = path.read_bytes().decode('utf-8-sig')
    except FileNotFoundError:
        raise UserError(f'{path}: no such file') from None
    except IsADirectoryError:
        raise UserError(f'{path}: is a directory, not a file') from None
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: not UTF-8 at byte {error.start}') from None
    rows = _quoted(path, text, delimiter) if quoted else (
        (n, line.removesuffix('\r').split(delimiter)) for n, line in enumerate(text.removesuffix('\n').split('\n'), 1))
    if not text.strip():
        raise UserError(f'{path}: empty')
    if columns is None:
        columns = [name.strip() for name in next(rows)[1]]
    for number, row in rows:
        if len(row) != len(columns):
            raise UserError(f'{path}: row {number}: {len(row)} columns, expected {len(columns)} ({", ".join(columns)})')
        yield number, dict(zip(columns, row))


def _quoted(path, text, delimiter):
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f'{path}: row {reader.line_num}: {error}') from None


def field(path, number, row, name):
    """row[name], stripped. UserError where the column is missing or the field is empty."""
    if name not in row:
        raise UserError(f'{path}: no column {name!r} (columns: {", ".join(row)})')
    value = row[name].strip()
    if not value:
        raise UserError(f'{path}: row {number}: {name} is empty')
    return value


def label(path, number, value, labels):
    """The index of a label's name. UserError naming the row where it is none of them."""
    if value not in labels:
        raise UserError(f'{path}: row {number}: label {value!r} is none of {", ".join(labels)}')
    return labels.index(value)


def check_count(path, found, published):
    """A warning where a file has another number of rows than its publishers say: partial sets are usable."""
    if found != published:
        warnings.warn(f'{path}: {found:,} rows, the published set has {published:,}', stacklevel=2)


def tsv_task(name, head, files, texts, label_column, labels, metrics, rows, id_column=None, columns=None):
    """A Task over unquoted TSV files.

    files: {split: file name}. texts: the columns that become the example's segments. label_column, labels: the column
    and its values in index order. id_column: else the row number serves. columns: the names where the file has no
    header. rows: {split: published number of rows}.
    """
    def paths(directory, split):
        return [str(pathlib.Path(directory) / files[split])]

    def read_split(directory, split):
        (path,) = paths(directory, split)
        examples = [Example(field(path, n, row, id_column) if id_column else str(n),
                            tuple(field(path, n, row, column) for column in texts),
                            label=label(path, n, field(path, n, row, label_column), labels))
                    for n, row in read(path, columns)]
        check_count(path, len(examples), rows[split])
        return examples

    return Task(name, head, labels, metrics, tuple(files), read_split, paths)
