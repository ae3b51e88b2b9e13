"""Flags for fine-tuning on your own table: --data, --text, --label, --choices, --score and
--encoding, the fields of configs/custom.py."""

from collections.abc import Mapping
from typing import Any

from absl import flags

from gpt1_jax.data.tasks import own
from gpt1_jax.errors import UserError

flags.disclaim_key_flags()  # --help counts flags that are defined here among the caller's
NAMES = ('data', 'text', 'label', 'choices', 'score', 'encoding')


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


def filled(config: Any) -> Any:
    """The ConfigDict with the fields for which these flags stand.

    UserError if the flags do not fit together.
    """
    f = flags.FLAGS
    given = {name: getattr(f, name) for name in (*NAMES, 'init_from')}
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
    return fill(config, given)


def fill(config: Any, given: Mapping[str, Any]) -> Any:
    """Sets the fields of configs/custom.py, and init_from, to what is given of these names.

    UserError for a score that is no two numbers.
    """
    for name, value in given.items():
        if value:
            if name == 'score':
                value = own.limits_of(value)
            group = config if name == 'init_from' else config.custom
            group[name] = tuple(value) if isinstance(value, (list, tuple)) else value
    return config
