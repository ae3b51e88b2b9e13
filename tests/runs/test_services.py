"""TensorBoard's event files, Weights & Biases and Trackio have the rows of metrics.jsonl, whatever
happened to the run."""

from unittest import mock

import pytest

import event_files
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results, tracker
from short_runs import points_of


def start(path, step, last, **how):
    """A start of a run that goes on from a step and is killed after `last`; each logs other
    losses."""
    log = results.Log(path, step, **how)
    starts = len(list(path.parent.glob('tensorboard/*')))
    for one in range(step + 1, last + 1):
        log.append({'step': one, 'loss': 5 - one / 10 + starts, 'skipped': 1, 'words': 'none'})
        if one % 2 == 0:
            log.append({'step': one, 'valid_loss': 4 - one / 10})
    log.close()


# TensorBoard


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'metrics.jsonl'


@pytest.mark.full
@pytest.mark.parametrize(
    'before', [True, False], ids=['a kill cut its end', 'it was switched on later']
)
def test_what_is_missing_of_the_rows_before_is_written_again(path, before):
    start(path, 0, 4, tensorboard=before)
    files = list(path.parent.glob('tensorboard/*'))
    assert len(files) == before
    for file in files:
        file.write_bytes(file.read_bytes()[:-3])
    for step, last in ((2, 6), (3, 4), (4, 6)):
        start(path, step, last, tensorboard=True)
    found = event_files.points(path.parent / 'tensorboard')
    assert found == event_files.points_of(results.read(path))
    assert [step for step, _ in found['loss']] == [*range(1, 7)]


# Weights & Biases, Trackio


class Recorded:
    """The interface that both services have, in memory: {run: [(step, numbers)]}."""

    def __init__(self):
        self.runs = {}
        self.closed = 0

    def init(self, project, name, config, resume, **how):
        assert resume == 'allow' and project == 'mine' and config == {'a': 1}
        self._run = self.runs.setdefault(name, [])
        return self

    def log(self, numbers, step):
        self._run.append(numbers | {'step': step})

    def finish(self):
        self.closed += 1


@pytest.fixture
def service(monkeypatch):
    found = Recorded()
    monkeypatch.setattr(tracker.importlib, 'import_module', lambda name: found)
    return found


def track(path, step, last, service='trackio'):
    start(
        path,
        step,
        last,
        tracker=lambda rows, dropped: tracker.Tracker(
            service, 'mine', path.parent, {'a': 1}, rows, dropped
        ),
    )


def test_every_number_of_every_row_is_logged_once_whatever_happened(path, service):
    track(path, 0, 5)
    track(path, 3, 8)  # killed at 5, the newest checkpoint was that of 3
    track(path, 8, 10)
    (rows,) = service.runs.values()
    assert points_of(rows) == points_of(results.read(path)) and service.closed == 3
    assert [step for step, _ in points_of(rows)['loss']] == [*range(1, 11)]


def test_a_service_that_refuses_is_one_line(path, service, monkeypatch):
    results.append(path, {'step': 1, 'loss': 4.9})
    refuse = mock.Mock(side_effect=RuntimeError('no API key\nconfigured'))
    monkeypatch.setattr(service, 'init', refuse)
    with pytest.raises(UserError, match=r'^wandb: no API key\\nconfigured: log in'):
        track(path, 1, 2, 'wandb')
