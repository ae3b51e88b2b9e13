"""One run writes a work directory: another one is refused in a line."""
import re
import signal
import subprocess
import time

import pytest

from gpt1_jax import finetune, pretrain
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.parallel import processes
from gpt1_jax.runs import checkpoint, lock, results, workdir
from many_processes import wait_for, worker
from tiny import cola, corpus, finetune_config, pretrain_config

pytestmark = pytest.mark.full


def steps(directory):
    return [row['step'] for row in results.read(directory / 'metrics.jsonl') if 'loss' in row]


def test_of_two_runs_in_one_directory_one_goes_on(tmp_path):
    text, directory = corpus(tmp_path / 'text'), tmp_path / 'run'
    two = [worker(text, directory, stdout=subprocess.PIPE, train__steps=100_000, log_every=1) for _ in range(2)]
    while all(one.poll() is None for one in two):
        time.sleep(0.05)
    refused, winner = sorted(two, key=lambda one: one.poll() is None)
    out, error = refused.communicate()
    assert refused.returncode == 1 and re.fullmatch(
        rf'error: another process( \(pid {winner.pid} on .*, since .*\))? holds the lock on {directory}\n',
        error), out + error
    wait_for(lambda: len(steps(directory)) > 12, winner)
    winner.send_signal(signal.SIGTERM)
    out, error = winner.communicate(timeout=100)
    assert winner.returncode == 75 and steps(directory) == list(range(1, len(steps(directory)) + 1)), out + error
    assert not (directory / lock.FILE).exists()


def test_a_run_whose_lock_was_taken_over_stops_before_it_writes(pretrained, tmp_path, monkeypatch):
    def taken(lock):
        if lock.directory == tmp_path / 'run':
            raise UserError('process (pid 7 on far) has taken over')
    monkeypatch.setattr(lock.Lock, 'check', taken)
    with pytest.raises(UserError, match='has taken over'):
        pretrain.run(pretrain_config('', data__corpus='', data__tokens=str(pretrained / 'tokens'),
                                     train__steps=4), tmp_path / 'run')
    assert not steps(tmp_path / 'run') and not workdir.load(tmp_path / 'run').steps()


def test_checkpoints_are_cleaned_up_everywhere_before_any_is_scored(pretrained, tmp_path, monkeypatch):
    order = []

    def noted(module, name, say):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **how: order.append(say(*given)) or original(*given, **how))
    noted(checkpoint.Writer, 'close', lambda writer: 'close')
    noted(processes, 'barrier', lambda name: name)
    noted(fine_tuned, 'evaluate_run', lambda *given: 'score')
    finetune.run(finetune_config('cola', cola(tmp_path / 'cola'), init_from=str(pretrained), data__n_ctx=16,
                                 train__epochs=1), tmp_path / 'tuned')
    assert order[order.index('close'):][:3] == ['close', 'the checkpoints are cleaned up', 'score']
