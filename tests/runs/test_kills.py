"""A run that is killed, at moments of chance, ends with the bits of one that is not."""

import random
import time

import pytest

from gpt1_jax.runs import checkpoint, results, workdir
from many_processes import wait_for, worker
from short_runs import arrays, rows
from tiny import corpus


def last_step(directory):
    # The process may just be making it
    found = results.read(directory / 'metrics.jsonl', continued=True)
    return found[-1]['step'] if found else 0


@pytest.mark.parametrize(
    'kills, steps, devices',
    [
        pytest.param(
            1,
            200,
            None,
            marks=pytest.mark.full,
            id='once, with the optimisations of XLA that users have',
        ),
        pytest.param(100, 4000, 4, marks=pytest.mark.slow, id='a hundred times, on four devices'),
    ],
)
def test_kills_change_nothing(tmp_path, monkeypatch, kills, steps, devices):
    """With dropout. One kill in five comes before the first step: in starting, restoring,
    compiling; the others up to a second after it, so that many fall into the saves, which never
    stop."""
    if devices is None:  # nothing compiled by another start, either
        for name in ('XLA_FLAGS', 'JAX_COMPILATION_CACHE_DIR'):
            monkeypatch.delenv(name, raising=False)
    text = corpus(tmp_path / 'text')
    often = dict(train__steps=steps, log_every=1, eval__every=50, checkpoint__every=3)
    killed = tmp_path / 'killed'
    rng = random.Random(0)
    progress = [0]  # the latest step that is saved, after each kill
    while len(progress) <= kills or not progress[-1]:  # the last of them after a save
        assert progress[-1] < steps, f'finished after {progress}: train for more steps'
        before = last_step(killed)
        process = worker(text, killed, devices, **often)
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 8))
        else:  # a continued run first drops the rows after its checkpoint, then writes new ones
            wait_for(lambda: last_step(killed) not in (before, progress[-1]), process)
            time.sleep(rng.uniform(0, 1))
        process.kill()
        assert process.wait() == -9, process.stderr.read()
        progress.append((checkpoint.steps(killed / 'checkpoints') or [0])[-1])
        assert progress[-1] >= progress[-2], progress
    runs = []
    for directory in (killed, tmp_path / 'whole'):
        process = worker(text, directory, devices, **often)
        assert process.wait() == 0, process.stderr.read()
        runs.append(workdir.load(directory))
        flags = checkpoint.read_meta(runs[-1].checkpoints, steps)['environment']['XLA_FLAGS']
        assert devices or flags == ''
    assert arrays(runs[0], steps) == arrays(runs[1], steps) and rows(runs[0]) == rows(runs[1])
    assert sum('loss' in row for row in rows(runs[0])) == steps
    print(f'kills, checkpoints after them at steps {progress}')
