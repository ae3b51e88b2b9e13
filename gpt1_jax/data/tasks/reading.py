"""Section 3.3: a labelled set from two sources, official files or TFDS: the same rows, made into the same Examples.

A source gives Rows; one `make` of the set turns a Row's fields into an Example; a bad row is named, or left out.
"""
import dataclasses
import difflib
import glob
import pathlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpt1_jax.data.tasks import tfds_source
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError, about, one_line


class RowFault(Exception):
    """What is wrong with one row. `collect` adds which row, and raises it as a UserError or leaves the row out."""


class Row(NamedTuple):
    """where: file and row, for messages. id: what names it in its split. fields: by column, or why there are none."""
    where: str
    id: str
    fields: dict | RowFault


@dataclasses.dataclass(frozen=True)
class Split:
    """Where one split stands.

    files:     names under the directory, or patterns that match one file; the first that is there is read.
    rows:      the published number of rows.
    tfds:      'builder/config:split' of TFDS, in order; () where TFDS lacks the split or its labels.
    columns:   the column names, of a file without a header.
    labelled:  GLUE's test files aren't.
    id_column: the column of the ids; else ids are positions among the file's rows, from 0.
    part:      the rows of the file that make up the split (Story Cloze); else all.
    tfds_rows: TFDS's number of rows where it differs.
    """
    files: tuple[str, ...]
    rows: int
    tfds: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    labelled: bool = True
    id_column: str | None = None
    part: Callable[[list[Row]], list[Row]] | None = None
    tfds_rows: int | None = None


def find(directory, split: Split) -> list[str]:
    """The one file of a split. UserError where none of its names is there, or a pattern matches several files."""
    for name in split.files:
        path = pathlib.Path(directory) / name
        with about(path):  # a name that can be none
            if not glob.has_magic(name):
                if path.exists():
                    return [str(path)]
                continue
            found = sorted(pathlib.Path(directory).glob(name))
        if len(found) > 1:
            raise UserError(f'{directory}: {len(found)} files match {name}, expected one')
        if found:
            return [str(found[0])]
    first, *others = split.files
    if glob.has_magic(first):
        raise UserError(f'{directory}: 0 files match {first}, expected one')
    raise UserError(f'{pathlib.Path(directory) / first}: no such file' + (f' (nor {", ".join(others)})' * bool(others)))


def two_sources(name: str, head: str, labels: tuple[str, ...], metrics: tuple[str, ...], splits: dict[str, Split], *,
                official: Callable[[list[str], Split], Iterable[Row]],
                prepared: Callable[[str, Split], Iterable[Row]],
                make: Callable[[Split, str, dict], Example | None],
                find: Callable[[str, Split], list[str]] = find, **options) -> Task:
    """The Task of a set.

    official: (paths of a split, its Split) -> rows of the official files. prepared: (directory 'tfds:...', Split) ->
    rows of TFDS. make: (Split, id, fields) -> the Example; RowFault for a bad row, None for one that is no part of the
    set. find: (directory, Split) -> paths. options: further fields of Task.
    """
    def chosen(directory, split_name) -> Split:
        if split_name not in splits:
            near = difflib.get_close_matches(str(split_name), splits, 1)
            raise UserError(f'{name} has no split {split_name!r}' + (f', did you mean {near[0]!r}?' if near else '')
                            + f' (there are {", ".join(splits)})')
        split = splits[split_name]
        if tfds_source.is_tfds(directory) and not split.tfds:
            raise UserError(f'{directory}: TFDS has no {"labels" if split.labelled else "rows"} of {name} {split_name}')
        return split

    def files(directory, split_name):
        split = chosen(directory, split_name)
        if tfds_source.is_tfds(directory):
            return [path for source in split.tfds for path in tfds_source.files(directory, source)]
        return find(directory, split)

    def read(directory, split_name, skipped=None):
        split = chosen(directory, split_name)
        if tfds_source.is_tfds(directory):
            rows, source, published = prepared(directory, split), directory, split.tfds_rows or split.rows
        else:
            paths = find(directory, split)
            rows, published = official(paths, split), split.rows
            source = paths[0] if len(paths) == 1 else directory
        if split.part:
            rows = split.part(list(rows))
        return collect(rows, lambda row_id, fields: make(split, row_id, fields), f'{source} ({name} {split_name})',
                       published, skipped)

    return Task(name, head, labels, metrics, tuple(key for key, split in splits.items() if split.labelled), read, files,
                unlabelled=tuple(key for key, split in splits.items() if not split.labelled), **options)


def collect(rows: Iterable[Row], make: Callable[[str, dict], Example | None], what: str, published: int | None = None,
            skipped: list[str] | None = None) -> list[Example]:
    """The Examples of rows, in order.

    make: (id, fields) -> Example, None for a row that is no part of the set; RowFault for a bad one, and an id that
    stands twice is one, too. what: the source, for messages. published: how many rows there should be: another number
    is a warning, for a part of a set is usable. skipped: takes the messages of bad rows, which are left out.
    UserError naming file, row and cause for a bad row without `skipped`, and where no row is left.
    """
    found, ids, bad = [], set(), []
    for row in rows:
        try:
            if isinstance(row.fields, RowFault):
                raise row.fields
            example = make(row.id, row.fields)
            if example is None:
                continue
            if example.id in ids:
                raise RowFault(f'id {example.id!r} stands twice')
        except RowFault as fault:
            message = one_line(f'{row.where}: {fault}')
            if skipped is None:
                raise UserError(message) from None
            bad.append(message)
        else:
            ids.add(example.id)
            found.append(example)
    if not found:
        raise UserError(f'{what}: no rows' if not bad else f'{what}: all {len(bad)} rows are bad, the first: {bad[0]}')
    if skipped is not None:
        skipped.extend(bad)
    if published is not None and len(found) + len(bad) != published:
        warnings.warn(one_line(f'{what}: {len(found) + len(bad):,} rows, the published set has {published:,}'),
                      stacklevel=3)
    return found


def field(fields: dict, name: str) -> str:
    """fields[name], stripped. RowFault where there is none, or no text in it."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise RowFault(f'no {name}' if value is None else f'{name} is {type(value).__name__}, must be text')
    value = value.strip()
    if not value:
        raise RowFault(f'{name} is empty')
    return value


def row_id(fields: dict, column: str | None, default: str) -> str:
    """fields[column], a text or a whole number; the default where there is no such column."""
    if column not in fields:
        return default
    number = isinstance(fields[column], int) and not isinstance(fields[column], bool)
    return str(fields[column]) if number else field(fields, column)


def label(value: str, labels: tuple[str, ...]) -> int:
    """The index of a label's name. RowFault where it is none of them."""
    if value not in labels:
        raise RowFault(f'label {value!r} is none of {", ".join(labels)}')
    return labels.index(value)


def decoded_lines(path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends, one in memory at a time.

    Lines end at \\n alone: text holds \\x85 and \\u2028. A byte-order mark is no text (MRPC begins with one).
    UserError for a file that is missing, no file, empty, or not UTF-8 (with the byte).
    """
    start = 0
    try:
        with open(path, 'rb') as file:
            for line in file:
                text = line.decode('utf-8')
                yield (text if start else text.removeprefix('\ufeff')).removesuffix('\n').removesuffix('\r')
                start += len(line)
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: not UTF-8 at byte {start + error.start}') from None
    except OSError as error:
        reason = {FileNotFoundError: 'no such file', IsADirectoryError: 'is a directory, not a file'}
        raise UserError(f'{path}: {reason.get(type(error), error.strerror)}') from None
    if not start:
        raise UserError(f'{path}: empty')
