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


def test_a_line_cut_inside_a_character_is_left_out_too(tmp_path):
    path = tmp_path / 'x.jsonl'
    path.write_bytes(b'{"a": 1}\n{"a": "caf\xc3')
    assert results.read(path) == [{'a': 1}]


@pytest.mark.parametrize('line, cause', [
    (b'nonsense', 'not JSON .Expecting value'), (b'"caf\xe9"', 'not UTF-8 at its byte 4'),
    (b'[1]', 'list, expected an'), (b'7', 'int, expected an object'),
    pytest.param(b'[' * 100_000, 'not JSON .maximum recursion', id='deep'),
    pytest.param(b'{"a": ' + b'9' * 4301 + b'}', 'not JSON .Exceeds the limit', id='digits')])
def test_a_damaged_line_is_named(tmp_path, line, cause):
    (tmp_path / 'x.jsonl').write_bytes(b'{"a": 1}\n' + line + b'\n')
    with pytest.raises(UserError, match=f'x.jsonl: line 2: {cause}'):
        results.read(tmp_path / 'x.jsonl')


def test_half_a_character_comes_back_as_it_was(tmp_path):
    row = {'id': 'caf\udce9', 'text': '\ud800 é'}
    results.append(tmp_path / 'x.jsonl', row)
    results.write(tmp_path / 'y.jsonl', [row])
    assert results.read(tmp_path / 'x.jsonl') == results.read(tmp_path / 'y.jsonl') == [row]


def test_a_directory_in_place_of_the_file_is_named(tmp_path):
    for function in (results.read, lambda path: results.append(path, {'a': 1}), results.check):
        with pytest.raises(UserError, match=f'{tmp_path}: .*directory'):
            function(tmp_path)


def test_where_nothing_could_be_appended_is_told_before(tmp_path):
    results.check(None)
    results.check(tmp_path / 'x.jsonl')
    with pytest.raises(UserError, match='no/x.jsonl: there is no directory .*no'):
        results.check(tmp_path / 'no' / 'x.jsonl')
    with pytest.raises(UserError, match='File name too long'):
        results.check(tmp_path / ('x' * 300))


def test_a_row_too_deep_to_be_compared_is_named(tmp_path):
    for depth in range(900, 1000):
        (tmp_path / 'x.jsonl').write_text('{"files": ' + '[' * depth + ']' * depth + '}\n')
        try:
            results.append_new(tmp_path / 'x.jsonl', [{'a': 1}])
        except UserError as error:
            assert 'x.jsonl: ' in str(error)


def test_rewinding_names_a_step_that_is_none(tmp_path):
    (tmp_path / 'x.jsonl').write_text('{"step": 1}\n{"step": [2]}\n')
    with pytest.raises(UserError, match=r'x.jsonl: line 2: step \[2\] is not a number'):
        results.Log(tmp_path / 'x.jsonl', 1)


def test_rewinding_drops_the_rows_after_the_step(tmp_path):
    for step in (1, 2, 3):
        results.append(tmp_path / 'x.jsonl', {'step': step})
    results.Log(tmp_path / 'x.jsonl', 2)
    assert [row['step'] for row in results.read(tmp_path / 'x.jsonl')] == [1, 2]


def test_the_same_figure_is_not_written_twice_but_another_value_is(tmp_path):
    row = {'kind': 'finetune', 'metric': 'accuracy', 'value': 0.5, 'seconds': 1}
    results.append_new(tmp_path / 'x.jsonl', [row])
    results.append_new(tmp_path / 'x.jsonl', [row | {'seconds': 2}, row | {'value': 0.6}])
    assert [r['value'] for r in results.read(tmp_path / 'x.jsonl')] == [0.5, 0.6]


def test_a_file_that_cannot_be_hashed_is_named(tmp_path):
    with pytest.raises(UserError, match='absent.tsv: No such file'):
        results.file_hashes([tmp_path / 'absent.tsv'])
