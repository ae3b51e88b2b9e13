"""Pretraining is exact after any interruption, and its messages are right."""

import shutil

import jax
import numpy as np
import pytest
from gpt1_jax.configs.pretrain import warmup_steps

from event_files import points, points_of
from gpt1_jax import pretraining, verify
from gpt1_jax.data.prepared import open_split
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import checkpoint, results, workdir
from gpt1_jax.training import profiling
from interruptions import power_cut, sigterm
from short_runs import arrays, losses, rows
from tiny import corpus, pretrain_config


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('pretrain') / 'text')


@pytest.fixture(scope='module')
def other_tokens(text, tmp_path_factory):
    """The text, prepared with another vocabulary."""
    directory = tmp_path_factory.mktemp('other') / 'tokens'
    prepare(directory, str(text), 0.2, merges=50, processes=1)
    return directory


@pytest.fixture(scope='module')
def straight(text, tmp_path_factory, fusion_emitters):
    return pretraining.run(
        pretrain_config(text, tensorboard=True), tmp_path_factory.mktemp('straight') / 'run'
    )


def test_a_run_learns_and_leaves_its_directory_complete(straight):
    valid = [row['valid_loss'] for row in rows(straight) if 'valid_loss' in row]
    assert losses(straight)[-1][0] == 30 and len(valid) == 3
    assert valid[-1] < valid[0] < np.log(straight.config['model']['vocab_size']) + 0.5
    assert {p.name for p in straight.path.iterdir()} == {
        'config.json',
        'parameters.txt',
        'environment.jsonl',
        'tokenizer',
        'tokens',
        'checkpoints',
        'metrics.jsonl',
        'tensorboard',
    }
    assert checkpoint.steps(straight.checkpoints)[-1] == 30


def test_the_checkpoint_of_the_lowest_validation_loss_is_the_best(straight):
    valid = {row['step']: row['valid_loss'] for row in rows(straight) if 'valid_loss' in row}
    assert checkpoint.best_step(straight.checkpoints) == min(valid, key=valid.get)
    assert max(valid, key=valid.get) not in checkpoint.steps(straight.checkpoints)


def test_fifteen_steps_with_resident_tokens_a_restart_and_fifteen_without_are_thirty_to_the_bit(
    text, straight, tmp_path, capsys
):
    config = pretrain_config(text, tensorboard=True, data__resident='yes')
    with power_cut(15):
        pretraining.run(config, tmp_path / 'run')
    assert '; tokens on each device, 0.0 MiB' in capsys.readouterr().out
    assert checkpoint.steps(tmp_path / 'run' / 'checkpoints')[-1] == 15
    run = pretraining.run(pretrain_config(text, tensorboard=True), tmp_path / 'run')
    assert '; tokens read a step ahead' in capsys.readouterr().out
    assert arrays(run, 30) == arrays(straight, 30) and losses(run) == losses(straight)
    assert [row['step'] for row in results.read(run.path / 'environment.jsonl')] == [0, 15]
    for one in (run, straight):
        assert points(one.path / 'tensorboard') == points_of(results.read(one.metrics))


def test_a_run_stopped_between_two_rows_and_continued_has_the_rows_of_one_that_was_not(
    text, straight, tmp_path
):
    config = pretrain_config(text, tensorboard=True)
    for step in (12, 14):  # asked to stop one step before
        with sigterm(step - 1):
            pretraining.run(config, tmp_path / 'run')
        run = workdir.load(tmp_path / 'run')
        assert run.steps()[-1] == step and [step for step, _ in losses(run)] == [5, 10]
    pretraining.run(config, tmp_path / 'run')
    assert rows(run) == rows(straight)
    assert points(run.path / 'tensorboard') == points_of(results.read(run.metrics))


@pytest.mark.parametrize(
    'fields, allow, message',
    [
        ({'batch__size': 16}, False, r'another run \(batch.size: 8 -> 16\): use a new --workdir'),
        ({'seed': 1}, True, 'another run .seed: 0 -> 1.: use a new'),
        ({'train__steps': 32}, False, r'train.steps: 30 -> 32\): give --allow_change'),
        ({'train__steps': 20}, True, 'run: step 30 is there already: .* at least 30 steps, not 20'),
        (
            {'optimizer__peak_rate': 0.02},
            True,
            'run: the run is finished, nothing .* .optimizer.peak_rate: 0.01 -> 0.02.: ',
        ),
        (
            {'data__tokens': 'OTHER', 'data__corpus': ''},
            True,
            'run .the vocabulary has other contents',
        ),
    ],
)
def test_what_a_run_there_refuses_is_also_said_by_a_dry_run_and_recorded_nowhere(
    text, straight, other_tokens, tmp_path, fields, allow, message
):
    shutil.copytree(straight.path, tmp_path / 'run')
    if 'data__tokens' in fields:
        fields = fields | {'data__tokens': str(other_tokens)}
    for dry_run in (True, False):
        with pytest.raises(UserError, match=message):
            pretraining.run(pretrain_config(text, **fields), tmp_path / 'run', allow, dry_run)
    assert workdir.load(tmp_path / 'run').config == workdir.load(straight.path).config


@pytest.mark.parametrize(
    'given, total, found',
    [(None, 1_000_000, 2000), (None, 20_000, 2000), (None, 30, 3), (None, 9, 0), (500, 300, 500)],
)
def test_a_warm_up_left_open_is_the_paper_s_and_at_most_a_tenth_of_the_run(given, total, found):
    assert warmup_steps(given, total) == found
    config = pretrain_config('', optimizer__warmup_steps=given)
    assert pretraining.hyperparameters(config, total)['warmup'] == found


def test_a_warm_up_left_open_is_recorded_and_stays_when_the_run_goes_on(text, tmp_path):
    for steps in (10, 20):
        config = pretrain_config(text, train__steps=steps, optimizer__warmup_steps=None)
        run = pretraining.run(config, tmp_path / 'run', allow_change=True)
        assert workdir.load(run.path).config['optimizer']['warmup_steps'] == 1


def test_init_from_takes_the_weights_and_a_fresh_schedule_and_wants_their_tokenizer(
    straight, other_tokens, tmp_path
):
    run = pretraining.run(begun_from(straight, straight.path), tmp_path / 'run')
    # The first update's rate is zero (warm-up from zero), so the weights are still the other run's.
    assert arrays(run, 1)['params'] == arrays(straight, 30)['params']
    assert arrays(run, 1)['opt_state'] != arrays(straight, 30)['opt_state']
    config = begun_from(straight, straight.path, data__tokens=str(other_tokens))
    with pytest.raises(UserError, match='its tokenizer is another one'):
        pretraining.run(config, tmp_path / 'other')


def begun_from(straight, origin, **overrides):
    """The config of a run of one step on the tokens of `straight`."""
    given = {'data__tokens': str(straight.path / 'tokens'), 'train__steps': 1} | overrides
    return pretrain_config('', init_from=origin and str(origin), **given)


def test_a_run_goes_on_from_the_weights_that_it_began_with_alone(straight, tmp_path):
    def refused(directory, *given, **overrides):
        message = 'holds another run .the checkpoint that training began with has'
        with pytest.raises(UserError, match=message):
            pretraining.run(begun_from(straight, *given, **overrides), directory)

    origin = shutil.copytree(straight.path, tmp_path / 'origin')
    run = pretraining.run(begun_from(straight, origin), tmp_path / 'run')
    refused(run.path, None)
    refused(run.path, origin, init_step=straight.steps()[0])
    killed = shutil.copytree(run.path, tmp_path / 'killed')
    shutil.rmtree(killed / 'checkpoints')
    shutil.rmtree(origin / 'checkpoints' / '30')  # its latest weights are others now
    refused(killed, origin)  # it would begin with them
    shutil.rmtree(origin)
    config = begun_from(straight, f'{tmp_path}/./origin/', train__steps=2)
    longer = pretraining.run(config, run.path, allow_change=True)
    assert longer.steps()[-1] == 2 and longer.config['fingerprint'] == run.config['fingerprint']


@pytest.mark.parametrize(
    'fields, rows',
    [({'batch__size': 16, 'batch__microbatches': 2}, 8), ({'eval__batch_size': 3}, 3)],
)
def test_validation_reads_no_more_windows_at_once_than_training(
    straight, tmp_path, monkeypatch, fields, rows
):
    """Or a run that fits could fail at its first validation, before anything is saved."""

    def stop(model, mesh, valid, windows, rows, *more):
        raise UserError(f'{rows} rows')

    monkeypatch.setattr(pretraining.validation, 'mean_loss', stop)
    with pytest.raises(UserError, match=f'^{rows} rows'):
        pretraining.run(
            begun_from(straight, None, **{'eval__batch_size': 64} | fields), tmp_path / 'run'
        )


@pytest.mark.full
def test_epochs_end_at_a_whole_update_which_is_saved(straight, tmp_path):
    windows = open_split(straight.path / 'tokens', 'train').n_windows(16)
    size = windows * 2 // 3 // 8 * 8  # an epoch is about one and a half updates
    fields = {'train__steps': None, 'train__epochs': 1, 'batch__size': size}
    run = pretraining.run(begun_from(straight, None, **fields), tmp_path / 'run')
    assert windows % size and run.progress() == (1, 1) and type(run.progress()[1]) is int


def test_a_dry_run_reports_sizes_time_and_a_long_warm_up_and_trains_nothing(text, tmp_path, capsys):
    config = pretrain_config(text, optimizer__warmup_steps=4)
    assert pretraining.run(config, tmp_path / 'run', dry_run=True) is None
    shown = capsys.readouterr().out
    expected = 'documents; 30 steps of 8 x 16; tokens/s over three steps; more than a tenth'
    for part in (*expected.split('; '), 'parameters', 'a unigram model'):
        assert part in shown
    assert not (tmp_path / 'run' / 'checkpoints').exists()


def test_a_dry_run_of_a_step_that_does_not_fit_says_what_it_needs(straight, tmp_path, monkeypatch):
    monkeypatch.setattr(profiling, 'free_memory', lambda mesh: 1000)
    monkeypatch.setattr(jax, 'block_until_ready', None)  # no step runs
    config = pretrain_config('', data__tokens=str(straight.path / 'tokens'))
    with pytest.raises(UserError, match=r'^a step needs 0.0 GiB, more than a device has free'):
        pretraining.run(config, tmp_path / 'run', dry_run=True)
    assert not (tmp_path / 'run').exists()


def test_fallback_ends_as_if_nothing_had_been_damaged(text, straight, tmp_path, capsys):
    directory = shutil.copytree(straight.path, tmp_path / 'run')
    (directory / 'checkpoints' / '30' / 'opt_state' / 'manifest.ocdbt').unlink()
    with pytest.raises(UserError, match='30: opt_state is damaged .*--fallback resumes'):
        pretraining.run(pretrain_config(text), directory)
    run = pretraining.run(pretrain_config(text), directory, fallback=True)
    assert f'step {straight.steps()[-2]} of 30: resuming' in capsys.readouterr().out
    pretraining.run(pretrain_config(text), directory)
    assert 'step 30 of 30: finished' in capsys.readouterr().out
    assert arrays(run, 30) == arrays(straight, 30) and losses(run) == losses(straight)
    assert (run.checkpoints / '30.damaged').is_dir() and run.steps() == straight.steps()


@pytest.mark.parametrize(
    'fields, message',
    [
        (
            dict(model__n_embd=100, model__n_head=3, model__resid_dropout=1.0, model__dtype='f2'),
            r'model.dtype is .f2., must be .*; model.resid_dropout is 1.0, must be',
        ),
        (dict(init_from='RUN'), 'give --config.tokenizer.source=RUN$'),
        (
            dict(init_from='RUN', tokenizer__source='RUN', model__n_ctx=32),
            'model.n_ctx is 32, that of RUN is 16$',
        ),
    ],
)
def test_a_mistake_is_named_before_the_text_is_read(straight, tmp_path, fields, message):
    place = str(straight.path)
    there = {name: place for name, value in fields.items() if value == 'RUN'}
    with pytest.raises(UserError, match=message.replace('RUN', place)):
        pretraining.run(pretrain_config('no such corpus', **fields | there), tmp_path / 'run')
    assert not [*tmp_path.glob('run/*')]


def test_steps_that_were_kept_for_good_stay_without_the_flag_and_those_never_saved_are_named(
    text, straight, tmp_path, capsys
):
    shutil.copytree(straight.path, tmp_path / 'run')
    config = pretrain_config(text, train__steps=31, checkpoint__keep_steps=(12, 25, 31))
    one = pretraining.run(config, tmp_path / 'run', allow_change=True)
    notice = 'notice: not kept, as the run has made them without saving them: 12\n'
    assert notice in capsys.readouterr().out
    other = pretraining.run(pretrain_config(text, train__steps=45), one.path, allow_change=True)
    assert {25, 31} <= {*other.steps()} and other.config['checkpoint']['keep_steps'] == (25, 31)


def test_a_finished_run_takes_another_evaluation(text, straight, tmp_path):
    shutil.copytree(straight.path, tmp_path / 'run')
    run = pretraining.run(pretrain_config(text, eval__windows=8), tmp_path / 'run', True)
    assert run.config['eval']['windows'] == 8
    verify.run(run.path)  # raises if config.json differs from the trained config


def test_a_run_that_made_no_step_may_become_another_one(
    straight, other_tokens, tmp_path, monkeypatch
):
    monkeypatch.setattr(pretraining.loop, 'fit', None)
    for tokens, seed in ((straight.path / 'tokens', 0), (other_tokens, 1)):
        with pytest.raises(TypeError):
            pretraining.run(
                pretrain_config('', data__tokens=str(tokens), seed=seed), tmp_path / 'run'
            )
    run = workdir.load(tmp_path / 'run')
    assert run.config['seed'] == 1
    assert run.tokenizer() == Tokenizer.load(other_tokens / 'tokenizer')


def test_a_run_goes_on_without_the_text_or_the_vocabulary_that_are_no_more_what_they_were(
    text, straight, tmp_path
):
    run = shutil.copytree(straight.path, tmp_path / 'run')
    more = shutil.copytree(text, tmp_path / 'more')
    (more / 'new.txt').write_text('A new file.')
    gone = {'tokenizer__source': 'gone'}
    for books, fields, message in (
        (
            more,
            {},
            'run continues .* config.data.corpus is left out; other text needs a new --work',
        ),
        (text, gone, 'tokenizer.source: gone: no .*: leave config.data.corpus out to continue'),
    ):
        with pytest.raises(UserError, match=message):
            pretraining.run(pretrain_config(books, **fields), run)
    longer = pretraining.run(pretrain_config('', train__steps=31, **gone), run, True)
    assert longer.steps()[-1] == 31


@pytest.mark.parametrize('processes, books', [(1, ''), (2, 'books')])
def test_text_that_is_missing_is_asked_for(tmp_path, monkeypatch, processes, books):
    monkeypatch.setattr(pretraining.jax, 'process_count', lambda: processes)
    message = r'give config.data.corpus, .* \(with several processes always\) config.data.tokens'
    with pytest.raises(UserError, match=f'run/tokens: no prepared text there: {message}'):
        pretraining.run(pretrain_config(books), tmp_path / 'run')
