"""The messages about a labelled set as a whole."""

import collections
import dataclasses

import pytest

from gpt1_jax.data import examination
from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tasks import own
from own_sets import SENTIMENT

Counter = collections.Counter


def rows(*labelled):
    return [
        Encoded(str(i), [[text]], label, None, False) for i, (text, label) in enumerate(labelled)
    ]


@pytest.mark.parametrize(
    'counts, said',
    [
        (
            {'good': 3, 'Good': 1, 'bad': 2},
            "labels 'good' (3 rows) and 'Good' (1 row) differ in case, spaces or Unicode form only",
        ),
        ({'caf\u00e9': 3, 'cafe\u0301': 1}, 'spaces or Unicode form only'),
        ({'a b': 3, 'a  b ': 1}, 'differ in case, spaces'),
    ],
)
def test_labels_that_look_alike_are_named_once(counts, said):
    (line,) = examination.alike(counts)
    assert said in line and examination.alike({'a': 1, 'b': 2}) == []


def test_words_for_a_missing_value_and_a_repeated_header_are_named():
    first, second = examination.missing({'NaN': 2, 'none': 1, 'good': 3})
    assert first.startswith("label 'NaN' (2 rows) looks like a miss") and "'none' (1 row)" in second
    (line,) = examination.header({'label': 1, 'good': 3}, 'label')
    assert line.startswith("label 'label' (1 row) is the name of its column")
    assert examination.header({'good': 3}, 'label') == []


def test_labels_on_one_side_only_are_named():
    counts = {'training': Counter({0: 4, 1: 2}), 'dev': Counter({0: 1, 2: 1})}
    found = examination.one_sided(('a', 'b', 'c'), counts)
    assert found == ["no training row has label 'c'", "no dev row has label 'b'"]


TASK = own.task('a.csv', **SENTIMENT, labels=('negative', 'positive'))


def test_copies_between_the_splits_are_counted_and_a_sound_set_has_no_warning():
    train = rows((1, 0), (2, 1), (3, 1))
    (line,) = examination.warnings(TASK, train, rows((1, 0), (4, 1)))
    assert line.startswith('1 of 2 dev rows are training rows as well')
    assert examination.warnings(TASK, train, rows((5, 0), (4, 1))) == []


def test_labels_that_the_task_states_are_no_mistakes():
    task = dataclasses.replace(TASK, labels=('None', 'none'))
    train = rows((1, 0), (2, 1))
    dev = rows((3, 0), (4, 1))
    assert examination.warnings(task, train, dev) == []
    assert len(examination.warnings(task, train, dev, 'label')) == 3
