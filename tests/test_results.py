"""JSON-lines files: appended, read, repaired after a kill."""
import pytest

from gpt1_jax import results
from gpt1_jax.errors import UserError


def test_rows_come_back_in_order_with_odd_characters(tmp_path):
    rows = [{'text': 'a\u2028b\x85c'}, {'text': '\u00e9'}]
    for row in rows:
        results.append(tmp_path / 'x.jsonl', row)
    assert results.read(tmp_path / 'x.jsonl') == rows


def test_a_line_cut_by_a_kill_is_left_out_and_overwritten_by_the_next(tmp_path):
    path = tmp_path / 'x.jsonl'
    path.write_text('{"a": 1}\n{"a": 2')
    assert results.read(path) == [{'a': 1}]
    results.append(path, {'a': 3})
    assert path.read_text() == '{"a": 1}\n{"a": 3}\n'


def test_a_long_cut_line_alone_in_its_file_is_removed(tmp_path):
    path = tmp_path / 'x.jsonl'
    path.write_text('{"a": "' + 'x' * 10_000)
    results.append(path, {'a': 3})
    assert results.read(path) == [{'a': 3}]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / 'x.jsonl').write_text('{"a": 1}\nnonsense\n')
    with pytest.raises(UserError, match='x.jsonl: line 2: not JSON'):
        results.read(tmp_path / 'x.jsonl')


def test_rewinding_drops_the_rows_after_the_step(tmp_path):
    for step in (1, 2, 3):
        results.append(tmp_path / 'x.jsonl', {'step': step})
    results.rewind(tmp_path / 'x.jsonl', 2)
    assert [row['step'] for row in results.read(tmp_path / 'x.jsonl')] == [1, 2]


def test_the_same_figure_is_not_written_twice_but_another_value_is(tmp_path):
    row = {'kind': 'finetune', 'metric': 'accuracy', 'value': 0.5, 'seconds': 1}
    results.append_new(tmp_path / 'x.jsonl', [row])
    results.append_new(tmp_path / 'x.jsonl', [row | {'seconds': 2}, row | {'value': 0.6}])
    assert [r['value'] for r in results.read(tmp_path / 'x.jsonl')] == [0.5, 0.6]


def test_a_file_that_cannot_be_hashed_is_named(tmp_path):
    with pytest.raises(UserError, match='absent.tsv: No such file'):
        results.file_hashes([tmp_path / 'absent.tsv'])
