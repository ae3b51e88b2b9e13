"""Sets that are tables: unquoted TSV as GLUE has it, CSV, JSON lines; one row, one Example."""
import csv
import json
from collections.abc import Iterator

from gpt1_jax.data.tasks import reading, tfds_source
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import Row, RowFault, Split
from gpt1_jax.errors import UserError

DECIMALS = 5  # of a score: TFDS keeps 3.8 in 32 bits, as 3.79999995, and STS-B's files have up to 14 digits


def read(path, needed=(), columns=(), quoted=False, delimiter='\t') -> Iterator[Row]:
    """The rows of a table; ids are positions from 0, messages count rows from 1 as an editor does, header included.

    path: the file; of .jsonl each line is an object of columns. needed: columns that there must be, in any order.
    columns: the names where the file has no header; else its first row names them. quoted: CSV quoting; GLUE's files
    have none. A row with another number of columns than the header is a RowFault.
    UserError: the file is missing, empty or not UTF-8, lacks a needed column, or breaks CSV quoting.
    """
    lines = reading.decoded_lines(path)
    if str(path).endswith('.jsonl'):
        yield from _json_rows(path, lines)
        return
    rows = _quoted(path, lines, delimiter) if quoted else (
        (number, line.split(delimiter)) for number, line in enumerate(lines, 1))
    if not columns:
        columns = [name.strip() for name in next(rows, (0, ()))[1]]
        if not any(columns):
            raise UserError(f'{path}: empty')
    missing = [name for name in needed if name not in columns]
    if missing:
        raise UserError(f'{path}: no column {missing[0]!r} (columns: {", ".join(columns)})')
    for position, (number, row) in enumerate(rows):
        fields = dict(zip(columns, row)) if len(row) == len(columns) else RowFault(
            f'{len(row)} columns, expected {len(columns)} ({", ".join(columns)})')
        yield Row(f'{path}: row {number}', str(position), fields)


def layout(path, needed, layouts, quoted=False, delimiter='\t') -> tuple[str, ...]:
    """What `read` wants as `columns` of a file that may have a header or not: () where its first row names all that are
    needed, else the first of the layouts with as many columns as that row."""
    if str(path).endswith('.jsonl'):
        return ()
    lines = reading.decoded_lines(path)
    first = next(_quoted(path, lines, delimiter), (0, ()))[1] if quoted else next(lines).split(delimiter)
    if {*needed} <= {name.strip() for name in first}:
        return ()
    return next((tuple(columns) for columns in layouts if columns and len(columns) == len(first)), ())


def _quoted(path, lines, delimiter):
    reader = csv.reader((line + '\n' for line in lines), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:  # where a quote is broken, no later row can be told
        raise UserError(f'{path}: row {reader.line_num}: {error}') from None


def _json_rows(path, lines):
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                fields = RowFault(f'{type(fields).__name__}, expected an object')
        except (ValueError, RecursionError) as error:
            fields = RowFault(f'not JSON ({error})')
        yield Row(f'{path}: row {number}', str(number - 1), fields)


def table_task(name: str, head: str, labels: tuple[str, ...], metrics: tuple[str, ...], splits: dict[str, Split], *,
               texts: tuple[str, ...], label: str, features: dict[str, str] | None = None, index: str | None = 'idx',
               renumber: bool = False, without_label: str | None = None,
               score: tuple[float, float] | None = None) -> Task:
    """The Task of a table.

    texts: the columns that become the example's texts. label: the column whose values are `labels`, or numbers within
    `score`. features: {column: TFDS feature} where names differ; TFDS numbers labels in the order of `labels`.
    index: the TFDS feature that holds a row's place in the file; None where there is none. renumber: that place counts
    rows of other splits too, so ids are the places within the split. without_label: the label of rows that are no part
    of the set (SNLI's '-').
    """
    def make(split, row_id, fields):
        if split.labelled and without_label is not None and fields.get(label) == without_label:
            return None
        parts = tuple(reading.field(fields, column) for column in texts)
        if not split.labelled:
            return Example(reading.field(fields, split.id_column), parts)
        value = reading.field(fields, label)
        return Example(row_id, parts, label=_value(value, score) if score else reading.label(value, labels))

    def official(paths, split):
        needed = (*texts, label) if split.labelled else (*texts, split.id_column)
        return read(paths[0], needed, split.columns)

    def prepared(directory, split):
        columns = (*texts, label) if split.labelled else texts
        names = {column: (features or {}).get(column, column) for column in columns}
        records = tfds_source.records(directory, split.tfds[0], (*names.values(), *((index,) if index else ())))
        if index:
            records.sort(key=lambda record: record[1][index])
        for position, (where, record) in enumerate(records):
            place = str(record[index] if index and not renumber else position)
            fields = {column: str(record[feature]) for column, feature in names.items()}
            if split.labelled and not score:
                number = int(record[names[label]])
                fields[label] = labels[number] if 0 <= number < len(labels) else (
                    without_label if number == -1 and without_label else str(number))
            yield Row(where, place, fields if split.labelled else fields | {split.id_column: place})

    def read_file(path, skipped=None):
        own = [split.columns for split in splits.values()]
        layouts = own + [tuple(column for column in columns if column != label) for columns in own]
        ids = next((split.id_column for split in splits.values() if split.id_column), None)
        rows = read(path, texts, layout(path, texts, layouts))
        return reading.collect(rows, lambda row_id, fields: Example(
            reading.row_id(fields, ids, row_id), tuple(reading.field(fields, column) for column in texts)), path,
            skipped=skipped)

    return reading.two_sources(name, head, labels, metrics, splits, official=official, prepared=prepared, make=make,
                               score=score, n_texts=len(texts), read_file=read_file)


def _value(text, score):
    """A score's value, the same from both sources. RowFault where it is no number between the limits."""
    try:
        value = float(text)
    except ValueError:
        raise RowFault(f'score {text!r} is not a number') from None
    low, high = score
    if not low <= value <= high:
        raise RowFault(f'score {text} is outside {low:g}..{high:g}')
    return round(value, DECIMALS)
