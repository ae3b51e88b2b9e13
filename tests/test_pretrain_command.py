"""`python -m gpt1_jax.pretrain` as a process: what it shows, and on a full disk."""
import subprocess
import types

import pytest

from gpt1_jax.runs import checkpoint, workdir
from short_runs import arrays
from tiny import command, corpus


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('pretrain_command') / 'text')


def pretrain_command(text, directory, *more, check=0):
    return command('pretrain', '--config=configs/pretrain.py', f'--workdir={directory}',
                   f'--config.data.corpus={text}/*.txt', '--config.data.valid=0.2', '--config.model.n_layer=1',
                   '--config.model.n_embd=16', '--config.model.n_head=2', '--config.model.n_inner=16',
                   '--config.model.n_ctx=16', '--config.tokenizer.merges=50', '--config.train.steps=4',
                   '--config.batch.size=4', '--config.log_every=2', '--config.optimizer.warmup_steps=1',
                   '--config.checkpoint.every=2', *more, check=check)


@pytest.fixture(scope='module')
def commanded(text, tmp_path_factory):
    """(work directory, what was printed) of four steps from the command line."""
    directory = tmp_path_factory.mktemp('commanded') / 'run'
    return directory, pretrain_command(text, directory)


def test_the_command_line_pretrains_and_shows_progress(commanded):
    shown = commanded[1].stdout
    assert 'step 4/4  loss' in shown and 'tokens/s' in shown and 'left' in shown
    assert 'validation loss' in shown
    assert not {'\r', '\033'} & set(shown + commanded[1].stderr)  # of what is for a terminal alone


@pytest.mark.full
def test_a_full_disk_ends_the_run_with_one_line_and_the_next_start_goes_on(text, commanded, small_disk):
    """A disk of its own that holds one checkpoint and not two; then it is made larger."""
    tokens_dir, run = commanded[0] / 'tokens', small_disk.path / 'run'
    size = sum(-(-p.stat().st_size // 4096) * 4096 for p in (commanded[0] / 'checkpoints' / '4').rglob('*'))
    small_disk.resize(int(1.25 * size))  # how many files a step has varies a little
    flags = (f'--config.data.tokens={tokens_dir}', '--config.checkpoint.keep_latest=3')
    failed = pretrain_command(text, run, *flags, check=1)
    assert failed.stderr.startswith('error: ') and failed.stderr.count('\n') == 1, failed.stderr
    assert 'No space left on device' in failed.stderr
    assert checkpoint.steps(run / 'checkpoints') == [2]
    small_disk.resize(8 * size)
    done = pretrain_command(text, run, *flags)
    assert 'step 2 of 4: going on' in done.stdout
    assert arrays(workdir.load(run), 4) == arrays(workdir.load(commanded[0]), 4)
    assert {p.name for p in (run / 'checkpoints').iterdir()} == {'2', '4'}


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs with .path and .resize(bytes); skips where this user cannot mount one."""
    path = tmp_path / 'disk'
    path.mkdir()
    try:
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f'no tmpfs can be mounted ({error}): test_checkpoint.py has a stand-in')
    try:
        yield types.SimpleNamespace(path=path, resize=lambda size: subprocess.run(
            ['mount', '-o', f'remount,size={size}', path], check=True))
    finally:
        subprocess.run(['umount', path], check=True)
