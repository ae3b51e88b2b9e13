"""Reads a labelled set from the Hugging Face Hub's Parquet files: nyu-mll/glue,
stanfordnlp/snli, ...

    parquet:DIRECTORY    a data set's directory, as it is downloaded, or the directory of one
                         configuration in it
    DIRECTORY            the same, if the set's official files are not in it
    hf:USER/NAME         the Hub's data set itself, or one revision of it: hf:USER/NAME@REVISION
                         (data/hub.py)

Labels are numbers there. Their names in the file's schema are compared with the task's.
"""

import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import hub, parquet_pages
from gpt1_jax.data import records as records_lib
from gpt1_jax.data.document import LONGEST, too_long
from gpt1_jax.errors import UserError

PREFIX = 'parquet:'
KIND = 'Parquet files'
# {TFDS's name: the Hub's name} of configurations and splits. Other names are the same. SciTail's
# tsv_format lost 499 rows to quotes.
CONFIGS = {
    'snli': 'plain_text',
    'sci_tail': 'snli_format',
    'definite_pronoun_resolution': 'plain_text',
}
SPLITS = {'dev': 'validation'}
OF_SHARDS = r'-(\d{5,})-of-(\d{5,})(-[0-9a-f]+)?'
SHARD = rf'.*{OF_SHARDS}\.parquet'


def is_named(directory: str | pathlib.Path) -> bool:
    return str(directory).startswith((PREFIX, hub.PREFIX))


def holds(directory: str | pathlib.Path) -> bool:
    """Whether there are Parquet files in a local directory, at most two levels down."""
    root = pathlib.Path(directory)
    return any(next(root.glob(f'{inner}*.parquet'), None) for inner in ('', '*/', '*/*/'))


def names(directory: str, split: Any) -> tuple[str, ...]:
    """The 'builder/config:split's of a reading.Split that there are files of; all that there could
    be if none is."""
    for sources in (split.parquet, split.tfds):
        found = tuple(source for source in sources if _find(directory, source))
        if found:
            return found
    return split.parquet or split.tfds


def files(directory: str | pathlib.Path, source: str) -> list[str]:
    """The files of 'builder/config:split' (TFDS's name) in order.

    UserError if there are none, if a shard is missing, or if there are too many files.
    """
    found = _find(directory, source)
    if not found:
        config, split = _place(source)
        raise UserError(
            f'{directory}: no Parquet file of {config} {split}, such as '
            f'{config}/{split}-00000-of-00001.parquet'
        )
    shards = [shard for path in found if (shard := re.fullmatch(SHARD, path.name))]
    if len(shards) == len(found):  # else they are named in another way
        total = int(shards[0][2])
        missing = {*range(total)} - {int(shard[1]) for shard in shards}
        if missing:
            raise UserError(f'{found[0]}: shard {min(missing)} of {total} is missing')
        if len(shards) > total:
            raise UserError(
                f'{found[0].parent}: {len(shards)} files of a split in {total} shard(s): delete '
                'those of another version'
            )
    return [str(path) for path in found]


def records(
    directory: str | pathlib.Path,
    source: str,
    features: tuple[str, ...],
    classes: dict[str, tuple[str, ...]] | None = None,
) -> list[tuple[str, dict]]:
    """(where, {feature: value}) of every row of 'builder/config:split', in the files' order.

    where:   file and row, from 0, for messages. Values are str, numbers, None, or lists of values.
    classes: {feature: the label names that its numbers must stand for}. A feature of texts needs no
             such names.
    UserError for a file that is no Parquet, that lacks a feature, or whose labels have other names
    or no names.
    """
    found: list[tuple[str, dict]] = []
    for path in files(directory, source):
        with records_lib.parquet_file(path) as file:
            schema = file.schema_arrow
            missing = [name for name in features if name not in schema.names]
            if missing:
                raise UserError(
                    f'{path}: no column {missing[0]!r} (columns: {", ".join(schema.names)})'
                )
            _check_unique(path, schema.names, features)
            for name, expected in (classes or {}).items():
                _check_names(path, schema, name, expected)
            found += _rows(path, file, features)
    return found


def table(path: str | pathlib.Path, needed: Sequence[str] = ()) -> Iterator[tuple[str, dict]]:
    """Yields (where, {column: value}) of every row of any single file.

    Numbers that have names in the schema become these names. If some columns are needed, lists in
    others are left out. UserError as in `records`.
    """
    import pyarrow

    with records_lib.parquet_file(path) as file:
        schema = file.schema_arrow
        columns = [
            field.name
            for field in schema
            if not needed or field.name in needed or not pyarrow.types.is_nested(field.type)
        ]
        _check_unique(path, schema.names, columns)
        classes = {name: _class_names(schema, name) for name in columns}
        for where, record in _rows(path, file, columns):
            for name, value in record.items():
                names = classes[name]
                if names and isinstance(value, int) and value < len(names):
                    # The Hub's number for no label is -1
                    record[name] = names[value] if value >= 0 else ''
            yield where, record


def _check_unique(path, names, features):
    for name in features:
        if names.count(name) > 1:
            raise UserError(f'{path}: {names.count(name)} columns are called {name!r}')


def _rows(path, file, features):
    """Yields (where, {feature: value}) of every row of an open file."""
    most = max(LONGEST, parquet_pages.MOST_TIMES * storage.size(path))
    held = 0
    for number, batch in records_lib.row_batches(path, file, features):
        held += batch.nbytes
        if held > most:
            raise UserError(
                f'{path}: row {number}: the rows up to here are {held >> 20} MiB, out of '
                'proportion to the file'
            )
        for values in zip(*(batch.column(name).to_pylist() for name in features)):
            where = f'{path}: row {number}'
            if any(isinstance(value, str) and len(value) > LONGEST for value in values):
                raise too_long(where)
            yield where, dict(zip(features, values))
            number += 1


def _place(source):
    """(configuration, split) on the Hub."""
    name, split = source.split(':')
    return CONFIGS.get(name, name.rpartition('/')[2]), SPLITS.get(split, split)


def _find(directory, source):
    """The paths of 'builder/config:split', all in one folder; [] if there are none."""
    config, split = _place(source)
    patterns = [
        f'{folder}{name}.parquet'
        # the second is in the branch for sets that the Hub converted, the third is its older form
        for folder, name in itertools.product(
            (f'{config}/', '', 'data/'), (f'{split}-*', f'{split}/*', f'*-{split}', split)
        )
    ]
    root = pathlib.Path(str(directory).removeprefix(PREFIX))
    if hub.is_name(str(directory)):
        root = hub.download(str(directory), 'dataset', tuple(patterns))
    elif not root.is_dir():
        raise UserError(f'{root}: no such directory')
    return next((found for pattern in patterns if (found := sorted(root.glob(pattern)))), [])


def _check_names(path, schema, name, expected):
    """UserError unless a column holds texts, or its numbers mean the expected names."""
    if records_lib.is_text(schema.field(name).type):
        return
    names = _class_names(schema, name)
    if not names:
        raise UserError(
            f"{path}: what the numbers in {name} mean is unknown: the schema's metadata "
            "'huggingface' "
            f'names no labels (expected: {", ".join(expected)})'
        )
    if names != list(expected):
        raise UserError(
            f'{path}: the labels are {", ".join(map(str, names))}, expected {", ".join(expected)}'
        )


def _class_names(schema, name):
    """The names that a column's numbers stand for, or []."""
    try:
        features = json.loads((schema.metadata or {})[b'huggingface'])['info']['features']
        return list(features[name]['names'])
    except (KeyError, TypeError, ValueError):
        return []
