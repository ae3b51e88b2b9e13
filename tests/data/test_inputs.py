"""Section 3.3: the input layouts, as literal ids; the rows of a split, the same for all seeds and
read once."""

import dataclasses

import pytest

from gpt1_jax.data import bpe_training, encode, inputs, splits
from gpt1_jax.data.rows import Row
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tokenizer import Tokenizer
from refusal import refusal


class Digits:
    """A tokenizer of digits: '12' -> [1, 2]. Specials follow its ten rows."""

    start_id = 10
    delimiter_id = 11
    extract_id = 12

    def __init__(self):
        self.asked = []

    def encode(self, text):
        self.asked.append(text)
        return [int(c) for c in text if c.isdigit()]


DIGITS = Digits()


def task_of(head, **fields):
    return Task('t', head, ('a', 'b'), ('accuracy',), ('train',), None, None, **fields)


def ids(example, head, n_ctx=512, **fields):
    return inputs.encode(example, task_of(head, **fields), DIGITS, n_ctx).sequences


@pytest.mark.parametrize(
    'head, texts, choices, segments, expected',
    [
        ('classify', ('567',), (), (), [[10, 5, 6, 7, 12]]),
        ('classify', ('56', '7'), (), (), [[10, 5, 6, 11, 7, 12]]),
        ('similarity', ('56', '7'), (), (), [[10, 5, 6, 11, 7, 12], [10, 7, 11, 5, 6, 12]]),
        # QQP has an empty question
        ('similarity', ('56', ''), (), (), [[10, 5, 6, 11, 12], [10, 11, 5, 6, 12]]),
        ('choice', ('56',), ('7', '89'), (), [[10, 5, 6, 11, 7, 12], [10, 5, 6, 11, 8, 9, 12]]),
        # Texts of a segment are concatenated
        ('classify', ('5', '6', '7'), (), (2, 1), [[10, 5, 6, 11, 7, 12]]),
    ],
)
def test_texts_are_laid_out_as_in_figure_1(head, texts, choices, segments, expected):
    assert ids(Example('0', texts, choices), head, segments=segments) == expected


@pytest.mark.parametrize(
    'texts, n_ctx, expected, cut',
    [
        (('1' * 300 + '2' * 300,), 512, [10] + [1] * 300 + [2] * 210 + [12], True),
        (('1' * 9, '2' * 9, '333'), 21, [10, *[1] * 5, 11, *[2] * 5, 11, 3, 3, 3, 12], True),
        (('1' * 14,), 16, [10, *[1] * 14, 12], False),
    ],
)
def test_n_texts_keep_their_first_nth_of_the_context_each(texts, n_ctx, expected, cut):
    found = inputs.encode(Example('0', texts), task_of('classify'), DIGITS, n_ctx)
    assert found.sequences == [expected] and found.truncated == cut


def test_race_cuts_the_document_alone_and_alike_for_all_answers():
    row = Example('0', ('123456789', '77'), ('8', '888'))
    # 14 - 3 specials - 2 of the question - 3 of the longest answer leave 6.
    begins = [10, 1, 2, 3, 4, 5, 6, 7, 7, 11]
    expected = [[*begins, 8, 12], [*begins, 8, 8, 8, 12]]
    assert ids(row, 'choice', 14, segments=(2,), cut=0) == expected


def test_a_question_too_long_for_the_context_names_the_row():
    task = task_of('choice', segments=(2,), cut=0)
    rows = [Example(name, ('1', '7' * n), ('8', '8'), 0) for name, n in (('q', 11), ('r', 1))]
    message = refusal(splits.encode_all, rows, task, DIGITS, 15)
    assert message.startswith(
        't: row q: 12 tokens that are never cut, and 3 more, leave no room in a context'
    )
    skipped = []
    assert [row.id for row in splits.encode_all(rows, task, DIGITS, 15, skipped.append)] == ['r']
    assert skipped == [message]


@pytest.mark.parametrize(
    'score, expected',
    [(3.8, [0, 0, 0, 0.2, 0.8, 0]), (5.0, [0, 0, 0, 0, 0, 1]), (0.25, [0.75, 0.25, 0, 0, 0, 0])],
)
def test_a_score_splits_its_mass_between_the_whole_numbers_around_it(score, expected):
    task = dataclasses.replace(task_of('similarity', score=(0, 5)), labels=tuple('012345'))
    assert inputs.target(Example('0', ('1', '2'), label=score), task) == pytest.approx(expected)


def test_targets_of_labels_choices_and_squared_scores():
    one = Example('0', ('1',), label=1)
    assert inputs.target(one, task_of('classify')) == [0, 1]
    choice = Example('0', ('1',), ('2', '3', '4'), label=2)
    assert inputs.target(choice, task_of('choice')) == [0, 0, 1]
    squared = dataclasses.replace(task_of('classify', score=(1, 7)), labels=('score',))
    assert inputs.target(Example('0', ('1',), label=5.5), squared) == [0.75]
    assert inputs.target(Example('0', ('1',)), squared) is None


@pytest.mark.parametrize(
    'examples, message',
    [
        ([Example('x7', ('1',), label=2)], 't: row x7: label 2 is out of range 0..1'),
        ([], 't: no examples'),
    ],
)
def test_a_label_out_of_range_and_no_examples_are_errors(examples, message):
    assert refusal(splits.encode_all, examples, task_of('classify'), DIGITS, 16).startswith(message)


def unpacked(rows):
    return [row._replace(sequences=list(map(list, row.sequences))) for row in rows]


def test_a_text_that_many_rows_share_is_tokenised_once():
    task = task_of('choice', segments=(2,), cut=0)
    tokenizer = Digits()
    examples = [Example(str(i), ('1' * 20, f'{i}'), ('5', '66'), 0) for i in range(4)]
    found = splits.encode_all(examples, task, tokenizer, 16)
    assert unpacked(found) == [inputs.encode(example, task, DIGITS, 16) for example in examples]
    assert tokenizer.asked.count('1' * 20) == 1


def test_many_texts_are_tokenized_by_several_processes_to_the_same_rows(monkeypatch):
    tokenizer = bpe_training.train(['the cat sat on the mat'], merges=20)
    task = task_of('classify')
    examples = [Example(str(i), (f'the cat {i} sat', 'on the mat'), label=0) for i in range(10)]
    expected = [inputs.encode(example, task, tokenizer, 64) for example in examples]
    monkeypatch.setattr(encode, 'WORTH_A_PROCESS', 50)
    monkeypatch.setattr(encode.os, 'sched_getaffinity', lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(splits, 'UNIT_TEXTS', 3)
    monkeypatch.setattr(Tokenizer, 'encode', None)  # of this process
    found = splits.encode_all(examples, task, tokenizer, 64)
    assert unpacked(found) == expected
    assert all(ids.itemsize == 4 for row in found for ids in row.sequences)  # of an int 36 bytes


# Splits


@dataclasses.dataclass(eq=False)
class Rows:
    """A source of these rows; `asked` counts how often they are read."""

    examples: tuple
    asked: list
    published: tuple = ()

    def files(self, directory):
        return []

    def rows(self, directory):
        self.asked.append('read')
        return (Row('a row', example) for example in self.examples)


def reading(asked, *examples, **fields):
    sources = dict.fromkeys(('train', 'dev', 'test'), Rows(examples, asked))
    return Task('t', 'classify', ('a', 'b'), ('accuracy',), sources, lambda one: one, **fields)


def load(task, split, digest='1'):
    return splits.load(task, 'd', split, DIGITS, 16, digest)


def test_a_limit_takes_the_same_rows_each_time_in_their_order():
    examples = list(range(100))
    chosen = splits.choose(examples, 10)
    assert len(set(chosen)) == 10 and chosen == sorted(chosen) == splits.choose(examples, 10)
    assert chosen != examples[:10] and splits.choose(examples, 200) == examples


def test_rows_are_read_once_until_their_files_change():
    asked = []
    task = reading(asked, Example('0', ('12',), label=1))
    first = load(task, 'train')
    assert load(task, 'train') is first and load(task, 'train', '2') is not first
    assert load(task, 'dev') and asked == ['read']


def test_a_missing_label_or_split_is_named_and_a_split_without_labels_needs_none():
    task = reading([], Example('x7', ('1',)), unlabelled=('test',))
    option = '--config.data.skip_bad=True leaves such rows out'
    assert refusal(load, task, 'dev') == f'a row: no label; {option}'
    assert load(task, 'test')[0].target is None
    assert refusal(splits.check_split, task, 'tets').startswith("t has no split 'tets'")
