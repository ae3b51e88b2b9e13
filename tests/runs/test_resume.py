"""A run goes on at the newest checkpoint, or with fallback at the newest sound checkpoint, and a
line says so."""

import json
import shutil
from unittest import mock

import jax
import pytest

from gpt1_jax import pretraining
from gpt1_jax.errors import UserError
from gpt1_jax.runs import checkpoint, results, workdir
from gpt1_jax.runs.checkpoint import CheckpointError
from gpt1_jax.runs.session import resume
from saved import flip, same, saved
from tiny import corpus, override, pretrain_config


@pytest.fixture
def four(tmp_path):
    """Steps 1 to 4 of a run: (directory, program, {step: arrays})."""
    return tmp_path, *saved(tmp_path, 4, keep_latest=4)


def test_the_newest_step_is_taken_without_a_word_where_nothing_changed(four, capsys):
    directory, program, history = four
    for fallback in (False, True):
        state = resume(directory, program.state, fallback)
        assert int(state.step) == 4 and same(state, history[4])
    assert capsys.readouterr().out == ''


def test_a_damaged_newest_step_stops_the_run_and_is_passed_over_and_set_aside_where_asked(
    four, capsys
):
    directory, program, history = four
    (directory / '4' / 'params' / 'manifest.ocdbt').unlink()
    said = (
        r'4: params.* is damaged.*; other steps there: 1, 2, 3: --fallback resumes from the newest'
    )
    with pytest.raises(CheckpointError, match=said):
        resume(directory, program.state)
    assert checkpoint.steps(directory) == [1, 2, 3, 4]
    (directory / '3' / 'meta' / 'data.json').unlink()
    state = resume(directory, program.state, fallback=True)
    assert int(state.step) == 2 and same(state, history[2])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith('passed over step 4, kept as 4.damaged: params')
    assert second.startswith('passed over step 3, kept as 3.damaged: meta is damaged (')
    assert sorted(p.name for p in directory.iterdir()) == ['1', '2', '3.damaged', '4.damaged']


def test_nothing_is_renamed_where_no_step_is_sound(four):
    directory, program, _ = four
    for step in range(1, 5):
        flip(directory / str(step) / 'meta' / 'data.json')
    with pytest.raises(CheckpointError, match='none of its steps is sound: 4: meta .*; 1: meta'):
        resume(directory, program.state, fallback=True)
    assert checkpoint.steps(directory) == [1, 2, 3, 4]


def test_other_versions_and_flags_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('XLA_FLAGS', '--b=1 --a=2')
    monkeypatch.setattr(jax, '__version__', '0.1')
    program, _ = saved(tmp_path)
    assert checkpoint.read_meta(tmp_path, 3)['environment']['XLA_FLAGS'] == '--a=2 --b=1'
    monkeypatch.undo()
    monkeypatch.setenv('XLA_FLAGS', '--a=2')
    resume(tmp_path, program.state)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f': jax 0.1 -> {jax.__version__}, XLA_FLAGS --a=2 --b=1 -> --a=2')


@pytest.fixture(scope='module')
def stopped(tmp_path_factory):
    """(config, directory) of a run that was stopped after 4 of 6 steps, with a row a step."""
    base = tmp_path_factory.mktemp('run')
    config = pretrain_config(corpus(base / 'text'), train__steps=4, log_every=1)
    return config, pretraining.run(config, base / 'run').path


@pytest.fixture
def run(stopped, tmp_path):
    """(directory, function that goes on to step 6) of a copy of the run."""
    copy = shutil.copytree(stopped[1], tmp_path / 'run')

    def go_on(**fields):
        config = override(stopped[0].copy_and_resolve_references(), {'train__steps': 6} | fields)
        return pretraining.run(config, copy, allow_change=True)

    return copy, go_on


@pytest.mark.parametrize('rows, missing', [(4, None), (2, '3 to 4'), (0, '1 to 4')])
def test_missing_rows_are_reported(run, rows, missing, capsys):
    copy, go_on = run
    found = [row for row in results.read(copy / 'metrics.jsonl') if 'loss' in row]
    (copy / 'metrics.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in found[:rows]))
    go_on()
    notices = [line for line in capsys.readouterr().out.splitlines() if line.startswith('notice:')]
    said = [f'notice: {copy}/metrics.jsonl has no rows for steps {missing}'] if missing else []
    assert notices == said


def test_settings_are_not_recorded_before_the_checkpoint_is_read(run):
    copy, go_on = run
    before = (copy / 'config.json').read_bytes()
    (copy / 'checkpoints' / '4' / 'params' / 'manifest.ocdbt').unlink()
    with pytest.raises(CheckpointError, match='4: params is damaged'):
        go_on()
    assert (copy / 'config.json').read_bytes() == before


@pytest.mark.full
def test_a_profile_after_the_end_is_refused(run):
    with pytest.raises(UserError, match='^config.profile = 6:9 cannot be recorded: .* at 6$'):
        run[1](profile='6:9')


@pytest.mark.full
def test_what_a_resumed_run_has_left_of_a_profile_is_recorded(run):
    """As after a kill before the trace was written."""
    copy, go_on = run
    go_on(profile='2:5')
    assert list((copy / 'profile').rglob('*.xplane.pb'))


@pytest.mark.parametrize('new', [True, False])
def test_a_process_killed_before_it_writes_its_config_can_be_started_again(run, monkeypatch, new):
    copy, go_on = run
    if new:
        shutil.rmtree(copy)
    with monkeypatch.context() as patch:
        patch.setattr(workdir, 'write_config', mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            go_on()
    assert go_on().step() == 6


def test_a_run_whose_checkpoints_are_gone_starts_again_and_says_so(run, capsys):
    copy, go_on = run
    shutil.rmtree(copy / 'checkpoints')
    go_on()
    said = 'rows up to step 4, but no checkpoint is there: starting again at 0'
    assert said in capsys.readouterr().out
