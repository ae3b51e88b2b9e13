"""`python -m gpt1_jax.pretrain` as a process: what it shows, killed in between, on a full disk."""
import signal
import subprocess
import sys
import time
import types

import pytest

from gpt1_jax.runs import checkpoint, results, workdir
from short_runs import arrays, losses
from tiny import ROOT, command, corpus


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('pretrain_command') / 'text')


@pytest.mark.full
def test_kill_minus_nine_in_between_changes_nothing(text, tmp_path):
    """A process that is killed twice at moments of its own choosing, against one that is not, both on one device."""
    script = ('import sys; sys.path.insert(0, "tests/helpers"); from tiny import pretrain_config; '
              'from gpt1_jax import pretrain; import pathlib; '
              'pretrain.run(pretrain_config(sys.argv[1], train__steps=60, checkpoint__every=4, log_every=1), '
              'pathlib.Path(sys.argv[2]))')

    def start(directory):
        return subprocess.Popen([sys.executable, '-c', script, str(text), str(directory)], cwd=ROOT,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    process = start(whole)
    assert process.wait(300) == 0, process.stderr.read().decode()
    kills = 0
    for after in (10, 33):
        process = start(killed)
        deadline = time.monotonic() + 200
        while process.poll() is None and time.monotonic() < deadline:
            if (results.read(killed / 'metrics.jsonl') or [{'step': 0}])[-1]['step'] >= after:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += process.returncode == -signal.SIGKILL
                break
            time.sleep(0.005)
    assert kills == 2
    process = start(killed)
    assert process.wait(300) == 0, process.stderr.read().decode()
    a, b = workdir.load(whole), workdir.load(killed)
    assert arrays(a, 60) == arrays(b, 60)
    assert losses(a) == losses(b)


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
