"""The clock of experiments.reproduce: device time that survives a kill, and what ends at the
deadline."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.reproduce import clock as clock_lib
from gpt1_jax.errors import Interrupted, UserError

pytestmark = pytest.mark.full


@pytest.mark.quick
def test_time_used_adds_up_over_starts(tmp_path):
    for stage in ('small', 'large', 'small'):
        clock = clock_lib.Clock(tmp_path / 'clock.json', 100)
        with clock.counting(stage):
            time.sleep(0.2)
    assert 0.5 <= clock.used < 10 and clock.left == 100 - clock.used and clock.stages['small'] > 0.3
    (tmp_path / 'clock.json').write_text('{')
    with pytest.raises(UserError, match=r'clock\.json: not JSON'):
        clock_lib.Clock(tmp_path / 'clock.json', 100)


def test_a_kill_loses_at_most_what_was_not_noted(tmp_path):
    code = (
        'import sys, time\nfrom experiments.reproduce import clock as clock_lib\nclock_lib.EVERY = '
        '0.05\n'
        'with clock_lib.Clock(sys.argv[1], 100).counting("a"):\n    print("in", flush=True)\n    '
        'time.sleep(60)'
    )
    with subprocess.Popen(
        [sys.executable, '-c', code, tmp_path / 'clock.json'], stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        time.sleep(0.6)
        process.kill()
    assert 0.2 <= clock_lib.Clock(tmp_path / 'clock.json', 100).used < 10


def test_past_the_total_the_work_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(clock_lib, 'EVERY', 0.05)
    before = signal.getsignal(signal.SIGTERM)
    began = time.monotonic()
    clock = clock_lib.Clock(tmp_path / 'clock.json', 0.2)
    with pytest.raises(Interrupted), clock.counting('a'):
        time.sleep(30)
    assert time.monotonic() - began < 20
    assert signal.getsignal(signal.SIGTERM) is before


def test_past_a_stages_limit_the_work_is_interrupted_and_time_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(clock_lib, 'EVERY', 0.05)
    clock = clock_lib.Clock(tmp_path / 'clock.json', 100)
    with pytest.raises(Interrupted), clock.counting('a', limit=0.2):
        time.sleep(30)
    assert clock.left_of('a', 0.2) <= 0 < clock.left_of('b', 0.2) and clock.left > 50


def test_a_signal_from_outside_interrupts_and_is_no_failure_of_what_is_under_way(tmp_path):
    """Writing a checkpoint, reading a row, a run: each takes any Exception for its own."""
    clock = clock_lib.Clock(tmp_path / 'clock.json')
    with (
        pytest.raises(Interrupted, match='rerun the same command'),
        clock.counting('a'),
        contextlib.suppress(Exception),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
