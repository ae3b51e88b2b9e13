"""Reads a labelled set that TFDS prepared, without TensorFlow.

    tfds:            TFDS's default data directory: $TFDS_DATA_DIR, else ~/tensorflow_datasets
    tfds:DIRECTORY   another data directory

Preparing needs TensorFlow (extra `gpt1_jax[tfds]`). The file format must be array_record, which can
be read without TensorFlow. TFDS shuffles records when it prepares them. Sets with an index are
sorted by the index, other sets stay in TFDS's order.
"""

import os
import pathlib
import re
from typing import Any

from gpt1_jax.errors import UserError, shown

PREFIX = 'tfds:'
KIND = 'TFDS'


def is_named(directory: str | pathlib.Path) -> bool:
    return str(directory).startswith(PREFIX)


def names(directory: str, split: Any) -> tuple[str, ...]:
    """The names 'builder/config:split' of a reading.Split. UserError if TFDS has none."""
    if not split.tfds:
        raise UserError(
            f'{directory}: TFDS has no {"labels" if split.labelled else "rows"} of {split.files[0]}'
        )
    return split.tfds


def files(directory: str | pathlib.Path, source: str) -> list[str]:
    """The record files of 'builder/config:split'. UserError as in `records`."""
    builder, _, split = _open(directory, source)
    return [str(path) for path in builder.info.splits[split].filepaths]


def records(
    directory: str | pathlib.Path,
    source: str,
    features: tuple[str, ...],
    classes: dict[str, tuple[str, ...]] | None = None,
) -> list[tuple[str, dict]]:
    """(where, {feature: value}) of every record of 'builder/config:split', in TFDS's order.

    where:   file and record, for messages. Values are str, numbers, or lists of values.
    classes: not used, because TFDS numbers labels as the task does.
    UserError if the set or the split is not prepared, if a feature is missing, or if a record lacks
    a value (a truncated ArrayRecord file gives None).
    """
    builder, path, split = _open(directory, source)
    missing = [feature for feature in features if feature not in builder.info.features]
    if missing:
        raise UserError(
            f'{path}: no feature {missing[0]!r} (features: {", ".join(builder.info.features)})'
        )
    found = []
    try:
        data = builder.as_data_source(split)
        # By index, because iterating over a source that lacks records ends early without an error
        for number, record in enumerate(data.__getitems__(range(len(data)))):
            where = f'{path}: {split} record {number}'
            found.append(
                (
                    where,
                    {feature: _plain((record or {}).get(feature), where) for feature in features},
                )
            )
    except UserError:
        raise
    except Exception as error:  # TFDS raises many classes. The cause is the files or their format
        raise UserError(f'{path}: TFDS cannot read {split} ({shown(error)})') from None
    return found


def _open(directory, source):
    """(builder, its directory, split) of the newest prepared version."""
    name, split = source.split(':')
    named = (
        str(directory).removeprefix(PREFIX)
        or os.environ.get('TFDS_DATA_DIR')
        or '~/tensorflow_datasets'
    )
    data_dir = pathlib.Path(named).expanduser()
    versions = [
        path.parent
        for path in (data_dir / name).glob('*/dataset_info.json')
        if re.fullmatch(r'\d+\.\d+\.\d+', path.parent.name)
    ]
    if not versions:
        # TFDS finds its older builders only if their package is imported first.
        builder, _, config = name.partition('/')
        raise UserError(
            f'{directory}: {name} is not in {data_dir}, to prepare it: pip install '
            "'gpt1_jax[tfds]'; tfds "
            f'build {builder}{f" --config={config}" if config else ""} '
            f'--imports=tensorflow_datasets.text --file_format=array_record --data_dir={data_dir}'
            + ' --manual_dir=FOLDER_OF_THE_CSV_FILES'
            * (builder == 'story_cloze')
        )
    path = max(versions, key=lambda path: tuple(map(int, path.name.split('.'))))
    try:
        import tensorflow_datasets as tfds

        builder = tfds.builder_from_directory(path)
        splits = builder.info.splits
    except Exception as error:
        raise UserError(f'{path}: TFDS cannot open it ({shown(error)})') from None
    if split not in splits:
        raise UserError(f'{path}: no split {split!r} (there are {", ".join(splits) or "none"})')
    return builder, path, split


def _plain(value, where):
    """A record's value as str, number or list."""
    if value is None:
        raise UserError(
            f'{where}: a value is missing, as in a truncated file: prepare the set again'
        )
    if isinstance(value, bytes):
        return value.decode('utf-8')
    if hasattr(value, '__iter__') and not isinstance(value, str):
        return [_plain(item, where) for item in value]
    return value
