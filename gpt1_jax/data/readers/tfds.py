"""Reads data that TFDS prepared, without TensorFlow.

    tfds:NAME:SPLIT[:FIELD]

TFDS's default data directory is $TFDS_DATA_DIR, else ~/tensorflow_datasets. NAME may have a config
and a version: wiki40b/en:1.3.0. Preparing needs TensorFlow (extra `gpt1_jax[tfds]`). The file
format must be array_record, which can be read without TensorFlow.
"""

import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import How, Row
from gpt1_jax.errors import UserError, shown

PREFIX = 'tfds:'
# The only place from which TFDS may import the classes that a features.json names
OWN = 'tensorflow_datasets.core.features.'
VERSION = r'\d+\.\d+\.\d+'
# The split may be train[:5%]
SPEC = re.compile(rf'{PREFIX}([^:]+(?::{VERSION})?):([^:\[]+(?:\[[^\]]*\])?)(?::([^:]+))?')


def read(spec: str, how: How) -> Iterator[Row]:
    """Yields the records of a SPEC, in TFDS's order. UserError as in `records`."""
    match = SPEC.fullmatch(spec)
    if not match:
        raise UserError(f'{spec}: must be tfds:NAME:SPLIT or tfds:NAME:SPLIT:FIELD')
    return records('', match[1], match[2], how)


def files(directory: str, name: str, split: str) -> list[str]:
    """The record files of a split. UserError as in `records`."""
    builder, _ = opened(directory, name, split)
    return [str(file) for file in builder.info.splits[split].filepaths]


def records(directory: str, name: str, split: str, how: How = How()) -> Iterator[Row]:
    """Yields the records of a split of the set NAME in a data directory, '' for the default.

    Values are str, numbers, or lists of values. Numbers of a ClassLabel become its names, and -1
    becomes ''. UserError if the set or the split is not prepared, if a needed feature is missing,
    or if a record lacks a value (a truncated ArrayRecord file gives None).
    """
    builder, path = opened(directory, name, split)
    features = builder.info.features
    rows_lib.check_columns(path, how.needed, list(features))
    wanted = how.needed or tuple(features)
    labels = {feature: getattr(features[feature], 'names', None) for feature in wanted}
    try:
        source = builder.as_data_source(split)
        # By index, because iterating over a source that lacks records ends early without an error
        for number in range(len(source)):
            where = f'{path}: {split} record {number}'
            record = source[number] or {}
            yield Row(
                where,
                {
                    feature: _plain(record.get(feature), labels[feature], where)
                    for feature in wanted
                },
            )
    except (UserError, GeneratorExit):
        raise
    except Exception as error:  # TFDS raises many classes. The cause is the files or their format
        raise UserError(f'{path}: TFDS cannot read {split} ({shown(error)})') from None


def opened(directory: str, name: str, split: str) -> tuple[Any, pathlib.Path]:
    """(builder, its directory) of the newest prepared version, or of NAME:VERSION.

    UserError if there is none, if TFDS cannot open it, if it names code outside TFDS, or if it
    lacks the split.
    """
    named = directory or os.environ.get('TFDS_DATA_DIR') or '~/tensorflow_datasets'
    data_dir = pathlib.Path(named).expanduser()
    name, _, version = name.partition(':')
    versions = [
        path.parent
        for pattern in ('*', '*/*')
        for path in (data_dir / name).glob(f'{pattern}/dataset_info.json')
        if re.fullmatch(version or VERSION, path.parent.name)
    ]
    if not versions:
        # TFDS finds its older builders only if their package is imported first.
        builder, _, config = name.partition('/')
        raise UserError(
            f'{PREFIX}{directory}: {name} is not in {data_dir}, to prepare it: pip install '
            "'gpt1_jax[tfds]'; tfds "
            f'build {builder}{f" --config={config}" if config else ""} '
            f'--imports=tensorflow_datasets.text --file_format=array_record --data_dir={data_dir}'
        )
    path = max(versions, key=lambda path: tuple(map(int, path.name.split('.'))))
    try:
        check_features(path / 'features.json')
        import tensorflow_datasets

        builder = tensorflow_datasets.builder_from_directory(path)
        splits = builder.info.splits
        if split.partition('[')[0] not in splits:
            raise UserError(f'{path}: no split {split!r} (there are {", ".join(splits) or "none"})')
        return builder, path
    except UserError:
        raise
    except Exception as error:
        raise UserError(f'{path}: TFDS cannot open it ({shown(error)})') from None


def check_features(file: pathlib.Path) -> None:
    """UserError if a features.json names a class outside TFDS, whose module TFDS would import."""

    def check(value):
        if isinstance(value, list):
            for item in value:
                check(item)
        if not isinstance(value, dict):
            return
        for key, inner in value.items():
            names_class = key in ('pythonClassName', 'python_class_name', 'type')
            if names_class and isinstance(inner, str) and not inner.startswith(OWN):
                raise UserError(
                    f'{file}: names the class {shown(inner)}, code outside TFDS: only {OWN}... is '
                    'read'
                )
            check(inner)

    check(json.loads(file.read_text(encoding='utf-8')))


def _plain(value, names, where):
    """A record's value as str, number or list. A number with a name becomes the name."""
    if value is None:
        raise UserError(
            f'{where}: a value is missing, as in a truncated file: prepare the set again'
        )
    if isinstance(value, bytes):
        return value.decode('utf-8')
    if hasattr(value, '__iter__') and not isinstance(value, str):
        return [_plain(item, None, where) for item in value]
    if names:
        return names[value] if 0 <= value < len(names) else ''
    return value
