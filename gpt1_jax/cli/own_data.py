"""Flags for fine-tuning on your file: --data, --text and --label in place of the fields of
configs/custom.py."""

import pathlib
import re
from collections.abc import Sequence

from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import rules
from gpt1_jax.cli import config_file
from gpt1_jax.configs import custom as custom_config
from gpt1_jax.data import hub
from gpt1_jax.data.files import DEV
from gpt1_jax.data.tasks import own_file, parquet_source, tables
from gpt1_jax.errors import UserError, shown

flags.disclaim_key_flags()  # --help counts flags that are defined here among the caller's
# The fields for which these flags stand. A field and its flag may not both be given.
STATED = {
    'data.dir': 'data',
    'custom.encoding': 'encoding',
    'custom.files.train': 'data',
    'custom.segments': 'text',
    'custom.label': 'label',
    'custom.choices': 'choices',
    'custom.score': 'score',
    'init_from': 'init_from',
}
SPLITS = {'train': ('train',), 'dev': DEV, 'test': ('test',)}


def define_flags() -> None:
    flags.DEFINE_string(
        'data',
        None,
        'Your own rows: a .csv, .tsv, .jsonl, .json or .parquet file, or a directory or '
        'hf:USER/NAME with train.csv and, if there are any, dev.csv and test.csv; without dev a '
        'tenth of train is used.',
    )
    flags.DEFINE_multi_string(
        'text', [], 'With --data: the column of the text; given twice, a pair of texts'
    )
    flags.DEFINE_string(
        'label', None, 'With --data: the column of the label; the labels are read from the file.'
    )
    flags.DEFINE_list(
        'choices',
        [],
        'With --data: the columns of the answers, for multiple choice; --label is then '
        "the right one's letter, number or text.",
    )
    flags.DEFINE_list('score', [], 'With --data: LOW,HIGH; --label is then a number between them.')
    flags.DEFINE_string(
        'encoding',
        None,
        'With --data: the encoding of tables that are not UTF-8: latin-1, cp1252 (Windows), ...',
    )
    flags.DEFINE_string(
        'init_from',
        None,
        "With --data: 'novels', which comes with the package, "
        'the directory of a pretrained run, or hf:USER/NAME.',
    )


def filled(config: ConfigDict) -> ConfigDict:
    """The config with the fields for which these flags stand.

    UserError if the flags do not fit together, or do not fit the file.
    """
    f = flags.FLAGS
    given = {
        name: getattr(f, name)
        for name in ('text', 'label', 'choices', 'score', 'init_from', 'encoding')
    }
    if f.data is None:
        for name in filter(given.get, given):
            raise UserError(
                f'--{name} goes with --data=FILE; in a config it is a field, see --help'
            )
        return config
    if config.task != 'custom':
        raise UserError(
            f'--data=FILE describes a task of your own, --config has {config.task}: give one of '
            'the two'
        )
    if not f.text or not f.label:
        raise UserError('give --text=COLUMN and --label=COLUMN beside --data=FILE')
    return fill(config, f.data, **given)


def fill(
    config: ConfigDict,
    data: str,
    text: Sequence[str],
    label: str,
    choices: Sequence[str] = (),
    score: Sequence[str] = (),
    init_from: str | None = None,
    encoding: str | None = None,
) -> ConfigDict:
    """Sets the fields of configs/custom.py for which the flags of these names stand.

    Fields that were set before keep their values. UserError as in `filled`.
    """
    asked = {
        'data': data,
        'text': text,
        'label': label,
        'choices': choices,
        'score': score,
        'init_from': init_from,
        'encoding': encoding,
    }
    defaults = rules.flatten(custom_config.get_config())
    given = {
        name: value for name, value in rules.flatten(config).items() if value != defaults.get(name)
    }
    for field, flag in STATED.items():
        if field in given and asked[flag]:
            raise UserError(
                f'--{flag} and --config.{field}={shown(given[field])}: give one of the two'
            )
    place = _downloaded(data) if hub.is_name(data) else pathlib.Path(data)
    directory = place.parent
    files = {'train': place.name}
    if place.is_dir():
        directory = place
        files = {
            split: file.name for split, names in SPLITS.items() for file in _one_of(place, names)
        }
        if 'train' not in files:
            kinds = ', '.join(f'train{suffix}' for suffix in own_file.SUFFIXES)
            raise UserError(f'{data}: none of {kinds} in it')
        for file in sorted(place.iterdir()):
            if file.suffix.lower() in own_file.SUFFIXES and file.name not in files.values():
                print(
                    f'warning: {file} is not read: the splits are {", ".join(files.values())}',
                    flush=True,
                )
    train = directory / files['train']
    custom = config.custom
    custom.encoding = encoding or custom.encoding
    custom.format = own_file.describe(train, (*text, label, *choices), custom.encoding)
    if custom.format == 'tsv' and not config_file.given('config.custom.quoting'):
        custom.quoting &= not any(
            tables.quotes_are_text(directory / name, '\t', custom.encoding)
            for name in files.values()
        )
        if not custom.quoting:
            print(
                f'{train}: its quotation marks are read as text; --config.custom.quoting=True '
                'reads them as quoting',
                flush=True,
            )
    custom.name = place.absolute().stem  # absolute, because '.' has no name
    if hub.is_name(data):
        custom.name = hub.split(data)[0].rpartition('/')[2]
    custom.label, custom.segments = label, tuple((column,) for column in text)
    custom.files.update(files)
    if not custom.files.dev:
        custom.dev_fraction = custom.dev_fraction or 0.1
    if choices:
        custom.choices = tuple(choices)
        custom.answer = own_file.kind_of_answer(train, custom)
        if tables.is_json(train) and len(choices) == 1:
            custom.max_choices = own_file.most_choices(train, custom)
    if score:
        try:
            ends = tuple(map(float, score))
        except ValueError:
            raise UserError(f'--score={",".join(score)}: must be LOW,HIGH, two numbers') from None
        custom.squared = not all(map(float.is_integer, ends))
        custom.score = ends if custom.squared else tuple(map(int, ends))
    config.data.dir = str(directory)
    config.init_from = init_from or config.init_from
    config.update_from_flattened_dict(given)
    return config


def _downloaded(name):
    """Downloads the splits of hf:USER/NAME, and returns their directory: data, or the whole."""
    patterns = [
        f'{folder}{stem}*{suffix}'
        for folder in ('', 'data/')
        for stem in ('train', 'dev', 'val', 'eval', 'test')
        for suffix in own_file.SUFFIXES
    ]
    place = hub.download(name, 'dataset', tuple(patterns))
    if not place.is_dir():
        raise UserError(f'{name}: no train.csv, train.parquet or the like in it, nor in its data/')
    folder = place / 'data'
    return folder if folder.is_dir() else place


def _one_of(directory, names):
    """[the file with one of these names], or []. UserError if there are several."""
    found = [
        file
        for file in sorted(directory.iterdir())
        if re.sub(parquet_source.OF_SHARDS, '', file.stem) in names
        and file.suffix.lower() in own_file.SUFFIXES
    ]
    if len(found) > 1:
        raise UserError(
            f'{directory}: holds {" and ".join(file.name for file in found)}: give one file'
        )
    return found
