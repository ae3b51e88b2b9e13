"""A run that is killed a hundred times, at moments of chance, ends with the weights of one that is not."""
import random
import time

import pytest

from gpt1_jax import pretrain
from gpt1_jax.runs import checkpoint, results
from many_processes import worker
from tiny import corpus, pretrain_config

KILLS, STEPS, EVERY = 100, 4000, 3


def start(directory, text):
    return worker(text, directory, 4, train__steps=STEPS, log_every=1, eval__every=50, checkpoint__every=EVERY,
                  data__corpus='', data__tokens=str(text.parent / 'tokens'))


def last_step(directory):
    rows = results.read(directory / 'metrics.jsonl')
    return rows[-1]['step'] if rows else 0


@pytest.mark.slow
def test_a_hundred_kills_change_nothing(tmp_path):
    """On four devices, with dropout. One kill in five comes before the first step: in starting, restoring, compiling;
    the others up to a second after it, so that many fall into the saves, which never stop."""
    text = corpus(tmp_path / 'text')
    pretrain.run(pretrain_config(text, data__tokens=str(tmp_path / 'tokens'), train__steps=1), tmp_path / 'prepare')
    rng, kills, killed, progress = random.Random(0), 0, tmp_path / 'killed', []
    while kills < KILLS:
        saved = (checkpoint.steps(killed / 'checkpoints') or [0])[-1]
        assert saved < STEPS, f'finished after {kills} kills: raise STEPS'
        before, process, deadline = last_step(killed), start(killed, text), time.monotonic() + 300
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 8))
        else:  # a continued run first drops the rows after its checkpoint, then writes new ones
            while last_step(killed) in (before, saved) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 1))
        process.kill()
        assert process.wait() == -9, process.stderr.read()
        kills += 1
        now = (checkpoint.steps(killed / 'checkpoints') or [0])[-1]
        assert now >= saved, f'kill {kills}: step {saved} was saved, now the latest is {now}'
        progress.append(now)
    arrays, rows = [], []
    for directory in (killed, tmp_path / 'whole'):
        process = start(directory, text)
        assert process.wait() == 0, process.stderr.read()
        arrays.append(checkpoint.read_meta(directory / 'checkpoints', STEPS)['arrays'])
        rows.append([(row['step'], row['loss']) for row in results.read(directory / 'metrics.jsonl') if 'loss' in row])
    assert arrays[0] == arrays[1] and rows[0] == rows[1] and len(rows[0]) == STEPS
    print(f'{kills} kills, checkpoints after them at steps {progress}')
