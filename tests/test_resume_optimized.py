"""Exactness of the programs that users run: XLA's optimisations on, which conftest.py turns off for all other tests."""
import os
import signal
import subprocess
import sys
import time

import pytest

from gpt1_jax.runs import checkpoint, results
from tiny import ROOT, corpus

pytestmark = pytest.mark.full

STEPS, KILLED_AFTER, EVERY = 100, 23, 5
SMALL = {
    'model.n_layer': 2, 'model.n_embd': 32, 'model.n_head': 4, 'model.n_inner': 64, 'model.n_ctx': 32,
    'tokenizer.merges': 60, 'data.valid': 0.2, 'data.processes': 1, 'batch.size': 8, 'train.steps': STEPS,
    'optimizer.warmup_steps': 3, 'optimizer.peak_rate': 1e-2, 'eval.every': 20, 'eval.windows': 16,
    'eval.batch_size': 8, 'checkpoint.every': EVERY, 'log_every': 1}


def start(text, directory):
    """python -m gpt1_jax.pretrain as a user starts it: no XLA_FLAGS, nothing compiled by an earlier start."""
    flags = [f'--config.{name}={value}' for name, value in SMALL.items()]
    ours = ('XLA_FLAGS', 'JAX_COMPILATION_CACHE_DIR', 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS')
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.Popen(
        [sys.executable, '-m', 'gpt1_jax.pretrain', '--config=configs/pretrain.py', f'--workdir={directory}',
         f'--config.data.corpus={text}/*.txt', *flags],
        cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    return out


def kill_after(process, directory, step):
    """SIGKILL as soon as metrics.jsonl has a row of this step."""
    deadline = time.monotonic() + 600
    while (results.read(directory / 'metrics.jsonl') or [{'step': 0}])[-1]['step'] < step:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def digests(directory):
    return checkpoint.read_meta(directory / 'checkpoints', STEPS)['arrays']


def losses(directory):
    rows = results.read(directory / 'metrics.jsonl')
    return [(row['step'], name, row[name]) for row in rows for name in ('loss', 'valid_loss') if name in row]


def test_a_killed_run_with_xla_s_optimisations_on_ends_with_the_same_bits(tmp_path):
    text, straight, killed = corpus(tmp_path / 'text'), tmp_path / 'straight', tmp_path / 'killed'
    finish(start(text, straight))
    assert checkpoint.read_meta(straight / 'checkpoints', STEPS)['environment']['XLA_FLAGS'] == ''

    kill_after(start(text, killed), killed, KILLED_AFTER)
    saved = checkpoint.steps(killed / 'checkpoints')[-1]
    assert 0 < saved < STEPS
    assert f'step {saved} of {STEPS}: resuming' in finish(start(text, killed))

    assert digests(killed) == digests(straight)
    assert losses(killed) == losses(straight) and len(losses(straight)) == STEPS + STEPS // 20
