"""JSON-lines files: appended, read, repaired after a kill."""

import os
import subprocess
import sys

import pytest

from gpt1_jax.errors import UserError
from gpt1_jax.runs import provenance, results
from tiny import ROOT


def test_rows_come_back_in_order_with_odd_characters(tmp_path):
    rows = [{'text': 'a\u2028b\x85c'}, {'text': '\u00e9'}]
    for row in rows:
        results.append(tmp_path / 'x.jsonl', row)
    assert results.read(tmp_path / 'x.jsonl') == rows


@pytest.mark.parametrize(
    'last, stays',
    [
        # The last as an editor may leave it
        (b'{"a": 2', False),
        (b'{"a": "caf\xc3', False),
        (b'{"a": 2}', True),
    ],
)
def test_a_line_cut_by_a_kill_is_left_out_and_overwritten_by_the_next(tmp_path, last, stays):
    path = tmp_path / 'x.jsonl'
    path.write_bytes(b'{"a": 1}\n' + last)
    assert results.read(path) == [{'a': 1}, {'a': 2}][: 1 + stays]
    results.append(path, {'a': 3})
    assert path.read_text() == '{"a": 1}\n' + '{"a": 2}\n' * stays + '{"a": 3}\n'


@pytest.mark.parametrize(
    'line, cause',
    [
        ('{"step": null}', 'step is None, expected a whole number'),
        ('{"loss": 1}', 'step is None'),
        ('[5]', 'list, expected an object'),
        ('[' * 200_000, 'not JSON'),
    ],
)
def test_a_damaged_row_is_named_with_its_line(tmp_path, line, cause):
    path = tmp_path / 'metrics.jsonl'
    path.write_text(f'{{"step": 1}}\n{line}\n')
    with pytest.raises(UserError, match=f'^{path}: line 2: {cause}'):
        results.Log(path, 1)
    assert path.read_text().startswith('{"step": 1}\n' + line)


def test_a_log_that_resumes_keeps_the_row_of_its_step_and_drops_later_rows(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    rows = [{'step': step, 'loss': 1.0 / step} for step in (1, 2, 3)]
    results.write(path, rows)
    results.Log(path, 2)
    assert results.read(path) == rows[:2]


def test_a_row_is_on_the_disk_when_append_returns(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, 'fsync', lambda number: flushed.append(os.pread(number, 100, 0)))
    results.append(tmp_path / 'x.jsonl', {'a': 1})
    assert flushed == [b'{"a": 1}\n']


def test_the_same_figure_is_not_written_twice_but_another_value_or_key_is(tmp_path):
    path = tmp_path / 'x.jsonl'
    row = {'kind': 'finetune', 'metric': 'accuracy', 'value': 0.5, 'seconds': 1}
    results.append_new(path, [row])
    results.append_new(path, [row | {'seconds': 2}, row | {'value': 0.6}])
    for key in ({'key': 'a'}, {}, {'key': 'b'}):
        results.append_new(path, [row | {'value': 0.7} | key])
    found = [(row['value'], row.get('key')) for row in results.read(path)]
    assert found == [(0.5, None), (0.6, None), (0.7, 'a'), (0.7, 'b')]


WRITER = """
import pathlib, sys
from gpt1_jax.runs import results
for i in range(300):
    results.append(pathlib.Path(sys.argv[1]), {'value': i, 'run': sys.argv[2]})
"""


def test_two_processes_append_to_one_file_and_no_row_is_lost(tmp_path):
    path = tmp_path / 'x.jsonl'
    started = [
        subprocess.Popen([sys.executable, '-c', WRITER, path, name], cwd=ROOT) for name in 'ab'
    ]
    assert [one.wait(timeout=300) for one in started] == [0, 0]
    for name in 'ab':
        assert [row['value'] for row in results.read(path) if row['run'] == name] == [*range(300)]


def test_a_new_module_makes_a_commit_dirty_and_a_file_elsewhere_does_not(tmp_path, monkeypatch):
    package = tmp_path / 'gpt1_jax'
    package.mkdir()
    monkeypatch.setattr(provenance, 'PACKAGE', package)
    who = 'git -c user.name=a -c user.email=b'
    for command in ('git init -q', f'{who} commit -q --allow-empty -m first'):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    (tmp_path / 'notes.txt').touch()
    commit = provenance.versions()['commit']
    (package / 'mine.py').touch()
    assert len(commit) == 40 and provenance.versions()['commit'] == f'{commit}+dirty'


def test_rows_are_not_appended_through_a_link_unless_the_user_named_it(tmp_path):
    (tmp_path / 'x.jsonl').symlink_to('victim')
    victim = tmp_path / 'victim'
    victim.write_text('{"a": 1}\n')
    refused = 'x.jsonl: is a link, and files of a run are not written through links'
    for append, row in ((results.append, {'value': 2}), (results.append_new, [{'value': 2}])):
        with pytest.raises(UserError, match=refused):
            append(tmp_path / 'x.jsonl', row)
    assert results.read(victim) == [{'a': 1}]
    results.append_new(tmp_path / 'x.jsonl', [{'value': 2}], follow=True)
    assert results.read(victim) == [{'a': 1}, {'value': 2}]


def test_a_file_of_no_bytes_is_named_and_may_be_continued(tmp_path, capsys):
    path = tmp_path / 'x.jsonl'
    path.touch()
    lost = 'is empty, 0 bytes, as after a crash: '
    with pytest.raises(UserError, match=f'x.jsonl: {lost}its rows are lost; delete it'):
        results.read(path)
    assert results.read(path, continued=True) == []
    results.append_new(path, [{'value': 1}])
    assert results.read(path) == [{'value': 1}]
    assert capsys.readouterr().out == f'notice: {path} {lost}rows that it had are lost\n'


def test_a_run_that_drops_all_its_rows_leaves_no_file_of_no_bytes(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    results.append(path, {'step': 3})
    log = results.Log(path, 0)
    assert not path.exists()
    log.append({'step': 1})
    assert results.read(path) == [{'step': 1}]
