"""Exactness of the programs that users run: XLA's optimisations on, which conftest.py turns off for all other tests."""
import os
import signal
import subprocess
import sys
import time

import pytest

from gpt1_jax.runs import checkpoint, results, workdir
from short_runs import arrays, losses, rows
from tiny import ROOT, corpus, small_flags

pytestmark = pytest.mark.full

STEPS, KILLED_AFTER = 100, 23


def start(text, directory):
    """python -m gpt1_jax.pretrain as a user starts it: no XLA_FLAGS, nothing compiled by an earlier start."""
    ours = ('XLA_FLAGS', 'JAX_COMPILATION_CACHE_DIR', 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS')
    return subprocess.Popen(
        [sys.executable, '-m', 'gpt1_jax.pretrain', '--config=configs/pretrain.py', f'--workdir={directory}',
         f'--config.data.corpus={text}/*.txt', *small_flags(
             model__n_embd=32, model__n_inner=64, model__n_ctx=32, train__steps=STEPS, eval__every=20, log_every=1)],
        cwd=ROOT, env={name: value for name, value in os.environ.items() if name not in ours}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


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


def test_a_killed_run_with_xla_s_optimisations_on_ends_with_the_same_bits(tmp_path):
    text, killed = corpus(tmp_path / 'text'), tmp_path / 'killed'
    finish(start(text, tmp_path / 'straight'))
    straight = workdir.load(tmp_path / 'straight')
    assert checkpoint.read_meta(straight.checkpoints, STEPS)['environment']['XLA_FLAGS'] == ''

    kill_after(start(text, killed), killed, KILLED_AFTER)
    saved = checkpoint.steps(killed / 'checkpoints')[-1]
    assert 0 < saved < STEPS
    assert f'step {saved} of {STEPS}: resuming' in finish(start(text, killed))

    killed = workdir.load(killed)
    assert arrays(killed, STEPS) == arrays(straight, STEPS)
    assert rows(killed) == rows(straight) and len(losses(straight)) == STEPS
    assert sum('valid_loss' in row for row in rows(straight)) == STEPS // 20
