"""Records of a JSON file: one a line (JSON lines), or the items of one array. The contents decide, not the name."""
import pathlib
from collections.abc import Iterator, Sequence

from gpt1_jax.data.tasks import reading
from gpt1_jax.data.tasks.reading import Row, RowFault
from gpt1_jax.errors import UserError

ENDINGS = ('.jsonl', '.json')


def is_json(path: str | pathlib.Path) -> bool:
    """Whether a file name ends like a JSON file's."""
    return str(path).endswith(ENDINGS)


def read(path: str | pathlib.Path, columns: Sequence[str] = ()) -> Iterator[Row]:
    """The records in order. Ids are positions from 0; messages count from 1, lines as rows and items as records.

    columns: names for the items of records that are lists; without it, records must be objects.
    UserError if the file is missing, empty, not UTF-8, or neither JSON lines nor an array.
    """
    for position, (where, record) in enumerate(_records(path)):
        fields = record if isinstance(record, RowFault) else _fields(record, columns)
        yield Row(where, str(position), fields)


def layout(path: str | pathlib.Path, layouts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The first of the layouts with as many columns as the first record has items; () if that record is not a list."""
    _, record = next(_records(path), ('', None))
    n = len(record) if isinstance(record, list) else 0
    return next((tuple(columns) for columns in layouts if columns and len(columns) == n), ())


def _records(path):
    """(where, record or RowFault) of every record."""
    items = _array(path)
    if items is not None:
        for number, item in enumerate(items, 1):
            yield f'{path}: record {number}', item
        return
    for number, line in enumerate(reading.decoded_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = reading.json_value(line)
        except RowFault as fault:
            record = fault
        yield f'{path}: row {number}', record


def _array(path):
    """The items of a file that is one JSON array, which is read into memory; None if the file is JSON lines.

    The first line of JSON lines may also be a list. It is taken for one record if more lines follow, or if its items
    are not records themselves.
    """
    lines = reading.decoded_lines(path)
    first = next((line for line in lines if line.strip()), '')
    more = any(line.strip() for line in lines)
    try:
        record = reading.json_value(first)
    except RowFault:
        begins_array = first.lstrip().startswith('[')
        begins_object = str(path).endswith('.json') and first.lstrip().startswith('{')
        if not begins_array and not begins_object:
            return None
    else:
        records = isinstance(record, list) and all(isinstance(item, (dict, list)) for item in record)
        return record if records and not more else None
    try:
        items = reading.json_value('\n'.join(reading.decoded_lines(path)))
    except RowFault as fault:
        raise UserError(f'{path}: neither a JSON array of records nor a record a line: {fault}') from None
    if not isinstance(items, list):
        raise UserError(f'{path}: one JSON object, expected an array of records or a record a line')
    return items


def _fields(record, columns):
    """{column: value} of a record, or a RowFault."""
    if not columns:
        if isinstance(record, dict):
            return record
        return RowFault(f'{type(record).__name__}, expected an object')
    if not isinstance(record, list):
        return RowFault(f'{type(record).__name__}, expected a list ({", ".join(columns)})')
    if len(record) != len(columns):
        return RowFault(f'{len(record)} items, expected {len(columns)} ({", ".join(columns)})')
    return dict(zip(columns, record))
