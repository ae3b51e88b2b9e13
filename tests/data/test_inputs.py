"""Section 3.3: the input layouts, as literal ids."""
import types

import pytest

from gpt1_jax.data import inputs
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError

# A tokenizer of digits: '12' -> [1, 2]. Specials follow its ten rows.
DIGITS = types.SimpleNamespace(encode=lambda text: [int(c) for c in text if c.isdigit()], start_id=10, delimiter_id=11,
                               extract_id=12)


def task_of(head, **fields):
    return Task('t', head, ('a', 'b'), ('accuracy',), ('train',), None, None, **fields)


def ids(example, head, n_ctx=512, **fields):
    return inputs.encode(example, task_of(head, **fields), DIGITS, n_ctx).sequences


@pytest.mark.parametrize('head, texts, choices, segments, expected', [
    ('classify', ('567',), (), (), [[10, 5, 6, 7, 12]]),
    ('classify', ('56', '7'), (), (), [[10, 5, 6, 11, 7, 12]]),
    ('similarity', ('56', '7'), (), (), [[10, 5, 6, 11, 7, 12], [10, 7, 11, 5, 6, 12]]),
    ('choice', ('56',), ('7', '89'), (), [[10, 5, 6, 11, 7, 12], [10, 5, 6, 11, 8, 9, 12]]),
    ('classify', ('5', '6', '7'), (), (2, 1), [[10, 5, 6, 11, 7, 12]]),  # texts of a segment are concatenated
    ('classify', ('5', '6', '7'), (), (), [[10, 5, 11, 6, 11, 7, 12]])])
def test_texts_are_laid_out_as_in_figure_1(head, texts, choices, segments, expected):
    assert ids(Example('0', texts, choices), head, segments=segments) == expected


@pytest.mark.parametrize('texts, n_ctx, expected', [
    (('1' * 300 + '2' * 300,), 512, [10] + [1] * 300 + [2] * 210 + [12]),
    (('1' * 255, '2' * 600), 512, [10] + [1] * 254 + [11] + [2] * 254 + [12]),
    (('1' * 9, '2' * 9, '3' * 3), 21, [10, 1, 1, 1, 1, 1, 11, 2, 2, 2, 2, 2, 11, 3, 3, 3, 12])])
def test_n_texts_keep_their_first_nth_of_the_context_each(texts, n_ctx, expected):
    assert ids(Example('0', texts), 'classify', n_ctx) == [expected]


def test_a_row_that_was_cut_says_so():
    task = task_of('classify')
    assert [inputs.encode(Example('0', ('1' * n,)), task, DIGITS, 16).cut for n in (14, 15)] == [False, True]


def test_race_cuts_the_document_alone_and_alike_for_all_answers():
    row = Example('0', ('123456789', '77'), ('8', '888'))
    # 14 - 3 specials - 2 of the question - 3 of the longest answer leave 6.
    assert ids(row, 'choice', 14, segments=(2,), cut=0) == [
        [10, 1, 2, 3, 4, 5, 6, 7, 7, 11, 8, 12], [10, 1, 2, 3, 4, 5, 6, 7, 7, 11, 8, 8, 8, 12]]
    whole = ids(row, 'choice', 17, segments=(2,), cut=0)
    assert whole[1] == [10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7, 7, 11, 8, 8, 8, 12]


def test_a_question_too_long_for_the_context_names_the_row():
    task = task_of('choice', segments=(2,), cut=0)
    with pytest.raises(UserError, match='t: row q: 12 tokens that are never cut, and 3 more, leave no room in a conte'):
        inputs.encode_all([Example('q', ('1', '7' * 11), ('8', '8'), 0)], task, DIGITS, 15)
    skipped = []
    rows = [Example('q', ('1', '7' * 11), ('8', '8'), 0), Example('r', ('1', '7'), ('8', '8'), 0)]
    assert [row.id for row in inputs.encode_all(rows, task, DIGITS, 15, skipped.append)] == ['r'] and len(skipped) == 1


@pytest.mark.parametrize('score, expected', [
    (3.8, [0, 0, 0, 0.2, 0.8, 0]), (5.0, [0, 0, 0, 0, 0, 1]), (0.25, [0.75, 0.25, 0, 0, 0, 0])])
def test_a_score_splits_its_mass_between_the_whole_numbers_around_it(score, expected):
    task = Task('s', 'similarity', tuple('012345'), ('pearson',), (), None, None, score=(0, 5))
    assert inputs.target(Example('0', ('1', '2'), label=score), task) == pytest.approx(expected)


def test_targets_of_labels_choices_and_squared_scores():
    assert inputs.target(Example('0', ('1',), label=1), task_of('classify')) == [0, 1]
    assert inputs.target(Example('0', ('1',), ('2', '3', '4'), label=2), task_of('choice')) == [0, 0, 1]
    squared = Task('s', 'classify', ('score',), ('pearson',), (), None, None, score=(1, 7), squared=True)
    assert inputs.target(Example('0', ('1',), label=5.5), squared) == [0.75]
    assert inputs.target(Example('0', ('1',)), squared) is None


@pytest.mark.parametrize('examples, message', [
    ([Example('x7', ('1',), label=2)], r't: row x7: label 2 is out of range 0\.\.1'), ([], 't: no examples')])
def test_a_label_out_of_range_and_no_examples_are_errors(examples, message):
    with pytest.raises(UserError, match=message):
        inputs.encode_all(examples, task_of('classify'), DIGITS, 16)


def test_a_text_that_many_rows_share_is_tokenised_once():
    asked = []

    def encode(text):
        asked.append(text)
        return [int(c) for c in text]

    tokenizer = types.SimpleNamespace(encode=encode, start_id=10, delimiter_id=11, extract_id=12)
    task = task_of('choice', segments=(2,), cut=0)
    examples = [Example(str(i), ('1' * 20, f'{i}'), ('5', '66'), 0) for i in range(4)]
    found = inputs.encode_all(examples, task, tokenizer, 16)
    assert found == [inputs.encode(example, task, DIGITS, 16) for example in examples]
    assert asked.count('1' * 20) == 1
