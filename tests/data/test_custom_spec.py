"""Mistakes in the description of a user's own set, found before a row is read, and the described examples to copy."""
import json
import time
from dataclasses import fields as fields_of

import pytest

from gpt1_jax import metrics
from gpt1_jax.data.tasks import custom, custom_spec
from own_sets import CSV, RATING
from refusal import refusal
from tiny import load_config, override

PAIR = CSV | {'name': 'pair', 'segments': [['a'], ['b']], 'label': 'y', 'labels': ['no', 'yes']}
CHOICE = CSV | {'name': 'choice', 'segments': [['q']], 'label': 'y', 'choices': ['c1', 'c2', 'c3'], 'answer': 'index0'}


@pytest.mark.parametrize('base, changes, cause', [
    *[(PAIR, changes, cause) for changes, cause in (
        ({'segmets': []}, "unknown field segmets, did you mean 'segments'?"), ({'name': ''}, 'name is missing'),
        ({'files': {'dev': 'd.csv'}}, 'files.train is missing'), ({'files': 'train.csv'}, 'files is'),
        ({'files': {'train': 't', 'dve': 'd'}, 'dev_fraction': 0.1}, 'files.dve: unknown split'),
        ({'files': {'train': 't', 'dev': None}}, 'files.dev or'), ({'dev_fraction': 1}, 'dev_fraction is'),
        ({'files': {'train': 't.jsonl', 'dev': 'd.csv'}}, 'files.train is'), ({'format': 'xlsx'}, 'format is'),
        ({'questions': 'q'}, 'questions is'), ({'segments': [['{a because']]}, "segments: '{a because' is no template"),
        ({'segments': []}, 'segments is missing'), ({'segments': [['a'], []]}, 'segments has an empty'),
        ({'segments': [['a'], ['a']]}, "segments: duplicate 'a'"), ({'segments': [['a'], ['y']]}, 'label is'),
        ({'cut': 'bb'}, "cut is 'bb', must be a column of segments (a, b), did you mean 'b'?"),
        ({'columns': ['a', 'bb', 'y']}, "columns (a, bb, y) lacks 'b'"), ({'score': [1, 2]}, 'labels and score'),
        ({'orders': 2, 'segments': [['a'], ['b'], ['c']]}, 'orders is 2'), ({'labels': []}, 'labels, score and'),
        ({'label': None}, 'label is missing'), ({'labels': ['no']}, 'labels is'), ({'squared': True}, 'squared is'),
        ({'answer': 'text'}, "answer is 'text', but choices"),
        ({'metrics': ['pearson']}, "metrics: 'pearson' does not fit"),
        ({'metrics': ['matthews'], 'labels': ['x', 'y', 'z']}, "metrics: 'matthews' takes two labels"),
        ({'metrics': ['f1'], 'labels': ['x', 'y', 'z']}, "metrics: 'f1' of 3 labels"),
        ({'positive': 'yess'}, "positive is 'yess', must be one of labels"))],
    (RATING, {'score': [5, 0]}, 'score is (5, 0)'), (RATING, {'score': [0, 2.5]}, 'score is (0, 2.5), must be whole'),
    (RATING, {'score': [0, 1e300]}, 'score is (0, 1e+300), a label for each whole number'),
    (CHOICE, {'choices': ['list']}, 'max_choices is missing'), (CHOICE, {'max_choices': 4}, 'max_choices is 4'),
    (CHOICE, {'answer': 'indx1'}, "answer is 'indx1', must be one of index0, index1, letter, text, did you mean")])
def test_a_mistake_is_named_with_its_field(base, changes, cause):
    message = refusal(custom.task, base | changes)
    assert message.startswith(f'config.custom.{cause}') and '; config' not in message


def test_many_labels_are_checked_in_linear_time():
    names, begin = [str(i) for i in range(60_000)], time.process_time()
    assert custom.task(PAIR | {'labels': names}).labels == tuple(names)
    assert time.process_time() - begin < 10  # names.count of each takes minutes


@pytest.mark.parametrize('example, head, n_labels, splits', [
    ('sentiment', 'classify', 2, ('train', 'dev')),
    ('five_choice', 'choice', 5, ('train', 'dev')), ('rating', 'classify', 7, ('train', 'dev')),
    ('two_premises', 'classify', 3, ('train', 'dev')), ('copa', 'choice', 2, ('train', 'dev')),
    ('dream', 'choice', 3, ('train', 'dev', 'test'))])
def test_the_examples_to_copy_are_complete_and_right_and_the_metrics_all_there(example, head, n_labels, splits):
    config = load_config('custom', example)
    assert config.task == 'custom' and set(config.custom) == {field.name for field in fields_of(custom_spec.Spec)}
    task = custom.task(config.to_dict()['custom'])
    assert (task.name, task.head, len(task.labels), task.splits) == (example, head, n_labels, splits)
    assert custom.task(json.loads(json.dumps(config.to_dict()))['custom']) == task
    assert set().union(*custom_spec.METRICS.values()) == metrics.METRICS.keys()


def test_a_field_left_alone_means_what_the_description_means_without_it():
    config, blank = (load_config('custom', 'rating').custom for _ in range(2))
    override(blank, {'cut': '', 'positive': '', 'id': '', 'answer': '', 'max_choices': 0})
    assert custom.task(blank.to_dict()) == custom.task(config.to_dict())
