"""Rows of a split: chosen once and for all seeds, read once in a process, bad ones named or counted."""
import warnings

import pytest

from gpt1_jax.data import splits
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError, fail


class Digits:
    start_id, delimiter_id, extract_id = 10, 11, 12

    def encode(self, text):
        return [int(c) for c in text if c.isdigit()]


DIGITS = Digits()
READ = []


def task_of(examples, **fields):
    def read(directory, split, on_bad=fail):
        READ.append(split)
        if on_bad is not fail:
            on_bad('a.tsv: row 3: empty')
        return examples
    return Task('t', 'classify', ('a', 'b'), ('accuracy',), ('train', 'dev'), read, None, **fields)


def test_a_limit_takes_the_same_rows_each_time_in_their_order():
    examples = list(range(100))
    chosen = splits.choose(examples, 10)
    assert len(set(chosen)) == 10 and chosen == sorted(chosen) == splits.choose(examples, 10)
    assert chosen != examples[:10] and set(chosen) < set(splits.choose(examples, 20))
    assert splits.choose(examples, None) == splits.choose(examples, 200) == examples


def test_rows_are_read_once_until_their_files_change():
    READ.clear()
    task = task_of([Example('0', ('12',), label=1)])
    first = splits.load(task, 'd', 'train', DIGITS, 16, {'a': '1'})
    assert splits.load(task, 'd', 'train', DIGITS, 16, {'a': '1'}) is first and READ == ['train']
    assert splits.load(task, 'd', 'train', DIGITS, 16, {'a': '2'}) is not first and READ == ['train'] * 2


def test_a_missing_label_names_the_row():
    with pytest.raises(UserError, match='t: row x7 has no label'):
        splits.load(task_of([Example('x7', ('1',))]), 'd', 'dev', DIGITS, 16, {})


def test_a_split_without_labels_needs_none():
    task = task_of([Example('x7', ('1',))], unlabelled=('test',))
    assert splits.load(task, 'd', 'test', DIGITS, 16, {})[0].target is None


def test_bad_rows_are_counted_where_the_user_wants_them_skipped(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        splits.load(task_of([Example('0', ('1',), label=0)]), 'd', 'dev', DIGITS, 16, {}, skip_bad=True)
    assert 't dev: 1 bad row(s) left out, the first: a.tsv: row 3: empty' in capsys.readouterr().out


def test_a_split_that_is_not_there_is_named():
    with pytest.raises(UserError, match=r"t has no split 'tets' \(there are train, dev\)"):
        splits.check_split(task_of([]), 'tets')
