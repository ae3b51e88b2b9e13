"""Processes that work through a list in order."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from gpt1_jax.data import encode
from gpt1_jax.errors import UserError

# A worker imports this file with the package alone on its path
HERE = pathlib.Path(__file__).parent
ENVIRONMENT = {**os.environ, 'PYTHONPATH': f'{HERE.parents[1]}:{HERE}'}


def state_of_worker(_):
    script = getattr(sys.modules['__main__'], '__file__', None)
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return sorted({'jax', 'flax'} & set(sys.modules)), script, blocked


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_imports_neither_jax_nor_the_running_script_and_never_sees_an_interrupt():
    import jax  # noqa: F401  this process has it

    found = encode.ordered_map(state_of_worker, range(2), 2)
    assert [state for _, state in found] == [([], None, True)] * 2
    assert not state_of_worker(None)[2]


def test_a_killed_worker_is_one_line():
    with pytest.raises(
        UserError, match='one of 2 processes was killed, perhaps for want of memory: run again'
    ):
        list(encode.ordered_map(die, range(2), 2))


def test_results_come_in_order_and_little_is_read_ahead():
    read = []
    numbers = (read.append(i) or i for i in range(100))
    results = encode.ordered_map(abs, numbers, 2)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    assert len(read) <= 3 + 8
    results.close()


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text(
        'from gpt1_jax.data import encode\n'
        'print("begin")\n'
        'print([n for _, n in encode.ordered_map(len, ["a", "bb"], 2)])\n'
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, env=ENVIRONMENT
    )
    assert (done.stdout, done.stderr) == ('begin\n[1, 2]\n', '')


def test_workers_end_when_the_parent_is_killed():
    code = (
        'import test_ordered_map; from gpt1_jax.data import encode\n'
        'for _, pid in encode.ordered_map(test_ordered_map.pid_then_sleep, range(9), 2):\n'
        '    print(pid, flush=True)'
    )
    parent = subprocess.Popen(
        [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    worker = pathlib.Path('/proc') / parent.stdout.readline().strip()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while worker.exists() and 'Z' not in (worker / 'stat').read_text():
        assert time.monotonic() < deadline, f'{worker} outlived its parent'
        time.sleep(0.1)


def pid_then_sleep(item):
    if item > 1:
        time.sleep(60)
    return os.getpid()
