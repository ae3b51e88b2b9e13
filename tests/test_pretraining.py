"""Pretraining is exact after any interruption, and its messages are right."""

import json
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
    with power_cut(15):
        pretraining.run(
            pretrain_config(text, tensorboard=True, data__resident='yes'), tmp_path / 'run'
        )
    assert '; tokens on each device, 0.0 MiB' in capsys.readouterr().out
    assert checkpoint.steps(tmp_path / 'run' / 'checkpoints')[-1] == 15
    run = pretraining.run(pretrain_config(text, tensorboard=True), tmp_path / 'run')
    assert '; tokens read a step ahead' in capsys.readouterr().out
    assert arrays(run, 30) == arrays(straight, 30)
    assert losses(run) == losses(straight)
    assert [row['step'] for row in results.read(run.path / 'environment.jsonl')] == [0, 15]
    for one in (run, straight):
        assert points(one.path / 'tensorboard') == points_of(results.read(one.metrics))


def test_a_run_stopped_between_two_rows_and_continued_has_the_rows_of_one_that_was_not(
    text, straight, tmp_path
):
    for step in (12, 14):  # asked to stop one step before
        with sigterm(step - 1):
            pretraining.run(pretrain_config(text, tensorboard=True), tmp_path / 'run')
        run = workdir.load(tmp_path / 'run')
        assert run.steps()[-1] == step and [step for step, _ in losses(run)] == [5, 10]
    run = pretraining.run(pretrain_config(text, tensorboard=True), tmp_path / 'run')
    assert rows(run) == rows(straight)
    assert points(run.path / 'tensorboard') == points_of(results.read(run.metrics))


def test_another_batch_size_in_the_same_directory_is_refused_by_name_and_another_length_wants_allow_change(
    text, straight, tmp_path
):
    shutil.copytree(straight.path, tmp_path / 'copy')
    for change, message in (
        (
            {'batch__size': 16},
            r'another run \(batch.size: 8 -> 16\): use a '
            r'new --workdir',
        ),
        (
            {'train__steps': 32},
            r'train.steps: 30 -> 32\): give '
            r'--allow_change',
        ),
    ):
        with pytest.raises(UserError, match=message):
            pretraining.run(pretrain_config(text, **change), tmp_path / 'copy')
    run = pretraining.run(
        pretrain_config(text, train__steps=32), tmp_path / 'copy', allow_change=True
    )
    assert run.steps()[-1] == 32


@pytest.mark.parametrize(
    'given, total, found',
    [(None, 1_000_000, 2000), (None, 20_000, 2000), (None, 30, 3), (None, 9, 0), (500, 300, 500)],
)
def test_a_warm_up_left_open_is_the_paper_s_and_at_most_a_tenth_of_the_run(given, total, found):
    assert warmup_steps(given, total) == found
    config = pretrain_config('', optimizer__warmup_steps=given)
    assert pretraining.hyperparameters(config, total)['warmup'] == found


def test_a_warm_up_left_open_is_recorded_and_stays_when_the_run_goes_on(text, straight, tmp_path):
    def run(steps, **how):
        config = pretrain_config(text, train__steps=steps, optimizer__warmup_steps=None)
        run = pretraining.run(config, tmp_path / 'run', **how)
        assert workdir.load(run.path).config['optimizer']['warmup_steps'] == 3
        return run

    with power_cut(15):
        run(30)
    assert arrays(run(30), 30) == arrays(straight, 30)
    run(40, allow_change=True)


@pytest.mark.full
def test_microbatches_mesh_and_logging_may_change_freely(text, straight, tmp_path, capsys):
    shutil.copytree(straight.path, tmp_path / 'copy')
    shutil.rmtree(tmp_path / 'copy' / 'checkpoints' / '30')
    run = pretraining.run(
        pretrain_config(
            text, mesh__data=2, mesh__fsdp=2, mesh__tensor=2, batch__microbatches=2, log_every=7
        ),
        tmp_path / 'copy',
    )
    shown = capsys.readouterr().out
    assert 'results match up to rounding: mesh ' in shown and 'step 25 of 30: resuming' in shown
    last, expected = (results.read(one.metrics)[-1] for one in (run, straight))
    assert last['step'] == expected['step'] == 30
    assert last['valid_loss'] == pytest.approx(expected['valid_loss'], rel=2e-5)


def test_init_from_takes_the_weights_and_a_fresh_schedule_and_wants_their_tokenizer(
    text, straight, tmp_path
):
    config = pretrain_config(
        text,
        init_from=str(straight.path),
        train__steps=1,
        optimizer__warmup_steps=1,
        tokenizer__source=str(straight.path / 'tokenizer'),
    )
    run = pretraining.run(config, tmp_path / 'run')
    # The first update's rate is zero (warm-up from zero), so the weights are still the other run's.
    assert arrays(run, 1)['params'] == arrays(straight, 30)['params']
    assert arrays(run, 1)['opt_state'] != arrays(straight, 30)['opt_state']
    prepare(tmp_path / 'other' / 'tokens', str(text), 0.2, merges=50, processes=1)
    with pytest.raises(UserError, match='its tokenizer is another one'):
        pretraining.run(
            pretrain_config(text, init_from=str(straight.path), tokenizer__merges=50),
            tmp_path / 'other',
        )


def test_a_run_goes_on_from_the_weights_that_it_began_with_alone(straight, tmp_path):
    def config(origin, steps=1, **overrides):
        return pretrain_config(
            '',
            data__tokens=str(straight.path / 'tokens'),
            train__steps=steps,
            init_from=origin,
            **overrides,
        )

    def refused(directory, *given, **overrides):
        with pytest.raises(
            UserError, match='holds another run .the checkpoint that training began with has'
        ):
            pretraining.run(config(*given, **overrides), directory)

    origin = shutil.copytree(straight.path, tmp_path / 'origin')
    run = pretraining.run(config(str(origin)), tmp_path / 'run')
    recorded = json.loads((run.path / 'config.json').read_text())
    refused(run.path, None)
    refused(run.path, str(origin), init_step=straight.steps()[0])
    shutil.copytree(run.path, tmp_path / 'killed')
    shutil.rmtree(tmp_path / 'killed' / 'checkpoints')
    shutil.rmtree(origin / 'checkpoints' / '30')  # its latest weights are others now
    refused(tmp_path / 'killed', str(origin))  # it would begin with them
    shutil.rmtree(origin)
    pretraining.run(config(f'{tmp_path}/./origin/', steps=2), run.path, allow_change=True)
    assert (
        run.steps()[-1] == 2
        and json.loads((run.path / 'config.json').read_text())['fingerprint']
        == (recorded['fingerprint'])
    )
    refused(pretraining.run(config(None), tmp_path / 'scratch').path, str(straight.path))


def test_validation_reads_no_more_windows_at_once_than_training(text, tmp_path, monkeypatch):
    """Or a run that fits could fail at its first validation, before anything is saved."""
    asked = []
    mean_loss = pretraining.validation.mean_loss
    monkeypatch.setattr(
        pretraining.validation,
        'mean_loss',
        lambda model, mesh, valid, windows, rows, *more: (
            asked.append(rows) or mean_loss(model, mesh, valid, windows, rows, *more)
        ),
    )
    for changes in ({'batch__size': 16, 'batch__microbatches': 2}, {'eval__batch_size': 3}):
        pretraining.run(
            pretrain_config(text, train__steps=1, **{'eval__batch_size': 64} | changes),
            tmp_path / str(asked),
        )
    assert asked == [8, 3]


def test_epochs_end_at_a_whole_update_which_is_saved(straight, tmp_path):
    tokens = straight.path / 'tokens'
    windows = open_split(tokens, 'train').n_windows(16)
    size = windows * 2 // 3 // 8 * 8  # an epoch is about one and a half updates
    run = pretraining.run(
        pretrain_config(
            '', data__tokens=str(tokens), train__steps=None, train__epochs=1, batch__size=size
        ),
        tmp_path / 'run',
    )
    assert windows % size and run.progress() == (1, 1) and type(run.progress()[1]) is int


def test_a_dry_run_reports_sizes_time_and_a_long_warm_up_and_trains_nothing(text, tmp_path, capsys):
    assert (
        pretraining.run(
            pretrain_config(text, optimizer__warmup_steps=4), tmp_path / 'run', dry_run=True
        )
        is None
    )
    shown = capsys.readouterr().out
    for part in (
        'documents',
        '30 steps of 8 x 16',
        'tokens/s over three steps',
        'more than a tenth',
        'parameters',
        'a unigram model',
    ):
        assert part in shown
    assert not (tmp_path / 'run' / 'checkpoints').exists()


def test_a_dry_run_of_a_step_that_does_not_fit_says_what_it_needs(
    straight, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(profiling, 'free_memory', lambda mesh: 1000)
    monkeypatch.setattr(jax, 'block_until_ready', None)  # no step runs
    config = pretrain_config('', data__tokens=str(straight.path / 'tokens'))
    assert (
        pretraining.run(config, tmp_path / 'run', dry_run=True) is None
        and not (tmp_path / 'run').exists()
    )
    assert (
        'more than a device has free (0.0 GiB), and was not run. 30 steps'
        in capsys.readouterr().out
    )


def test_fallback_ends_as_if_nothing_had_been_damaged(text, straight, tmp_path, capsys):
    shutil.copytree(straight.path, tmp_path / 'run')
    kept = checkpoint.steps(tmp_path / 'run' / 'checkpoints')
    (tmp_path / 'run' / 'checkpoints' / '30' / 'opt_state' / 'manifest.ocdbt').unlink()
    with pytest.raises(UserError, match='30: opt_state is damaged .*--fallback resumes'):
        pretraining.run(pretrain_config(text), tmp_path / 'run')
    run = pretraining.run(pretrain_config(text), tmp_path / 'run', fallback=True)
    assert f'step {kept[-2]} of 30: resuming' in capsys.readouterr().out
    pretraining.run(pretrain_config(text), tmp_path / 'run')
    assert 'step 30 of 30: finished' in capsys.readouterr().out
    assert arrays(run, 30) == arrays(straight, 30) and losses(run) == losses(straight)
    assert (run.checkpoints / '30.damaged').is_dir() and run.steps() == kept


def test_a_mistake_is_named_before_the_text_is_read(text, straight, tmp_path):
    bad = dict(model__n_embd=100, model__n_head=3, model__resid_dropout=1.0, model__dtype='float16')
    tuned = tmp_path / 'tuned'
    left = []
    tuned.mkdir()
    (tuned / 'config.json').write_text(json.dumps(straight.config | {'kind': 'finetune'}))
    for directory, overrides, message in (
        (
            tmp_path / 'run',
            bad,
            r'model.dtype is .float16., must be .*; model.resid_dropout is 1.0, must be',
        ),
        (tuned, {}, 'tuned holds a fine-tuning run: use a new --workdir$'),
        (
            tmp_path / 'run',
            dict(init_from=str(straight.path)),
            f'give --config.tokenizer.source={straight.path}$',
        ),
    ):
        with pytest.raises(UserError, match=message):
            pretraining.run(pretrain_config(text, **overrides), directory)
        left.append([file.name for file in directory.glob('*')])
    assert left[:2] == [[], ['config.json']] and 'tokens' not in left[2]


def test_checkpoints_that_were_kept_for_good_stay_when_the_run_goes_on_without_the_flag(
    text, straight, tmp_path
):
    shutil.copytree(straight.path, tmp_path / 'run')
    one = pretraining.run(
        pretrain_config(text, train__steps=31, checkpoint__keep_steps=(25, 31)),
        tmp_path / 'run',
        True,
    )
    other = pretraining.run(pretrain_config(text, train__steps=45), one.path, allow_change=True)
    assert {25, 31} <= {*other.steps()} and other.config['checkpoint']['keep_steps'] == (25, 31)


def test_fewer_steps_than_were_made_are_refused_and_recorded_nowhere(text, straight, tmp_path):
    shutil.copytree(straight.path, tmp_path / 'run')
    for dry_run in (True, False):
        with pytest.raises(
            UserError, match='run: step 30 is there already: .* at least 30 steps, not 20'
        ):
            pretraining.run(pretrain_config(text, train__steps=20), tmp_path / 'run', True, dry_run)
    assert workdir.load(tmp_path / 'run').config['train']['steps'] == 30


def test_a_finished_run_takes_another_evaluation_but_no_other_rate(text, straight, tmp_path):
    shutil.copytree(straight.path, tmp_path / 'run')
    assert (
        pretraining.run(pretrain_config(text, eval__windows=8), tmp_path / 'run', True).config[
            'eval'
        ]['windows']
        == 8
    )
    verify.run(tmp_path / 'run')  # raises if config.json differs from the trained config
    with pytest.raises(
        UserError,
        match='run: the run is finished, nothing .* .optimizer.peak_rate: 0.01 -> 0.02.: ',
    ):
        pretraining.run(
            pretrain_config(text, eval__windows=8, optimizer__peak_rate=0.02),
            tmp_path / 'run',
            True,
        )
    assert workdir.load(tmp_path / 'run').config['optimizer']['peak_rate'] == 0.01


def test_a_step_of_the_past_that_is_not_saved_is_named_and_not_recorded_as_kept(
    text, straight, tmp_path, capsys
):
    shutil.copytree(straight.path, tmp_path / 'run')
    config = pretrain_config(text, train__steps=31, checkpoint__keep_steps=(12, 25, 31))
    run = pretraining.run(config, tmp_path / 'run', allow_change=True)
    assert (
        'notice: not kept, as the run has made them without saving them: 12\n'
        in capsys.readouterr().out
    )
    assert run.config['checkpoint']['keep_steps'] == (25, 31)


def test_weights_of_other_sizes_are_refused_by_field_before_the_text_is_read(straight, tmp_path):
    config = pretrain_config(
        'no such corpus',
        init_from=str(straight.path),
        model__n_ctx=32,
        tokenizer__source=str(straight.path),
    )
    with pytest.raises(UserError, match=f'model.n_ctx is 32, that of {straight.path} is 16$'):
        pretraining.run(config, tmp_path / 'run')
    assert list((tmp_path / 'run').glob('*')) == []


def test_a_run_that_made_no_step_may_become_another_one(straight, tmp_path, monkeypatch):
    tokens = tmp_path / 'tokens'
    config = pretrain_config('', data__tokens=str(straight.path / 'tokens'))
    with monkeypatch.context() as patch:
        patch.setattr(pretraining.loop, 'fit', None)
        with pytest.raises(TypeError):
            pretraining.run(config, tmp_path / 'run')
    prepare(tokens, str(straight.path / 'parameters.txt'), 0.2, merges=50, processes=1)
    other = pretrain_config('', data__tokens=str(tokens), seed=1, model__n_layer=1, train__steps=2)
    assert pretraining.run(other, tmp_path / 'run').tokenizer() == Tokenizer.load(
        tokens / 'tokenizer'
    )


def test_what_a_run_there_refuses_is_also_said_by_a_dry_run(text, straight, tmp_path):
    shutil.copytree(straight.path, tmp_path / 'run')
    prepare(tmp_path / 'other', str(text), 0.2, merges=50, processes=1)
    for books, overrides, message in (
        (text, {'seed': 1}, 'another run .seed: 0 -> 1.: use a new'),
        (text, {'train__steps': 40}, 'give --allow_change'),
        ('', {'data__tokens': str(tmp_path / 'other')}, 'run .the vocabulary has other contents'),
    ):
        with pytest.raises(UserError, match=message):
            pretraining.run(pretrain_config(books, **overrides), tmp_path / 'run', dry_run=True)


def test_a_run_goes_on_without_the_text_or_the_vocabulary_that_are_no_more_what_they_were(
    text, straight, tmp_path
):
    run = shutil.copytree(straight.path, tmp_path / 'run')
    more = shutil.copytree(text, tmp_path / 'more')
    (more / 'new.txt').write_text('A new file.')
    for books, overrides, message in (
        (
            more,
            {},
            'run/tokens was prepared .* corpus was .*: the run in .*/run continues .* '
            'config.data.corpus is left out; other text needs a new --workdir$',
        ),
        (
            text,
            {'tokenizer__source': 'gone'},
            r'^config.tokenizer.source: gone: no tokenizer '
            r'.*: leave '
            'config.data.corpus out to continue with it$',
        ),
    ):
        with pytest.raises(UserError, match=message):
            pretraining.run(pretrain_config(books, **overrides), run)
    assert (
        pretraining.run(
            pretrain_config('', tokenizer__source='gone', train__steps=31), run, True
        ).steps()[-1]
        == 31
    )


@pytest.mark.parametrize(
    'processes, message',
    [
        (
            1,
            'give config.data.corpus, the text to train on, or config.data.tokens, where it is '
            'prepared$',
        ),
        (
            2,
            'with several processes run gpt1 prepare --out=DIR first, then give '
            '--config.data.tokens=DIR$',
        ),
    ],
)
def test_text_that_is_missing_is_asked_for_in_the_way_that_these_processes_take_it(
    tmp_path, monkeypatch, processes, message
):
    monkeypatch.setattr(pretraining.jax, 'process_count', lambda: processes)
    with pytest.raises(UserError, match=f'run/tokens: no prepared text there: {message}'):
        pretraining.resolve(pretrain_config('books' if processes == 2 else ''), tmp_path / 'run')
