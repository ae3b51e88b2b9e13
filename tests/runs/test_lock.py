"""The lock of a directory: who gets it, the messages, and the files that a dead holder leaves."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from unittest import mock

import pytest

import emulator
from gpt1_jax import storage
from gpt1_jax.errors import UserError
from gpt1_jax.runs import lock
from tiny import ROOT

pytestmark = pytest.mark.full

HOLDER = """
import sys, time
from gpt1_jax import storage
from gpt1_jax.runs import lock
lock.BEAT_S = 0.2
with lock.hold(storage.path(sys.argv[1])):
    print('held', flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=['directory', 'object store'])
def place(request, tmp_path):
    if request.param == 'directory':
        return tmp_path / 'new' / 'run'
    return storage.path(f'{emulator.bucket()}/{tmp_path.name}/run')


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(lock, 'BEAT_S', 0.2)
    monkeypatch.setattr(lock, 'STALE_S', 2)


def started(code, place):
    return subprocess.Popen(
        [sys.executable, '-c', code, str(place)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': str(ROOT)},
    )


@contextlib.contextmanager
def held_elsewhere(place):
    process = started(HOLDER, place)
    assert process.stdout.readline() == 'held\n'
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_second_process_is_told_who_holds_it(place):
    with held_elsewhere(place) as process:
        with pytest.raises(UserError) as caught:
            lock.hold(place).__enter__()
        found = json.loads(storage.read(place / lock.FILE))
    assert str(caught.value) == (
        f'another process (pid {process.pid} on {socket.gethostname()}, since {found["since"]}) '
        f'holds the lock on {place}'
    )


def test_nothing_is_left_of_a_lock_that_was_given_back(place, tmp_path):
    with lock.hold(place):
        assert json.loads(storage.read(place / lock.FILE))['pid'] == os.getpid()
    assert (
        not (place / lock.FILE).exists() and not place.exists() and not (tmp_path / 'new').exists()
    )
    with lock.hold(place):
        storage.write(place / 'kept', b'')
    assert [one.name for one in place.iterdir()] == ['kept']


@pytest.mark.quick
def test_a_killed_process_s_directory_is_free_at_once_on_the_same_machine(tmp_path):
    """The kernel releases the flock, also of another container, whose process numbers say nothing
    here."""
    with held_elsewhere(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        file = tmp_path / lock.FILE
        file.write_text(file.read_text().replace('"numbers": "pid:', '"numbers": "other:'))
        began = time.monotonic()
        with lock.hold(tmp_path):
            assert time.monotonic() - began < 1


@pytest.mark.quick
@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
@pytest.mark.parametrize(
    'change, waits',
    [
        ({}, False),
        ({'numbers': 'pid:[1]'}, True),
        ({'machine': 'another'}, True),
        ({'pid': 10**30}, True),
    ],
)
def test_without_flock_a_process_here_that_has_ended_is_not_waited_for(
    tmp_path, monkeypatch, change, waits
):
    """In another container the number may be of a process that lives."""
    monkeypatch.setattr(lock, 'STALE_S', 0.5)
    ended = subprocess.Popen(['true'])
    ended.wait()
    holder = {'pid': ended.pid, 'machine': lock._machine(), 'numbers': lock._numbers()} | change
    (tmp_path / lock.FILE).write_text(json.dumps(holder))
    began = time.monotonic()
    lock._wait(tmp_path / lock.FILE)
    assert (time.monotonic() - began >= 0.5) == waits


def test_a_killed_process_s_directory_in_a_store_is_free_at_once_on_the_same_machine(
    tmp_path, capsys
):
    place = storage.path(f'{emulator.bucket()}/{tmp_path.name}/run')
    with held_elsewhere(place) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with lock.hold(place):
            pass
    assert 'may have died' not in capsys.readouterr().err


def test_in_a_store_a_process_of_another_machine_that_is_gone_is_waited_for(tmp_path, capsys):
    place = storage.path(f'{emulator.bucket()}/{tmp_path.name}/run')
    record = {'pid': 7, 'host': 'far', 'machine': 'another', 'since': 'May'}
    storage.write_json(place / lock.FILE, record)
    began = time.monotonic()
    with lock.hold(place) as held:
        assert time.monotonic() - began >= lock.STALE_S
        held.check()
    assert capsys.readouterr().err == (
        f'{place}: locked by process (pid 7 on far, since May), which may have died: waiting up to '
        '2 s for a heartbeat\n'
    )


def test_in_a_store_a_process_that_was_overwritten_stops(tmp_path):
    place = storage.path(f'{emulator.bucket()}/{tmp_path.name}/run')
    record = {'id': 'another', 'host': 'far', 'pid': 7, 'since': 'May'}
    with lock.hold(place) as held:
        storage.write_json(place / lock.FILE, record)
        with pytest.raises(UserError, match='process .pid 7 on far, since May. has taken over'):
            for _ in range(200):
                time.sleep(0.05)
                held.check()
    assert storage.read_json(place / lock.FILE) == record  # not ours to remove


def test_where_there_is_no_flock_a_heartbeat_excludes(tmp_path, monkeypatch):
    monkeypatch.setattr(
        lock.fcntl, 'flock', mock.Mock(side_effect=OSError(lock.UNSUPPORTED[0], ''))
    )
    with lock.hold(tmp_path):
        with pytest.raises(
            UserError, match=f'another process .pid {os.getpid()} on .* holds the lock on'
        ):
            lock.hold(tmp_path).__enter__()
    assert not (tmp_path / lock.FILE).exists()


@pytest.mark.parametrize('content', [b'', b'\xff', b'[]'])
def test_a_damaged_lock_file_stops_nobody(tmp_path, content):
    (tmp_path / lock.FILE).write_bytes(content)
    with lock.hold(tmp_path):
        assert json.loads((tmp_path / lock.FILE).read_bytes())['pid'] == os.getpid()


def test_of_many_that_start_at_once_one_gets_it(tmp_path):
    """Again and again: each that gets it removes the file at its end, which must not let two in."""
    code = """
import pathlib, random, sys, time
from gpt1_jax.runs import lock
from gpt1_jax.errors import UserError
place, count = pathlib.Path(sys.argv[1]), 0
deadline = time.monotonic() + 3
while time.monotonic() < deadline:
    try:
        with lock.hold(place):
            (place / 'inside').mkdir()  # fails where another is
            time.sleep(random.uniform(0, 0.002))
            (place / 'inside').rmdir()
            count += 1
    except UserError as error:
        assert 'holds the lock on' in str(error), error
print(count)
"""
    four = [started(code, tmp_path) for _ in range(4)]
    counts = [int(one.communicate(timeout=60)[0]) for one in four]
    assert [one.returncode for one in four] == [0] * 4 and sum(counts) > 10


def test_a_lock_file_that_is_a_link_is_refused(tmp_path):
    (tmp_path / 'other').write_text('kept')
    (tmp_path / lock.FILE).symlink_to('other')
    with pytest.raises(
        UserError, match='.lock: is a link, and files of a run are not written through links'
    ):
        lock.hold(tmp_path).__enter__()
    assert (tmp_path / 'other').read_text() == 'kept'
