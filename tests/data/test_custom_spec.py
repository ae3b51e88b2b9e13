"""Mistakes in the description of a user's own set, found before a row is read, and the described
examples to copy."""

import json
import time
from dataclasses import fields as fields_of

import pytest

from gpt1_jax import metrics
from gpt1_jax.data.tasks import custom, custom_spec
from own_sets import CSV, RATED, RATING
from refusal import refusal
from tiny import custom_config, load_config, override

PAIR = CSV | {'name': 'pair', 'segments': [['a'], ['b']], 'label': 'y', 'labels': ['no', 'yes']}
CHOICE = CSV | {
    'name': 'choice',
    'segments': [['q']],
    'label': 'y',
    'choices': ['c1', 'c2', 'c3'],
    'answer': 'index0',
}


@pytest.mark.parametrize(
    'base, changes, cause',
    [
        *[
            (PAIR, changes, cause)
            for changes, cause in (
                ({'segmets': []}, "unknown field segmets, did you mean 'segments'?"),
                ({'name': ''}, 'name is missing'),
                ({'files': {'dev': 'd.csv'}}, 'files.train is missing'),
                ({'files': 'train.csv'}, 'files is'),
                (
                    {'files': {'train': 't', 'dve': 'd'}, 'dev_fraction': 0.1},
                    'files.dve: unknown split',
                ),
                ({'files': {'train': 't', 'dev': None}}, 'files.dev or'),
                ({'dev_fraction': 1}, 'dev_fraction is'),
                ({'files': {'train': 't.jsonl', 'dev': 'd.csv'}}, 'files.train is'),
                ({'format': 'xlsx'}, 'format is'),
                ({'segments': []}, 'segments is missing'),
                ({'segments': [['a'], []]}, 'segments has an empty'),
                ({'segments': [['a'], ['a']]}, "segments: duplicate 'a'"),
                ({'segments': [['a'], ['y']]}, 'label is'),
                ({'cut': 'a'}, 'unknown field cut'),
                ({'score': [1, 2]}, 'labels and score'),
                ({'labels': []}, 'labels, score and'),
                ({'label': None}, 'label is missing'),
                ({'labels': ['no']}, 'labels is'),
                ({'squared': True}, 'squared is'),
                ({'answer': 'text'}, "answer is 'text', but choices"),
                ({'metrics': ['pearson']}, "metrics: 'pearson' does not fit"),
                (
                    {'metrics': ['matthews'], 'labels': ['x', 'y', 'z']},
                    "metrics: 'matthews' takes two labels",
                ),
                ({'metrics': ['f1'], 'labels': ['x', 'y', 'z']}, "metrics: 'f1' of 3 labels"),
                ({'positive': 'yess'}, "positive is 'yess', must be one of labels"),
            )
        ],
        (RATING, {'score': [5, 0]}, 'score is (5, 0)'),
        (RATING, {'score': [0, 2.5]}, 'score is (0, 2.5), must be whole'),
        (RATING, {'score': [0, 1e300]}, 'score is (0, 1e+300), a label for each whole number'),
        (CHOICE, {'choices': ['list']}, 'max_choices is missing'),
        (CHOICE, {'max_choices': 4}, 'max_choices is 4'),
        (
            CHOICE,
            {'answer': 'indx1'},
            "answer is 'indx1', must be one of index0, index1, letter, text, did you mean",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field(base, changes, cause):
    message = refusal(custom.task, base | changes)
    assert message.startswith(f'config.custom.{cause}') and '; config' not in message


def test_many_labels_are_checked_in_linear_time():
    names = [str(i) for i in range(60_000)]
    begin = time.process_time()
    assert custom.task(PAIR | {'labels': names}).labels == tuple(names)
    assert time.process_time() - begin < 10  # names.count of each takes minutes


def test_the_config_has_every_field_of_a_description_and_the_metrics_are_all_there():
    config = load_config('custom')
    assert config.task == 'custom' and set(config.custom) == {
        field.name for field in fields_of(custom_spec.Spec)
    }
    assert set().union(*custom_spec.METRICS.values()) == metrics.METRICS.keys()
    rated = custom_config('rating').to_dict()['custom']
    assert custom.task(json.loads(json.dumps(rated))) == custom.task(RATED) == custom.task(rated)


def test_a_field_left_alone_means_what_the_description_means_without_it():
    config, blank = (custom_config('rating').custom for _ in range(2))
    override(blank, {'positive': '', 'id': '', 'answer': '', 'max_choices': 0})
    assert custom.task(blank.to_dict()) == custom.task(config.to_dict())
