"""One run writes a work directory: another one is refused in a line, whoever was killed leaves it free, reading is not
hindered."""
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


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A finished pretraining run, with its text beside it."""
    root = tmp_path_factory.mktemp('finished')
    corpus(root / 'text')
    return pretrain.run(pretrain_config(root / 'text', data__tokens=str(root / 'tokens'), train__steps=4), root / 'run')


def start(text, directory):
    return worker(text, directory, stdout=subprocess.PIPE, train__steps=100_000, log_every=1, checkpoint__every=5)


def steps(directory):
    return [row['step'] for row in results.read(directory / 'metrics.jsonl') if 'loss' in row]


def test_of_two_runs_in_one_directory_one_goes_on_and_a_killed_one_leaves_it_free(finished, tmp_path):
    text, directory = finished.path.parent / 'text', tmp_path / 'run'
    two = [start(text, directory) for _ in range(2)]
    while all(one.poll() is None for one in two):
        time.sleep(0.05)
    refused, winner = sorted(two, key=lambda one: one.poll() is None)
    out, error = refused.communicate()
    assert refused.returncode == 1 and re.fullmatch(
        rf'error: another process( \(pid {winner.pid} on .*, since .*\))? holds the lock on {directory}\n',
        error), out + error

    wait_for(lambda: len(steps(directory)) > 12, winner)
    late = start(text, directory)  # in the middle
    out, error = late.communicate(timeout=200)
    assert late.returncode == 1 and f'error: another process (pid {winner.pid} on ' in error, out + error
    assert error.count('\n') == 1 and winner.poll() is None

    winner.kill()
    winner.wait()
    last = steps(directory)[-1]
    saved = checkpoint.steps(directory / 'checkpoints')[-1]
    again = start(text, directory)
    wait_for(lambda: steps(directory)[-1] > last + 3, again)
    again.send_signal(signal.SIGTERM)
    out, error = again.communicate(timeout=100)
    assert again.returncode == 75 and f'step {saved:,} of 100,000: resuming' in out, out + error
    found = steps(directory)
    assert found == list(range(1, len(found) + 1)) and found[-1] == checkpoint.steps(directory / 'checkpoints')[-1]
    assert not (directory / lock.FILE).exists()


def test_a_run_whose_lock_was_taken_over_stops_before_it_writes(finished, tmp_path, monkeypatch):
    def taken(lock):
        if lock.directory == tmp_path / 'run':
            raise UserError('process (pid 7 on far) has taken over')
    monkeypatch.setattr(lock.Lock, 'check', taken)
    with pytest.raises(UserError, match='has taken over'):
        pretrain.run(pretrain_config('', data__corpus='', data__tokens=str(finished.path.parent / 'tokens'),
                                     train__steps=4), tmp_path / 'run')
    assert not steps(tmp_path / 'run') and not workdir.load(tmp_path / 'run').steps()


def test_checkpoints_are_cleaned_up_everywhere_before_any_is_scored(finished, tmp_path, monkeypatch):
    order = []

    def noted(module, name, say):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **how: order.append(say(*given)) or original(*given, **how))
    noted(checkpoint.Writer, 'close', lambda writer: 'close')
    noted(processes, 'barrier', lambda name: name)
    noted(fine_tuned, 'evaluate_run', lambda *given: 'score')
    finetune.run(finetune_config('cola', cola(tmp_path / 'cola'), init_from=str(finished.path), data__n_ctx=16,
                                 train__epochs=1), tmp_path / 'tuned')
    assert order[order.index('close'):][:3] == ['close', 'the checkpoints are cleaned up', 'score']
