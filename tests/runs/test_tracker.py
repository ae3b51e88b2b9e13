"""What Weights & Biases and Trackio get is what metrics.jsonl holds, read back from the files that they write offline;
and what happens without them."""
import json
import sqlite3

import pytest

import wandb_files
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results, tracker
from short_runs import points_of
from tiny import command, corpus


class Recorded:
    """The interface that both services have, in memory: {run: [(step, numbers)]}."""

    def __init__(self):
        self.runs, self.closed = {}, 0

    def init(self, project, name, config, resume, **how):
        assert resume == 'allow' and project == 'mine' and config == {'a': 1}
        self._run = self.runs.setdefault(name, [])
        return self

    def log(self, numbers, step):
        self._run.append((step, numbers))

    def finish(self):
        self.closed += 1


@pytest.fixture
def service(monkeypatch):
    found = Recorded()
    monkeypatch.setattr(tracker.importlib, 'import_module', lambda name: found)
    return found


def start(path, step, last, service='trackio'):
    """A start of a run that goes on from a step and is killed after `last`."""
    log = results.Log(path, step, tracker=lambda rows, dropped: tracker.Tracker(
        service, 'mine', path.parent, {'a': 1}, rows, dropped))
    for one in range(step + 1, last + 1):
        log.append({'step': one, 'loss': 5 - one / 10, 'words': 'none'})
        if one % 2 == 0:
            log.append({'step': one, 'valid_loss': 4 - one / 10})
    log.close()


def logged(service):
    (run,) = service.runs.values()
    return points_of([numbers | {'step': step} for step, numbers in run])


def test_every_number_of_every_row_is_logged_once_whatever_happened(tmp_path, service):
    path = tmp_path / 'metrics.jsonl'
    start(path, 0, 5)
    start(path, 3, 8)   # killed at 5, the newest checkpoint was that of 3
    start(path, 8, 10)
    assert logged(service) == points_of(results.read(path)) and service.closed == 3
    assert [step for step, _ in logged(service)['loss']] == [*range(1, 11)]


def test_a_service_that_refuses_is_one_line(tmp_path, service, monkeypatch):
    def refuse(**how):
        raise RuntimeError('no API key\nconfigured')
    accept = service.init
    monkeypatch.setattr(service, 'init', refuse)
    path = tmp_path / 'metrics.jsonl'
    results.append(path, {'step': 1, 'loss': 4.9})
    with pytest.raises(UserError, match=r'^wandb: no API key\\nconfigured: log in, work offline'):
        start(path, 1, 2, 'wandb')
    monkeypatch.setattr(service, 'init', accept)
    start(path, 1, 2, 'wandb')
    assert [step for step, _ in logged(service)['loss']] == [1, 2]


def offline_run(tmp_path, service):
    """A pretraining that is stopped and continued, with a service that writes files alone."""
    text = corpus(tmp_path / 'text')
    fields = ('model.n_layer=1 model.n_embd=16 model.n_head=2 model.n_inner=16 model.n_ctx=16 data.valid=0.2 '
              'data.processes=1 tokenizer.merges=60 batch.size=8 eval.every=2 optimizer.warmup_steps=1 log_every=1 '
              f'tracker={service} data.corpus={text}').split()
    place = {'WANDB_MODE': 'offline', 'WANDB_SILENT': 'true', 'TRACKIO_DIR': str(tmp_path / 'trackio')}
    for steps in (3, 5):
        command('pretrain', '--config=pretrain', f'--workdir={tmp_path / "run"}', '--allow_change',
                *(f'--config.{field}' for field in (*fields, f'train.steps={steps}')), check=0, env=place)
    return points_of(results.read(tmp_path / 'run' / 'metrics.jsonl'))


def of_trackio(tmp_path):
    rows = sqlite3.connect(tmp_path / 'trackio' / 'gpt1_jax.db').execute(
        'select step, metrics from metrics order by id').fetchall()
    return points_of([json.loads(numbers) | {'step': step} for step, numbers in rows])


@pytest.mark.full
@pytest.mark.parametrize('service, read', [('wandb', lambda path: wandb_files.points(path / 'run')),
                                           ('trackio', of_trackio)])
def test_a_service_that_writes_files_has_every_row(tmp_path, service, read):
    pytest.importorskip(service)
    expected = offline_run(tmp_path, service)
    assert [step for step, _ in expected['loss']] == [1, 2, 3, 4, 5] and 'valid_bits_per_byte' in expected
    assert read(tmp_path) == expected
