"""TFDS as the second source of a labelled set: records that were prepared elsewhere, read without TensorFlow.

    tfds:            TFDS's own data directory: $TFDS_DATA_DIR, else ~/tensorflow_datasets
    tfds:DIRECTORY   another one

Preparing takes TensorFlow (extra `gpt1_jax[tfds]`) and the file format array_record, the one that is read without it.
TFDS shuffles records when it prepares them: sets that carry an index are put back in order, others keep TFDS's.
"""
import os
import pathlib
import re

from gpt1_jax.errors import UserError

PREFIX = 'tfds:'
BATCH = 1024  # records fetched at a time


def is_tfds(directory) -> bool:
    """Whether a task's directory names TFDS, and not a folder of official files."""
    return str(directory).startswith(PREFIX)


def files(directory, source: str) -> list[str]:
    """The record files of 'builder/config:split'. UserError as `records`."""
    name, split = source.split(':')
    builder, _ = _open(directory, name, split)
    return [str(path) for path in builder.info.splits[split].filepaths]


def records(directory, source: str, features: tuple[str, ...]) -> list[tuple[str, dict]]:
    """(where, {feature: value}) of every record of 'builder/config:split', in TFDS's order.

    where: for messages. Values are str, numbers, or lists of values. UserError where the set or the split is not
    prepared, a feature is missing, or a record lacks a value: an ArrayRecord file that was cut short reads as None.
    """
    name, split = source.split(':')
    builder, path = _open(directory, name, split)
    missing = [feature for feature in features if feature not in builder.info.features]
    if missing:
        raise UserError(f'{path}: no feature {missing[0]!r} (features: {", ".join(builder.info.features)})')
    found = []
    try:
        data = builder.as_data_source(split)
        for start in range(0, len(data), BATCH):
            # By index: a source that is short of records then says so instead of ending early.
            found += data.__getitems__(list(range(start, min(start + BATCH, len(data)))))
    except Exception as error:  # whatever it raises, the cause is these files or their format
        raise UserError(f'{path}: TFDS cannot read {split} after {len(found)} records ({_one_line(error)})') from None
    shown = []
    for number, record in enumerate(found):
        where = f'{path}: {split} record {number}'
        try:
            shown.append((where, {feature: _plain((record or {}).get(feature)) for feature in features}))
        except ValueError as error:
            raise UserError(f'{where}: {error}') from None
    return shown


def _open(directory, name, split):
    """(builder, its directory) of the newest prepared version."""
    data_dir = pathlib.Path(str(directory).removeprefix(PREFIX) or os.environ.get('TFDS_DATA_DIR')
                            or '~/tensorflow_datasets').expanduser()
    versions = [path.parent for path in (data_dir / name).glob('*/dataset_info.json')
                if re.fullmatch(r'\d+\.\d+\.\d+', path.parent.name)]
    if not versions:
        raise UserError(f'{directory}: {name} is not in {data_dir}, to prepare it: {how_to_prepare(name, data_dir)}')
    path = max(versions, key=lambda path: tuple(map(int, path.name.split('.'))))
    try:
        import tensorflow_datasets as tfds
        builder = tfds.builder_from_directory(path)
        splits = builder.info.splits
    except Exception as error:
        raise UserError(f'{path}: TFDS cannot open it ({_one_line(error)})') from None
    if split not in splits:
        raise UserError(f'{path}: no split {split!r} (there are {", ".join(splits) or "none"})')
    return builder, path


def how_to_prepare(name: str, data_dir) -> str:
    """The commands that prepare a set. TFDS finds its older builders only when their package is imported first."""
    builder, _, config = name.partition('/')
    return ("pip install 'gpt1_jax[tfds]'; " + f'tfds build {builder}' + (f' --config={config}' if config else '')
            + f' --imports=tensorflow_datasets.text --file_format=array_record --data_dir={data_dir}'
            + (' --manual_dir=FOLDER_OF_THE_CSV_FILES' if builder == 'story_cloze' else ''))


def _plain(value):
    """A record's value as str, number or list. ValueError for one that is missing or no text."""
    if value is None:
        raise ValueError('a value is missing, as where a file was cut short: prepare the set again')
    if isinstance(value, bytes):
        try:
            return value.decode('utf-8')
        except UnicodeDecodeError as error:
            raise ValueError(f'not UTF-8 at byte {error.start} of a text') from None
    if hasattr(value, '__iter__') and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _one_line(error) -> str:
    return ' '.join(f'{type(error).__name__}: {error}'.split())[:300]
