"""TensorBoard's event files, Weights & Biases and Trackio have the rows of metrics.jsonl, whatever
happened to the run: read back from the files that they write."""

import json
import sqlite3
import struct

import pytest

import event_files
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results, tracker
from short_runs import points_of
from tiny import command, corpus, small_flags


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


def events(path):
    return event_files.points(path.parent / 'tensorboard')


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'metrics.jsonl'


@pytest.mark.full
def test_a_run_that_goes_on_at_earlier_steps_has_each_point_once(path):
    for step, last in ((0, 5), (3, 8), (3, 4), (4, 6)):
        start(path, step, last, tensorboard=True)
    found = events(path)
    assert found == event_files.points_of(results.read(path)) and [
        step for step, _ in found['loss']
    ] == [*range(1, 7)]
    # Of the starts that they are from
    assert len({round(value - 5 + step / 10) for step, value in found['loss']}) == 3


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
    start(path, 2, 6, tensorboard=True)
    assert events(path) == event_files.points_of(results.read(path))


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
    def refuse(**how):
        raise RuntimeError('no API key\nconfigured')

    results.append(path, {'step': 1, 'loss': 4.9})
    with (
        monkeypatch.context() as patch,
        pytest.raises(
            UserError,
            match=r'^wandb: no API '
            r'key\\nconfigured: log '
            r'in',
        ),
    ):
        patch.setattr(service, 'init', refuse)
        track(path, 1, 2, 'wandb')
    track(path, 1, 2, 'wandb')
    (rows,) = service.runs.values()
    assert [row['step'] for row in rows if 'loss' in row] == [1, 2]


def of_wandb(tmp_path):
    """Records of protocol buffers in LevelDB's log format, after a header of 7 bytes. Blocks of 32
    KiB; in each, fragments of (CRC-32 of 4 bytes, length of 2, kind of 1): 1 whole, 2 first, 3
    middle, 4 last."""
    from wandb.proto import wandb_internal_pb2

    found = {}
    block = 32768
    for file in sorted((tmp_path / 'run').rglob('offline-run-*/*.wandb')):
        data = file.read_bytes()
        place = 7
        record = b''
        assert data[:4] == b':W&B'
        while place + 7 <= len(data):
            if block - place % block < 7:
                place += block - place % block
                continue
            _, length, kind = struct.unpack('<IHB', data[place : place + 7])
            record += data[place + 7 : place + 7 + length]
            place += 7 + length
            if kind in (2, 3):
                continue
            history = wandb_internal_pb2.Record.FromString(record).history
            record = b''
            for item in history.item:
                name = item.key or '/'.join(item.nested_key)
                if not name.startswith('_'):
                    found.setdefault(name, []).append(
                        (history.step.num, json.loads(item.value_json))
                    )
    return found


def of_trackio(tmp_path):
    rows = (
        sqlite3.connect(tmp_path / 'trackio' / 'gpt1_jax.db')
        .execute('select step, metrics from metrics order by id')
        .fetchall()
    )
    return points_of([json.loads(numbers) | {'step': step} for step, numbers in rows])


@pytest.mark.full
@pytest.mark.parametrize('service, read', [('wandb', of_wandb), ('trackio', of_trackio)])
def test_a_service_that_writes_files_has_every_row_of_a_run_that_was_stopped_and_continued(
    tmp_path, service, read
):
    pytest.importorskip(service)
    text = corpus(tmp_path / 'text')
    run = tmp_path / 'run'
    place = {
        'WANDB_MODE': 'offline',
        'WANDB_SILENT': 'true',
        'TRACKIO_DIR': str(tmp_path / 'trackio'),
    }
    for steps in (3, 5):
        command(
            'pretrain',
            '--config=pretrain',
            f'--workdir={run}',
            '--allow_change',
            *small_flags(
                tracker=service, data__corpus=text, eval__every=2, log_every=1, train__steps=steps
            ),
            check=0,
            env=place,
        )
    expected = points_of(results.read(run / 'metrics.jsonl'))
    assert [step for step, _ in expected['loss']] == [
        1,
        2,
        3,
        4,
        5,
    ] and 'valid_bits_per_byte' in expected
    assert read(tmp_path) == expected
