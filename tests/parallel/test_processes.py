"""Several real processes on this machine, each with several devices: the same run as one
process's."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from experiments.launch import local
from gpt1_jax import pretraining
from gpt1_jax.data import prepared, windows
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import processes as processes_lib
from gpt1_jax.parallel import stuck
from gpt1_jax.runs import checkpoint, results
from many_processes import STEPS, ended, start, wait_for
from tiny import ROOT, corpus, pretrain_config, python

pytestmark = pytest.mark.full


def losses(directory):
    rows = results.read(directory / 'metrics.jsonl', continued=True)  # it may be empty still
    return {
        (row['step'], name): row[name]
        for row in rows
        for name in ('loss', 'valid_loss')
        if name in row
    }


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    """Text with its shards beside it, as several processes want them."""
    root = tmp_path_factory.mktemp('distributed')
    pretraining.run(
        pretrain_config(corpus(root / 'text'), data__tokens=str(root / 'tokens'), train__steps=1),
        root / 'prepare',
    )
    return root / 'text'


@pytest.fixture(scope='module')
def alone(text):
    status, out = ended(start(1, 4, text.parent / 'alone', text))
    assert status == 0, out
    return text.parent / 'alone'


@pytest.mark.parametrize(
    'processes, devices, mesh',
    [
        (2, 2, {}),
        (4, 1, {'mesh__fsdp': 4, 'data__resident': 'yes'}),
        pytest.param(2, 2, {'mesh__fsdp': 2, 'mesh__tensor': 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_several_processes_are_one_run(text, alone, tmp_path, processes, devices, mesh):
    status, out = ended(start(processes, devices, tmp_path / 'run', text, **mesh))
    assert status == 0, out
    expected = losses(alone)
    found = losses(tmp_path / 'run')
    assert found.keys() == expected.keys() and len(found) == STEPS + 2
    np.testing.assert_allclose([found[k] for k in expected], list(expected.values()), rtol=2e-5)
    stream = prepared.open_split(text.parent / 'tokens', 'train')
    each = [dict(np.load(tmp_path / f'run_read_{i}.npz')) for i in range(processes)]
    for step in range(STEPS):
        for row, number in enumerate(windows.window_numbers(stream, step, 0, 8, 16)):
            taken = [read[f'{step}/{row}'] for read in each if f'{step}/{row}' in read]
            assert len(taken) >= 1 and all(one == number for one in taken)
    if 'mesh__tensor' not in mesh:  # each row is of one process alone
        assert sum(map(len, each)) == 8 * STEPS
    assert out.count(f'step {STEPS}/{STEPS}') == 1  # one of them talks


def test_a_signal_to_one_stops_all_at_the_same_step(text, tmp_path):
    run = start(2, 2, tmp_path / 'run', text, train__steps=400)
    wait_for(lambda: losses(tmp_path / 'run').keys() >= {(5, 'loss')}, run)
    run.send_signal(signal.SIGTERM)
    status, out = ended(run)
    steps = [int(step) for step in re.findall(r'stopped by SIG.* at step (\d+) of', out)]
    assert status == 75 and len(steps) == 2 and steps[0] == steps[1], out
    assert checkpoint.steps(tmp_path / 'run' / 'checkpoints')[-1] == steps[0]


@pytest.mark.parametrize('dead', [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_process_that_dies_ends_the_others_with_a_line_that_names_it(text, tmp_path, dead):
    """Here after a heartbeat of ten seconds; a minute by default."""
    began = time.monotonic()
    status, out = ended(
        start(
            3,
            1,
            tmp_path / 'run',
            text,
            batch__size=6,
            eval__batch_size=6,
            heartbeat=10,
            **{f'process_{dead}': {'dies_at': 12}},
        )
    )
    assert status == 9 and time.monotonic() - began < 300  # starting and compiling too
    named = 'the leader task' if dead == 0 else 'stopped sending heartbeats):\n1\n'
    assert named in out and f'processes: 0 on {socket.gethostname()}, 1 on ' in out, out
    assert checkpoint.steps(tmp_path / 'run' / 'checkpoints')[-1] == 10


def test_a_process_that_is_stuck_is_named_and_a_signal_ends_the_others(text, tmp_path):
    more = dict(train__steps=10**6, eval__every=10**6, checkpoint__every=10**6)
    run = start(2, 1, tmp_path / 'run', text, heartbeat=600, patience=1, **more)
    wait_for(lambda: losses(tmp_path / 'run').keys() >= {(30, 'loss')}, run)
    workers = children(run.pid)
    os.kill(workers[1], signal.SIGSTOP)
    try:
        line = next(line for line in run.stdout if line.startswith('process 0: no update for '))
        assert line.endswith('; behind: process 1\n')
        began = time.monotonic()
        os.kill(workers[0], signal.SIGTERM)
        line = next(line for line in run.stdout if line.startswith('process 0 of 2 ended'))
        assert line.endswith('with status 75\n') and time.monotonic() - began < 15
    finally:
        os.kill(workers[1], signal.SIGKILL)
    assert run.wait(20) == 75


@pytest.mark.quick
@pytest.mark.parametrize(
    'notes, behind',
    [
        ([{'a/0': '7 1', 'a/1': '7 1'}], ''),
        ([{'a/0': '8 1', 'a/1': '7 1', 'a/2': '7 1'}], '1, 2'),  # fewer steps
        ([{'a/0': f'7 {i}', 'a/1': '7 5'} for i in range(4)], '1'),  # does not run
        ([{'a/0': f'7 {i}', 'a/1': '7 5'} for i in range(3)], ''),  # not yet known
    ],
)
def test_who_is_behind(notes, behind):
    assert stuck._behind(notes) == behind


def children(pid):
    """The processes that one has started, in this order."""
    return [*map(int, pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split())]


@pytest.mark.parametrize('process', [0, 1])
def test_a_process_whose_peers_never_come_ends_with_a_line(process):
    """Process 0 waits for the others; these wait for its address."""
    address = f'localhost:{local.free_port()}'
    code = (
        f'from gpt1_jax.parallel import processes; processes.WAIT_S = 3; '
        f'processes.start({address!r}, 2, {process})'
    )
    done = python('-X', 'faulthandler', '-c', code, timeout=100, check=1)
    first, last = done.stderr.splitlines()
    assert done.stdout == '' and first == f'waiting for 2 processes at {address} ...'
    assert last.startswith(f'error: waited 3 s for 2 processes at {address}: ')


def test_a_signal_while_waiting_for_the_others_ends_a_process_with_the_status_that_asks_for_a_restart():
    command = [
        sys.executable,
        '-m',
        'gpt1_jax',
        'pretrain',
        '--workdir=none',
        '--processes=2',
        '--process=0',
        f'--coordinator=localhost:{local.free_port()}',
    ]
    waiting = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr.readline().startswith('waiting for 2 processes')
    time.sleep(2)
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(20) == 75 and 'error: stopped by SIGTERM' in waiting.stderr.read()


def test_processes_that_disagree_say_what_differs(text, tmp_path):
    status, out = ended(
        start(2, 1, tmp_path / 'run', text, process_1={'optimizer__peak_rate': 2e-2})
    )
    line = 'error: config.optimizer.peak_rate: not the same in process 1 of 2 as in process 0'
    assert status == 1 and out.count(line) == 2, out
    assert not (tmp_path / 'run' / 'checkpoints').exists()


# Where nothing is started: what tells that there are others


@pytest.fixture
def environment(monkeypatch):
    """Sets environment variables; gives the calls of jax.distributed.initialize, which finds no
    others by itself unless `detected`."""
    called = []
    for name in (*processes_lib.VARIABLES, *processes_lib.LAUNCHERS, 'JOB_COMPLETION_INDEX'):
        monkeypatch.delenv(name, raising=False)

    def set_to(given={}, detected=False, **variables):
        def initialize(*arguments, **how):
            if arguments == (None, None, None) and not detected:
                raise ValueError('coordinator_address should be defined.')
            called.append(arguments)

        monkeypatch.setattr(jax.distributed, 'initialize', initialize)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        processes_lib.start(**given)
        return called

    return set_to


ALL = {'JAX_COORDINATOR_ADDRESS': 'a:1', 'JAX_NUM_PROCESSES': '4', 'JAX_PROCESS_ID': '3'}


@pytest.mark.quick
@pytest.mark.parametrize(
    'variables, given, calls',
    [
        ({}, {}, []),
        ({'detected': True}, {}, [(None, None, None)]),
        ({'WORLD_SIZE': '2', 'detected': True}, {}, [(None, None, None)]),
        # JAX's own variables are the flags' defaults
        (ALL, {}, [('a:1', 4, 3)]),
        (ALL, {'process': 2}, [('a:1', 4, 2)]),
        (ALL, {'processes': 1}, []),
        # one alone
        ({'WORLD_SIZE': '1', 'PMI_SIZE': '1', 'LWS_GROUP_SIZE': '1'}, {}, []),
        ({'WORLD_SIZE': '', 'PMI_SIZE': '', 'JAX_NUM_PROCESSES': ''}, {}, []),
    ],
    ids=str,
)
def test_the_environment_and_the_flags_say_whether_there_are_others_and_who(
    environment, variables, given, calls
):
    assert environment(**variables, given=given) == calls


@pytest.mark.parametrize(
    'variables, message',
    [
        ({'JAX_PROCESS_ID': None}, r'--process \(JAX_PROCESS_ID\) is None, must be a whole number'),
        (
            {'JAX_NUM_PROCESSES': None, 'JAX_PROCESS_ID': None},
            r'\(JAX_NUM_PROCESSES\) is '
            r'.*\(JAX_PROCESS_ID\) is None',
        ),
        ({'JAX_NUM_PROCESSES': 'four'}, r"\(JAX_NUM_PROCESSES\) is 'four', must be a whole number"),
        (
            {'JAX_PROCESS_ID': '4'},
            r'--process \(JAX_PROCESS_ID\) is 4, must be a whole number from 0 '
            r'to 3',
        ),
        (
            {'JAX_NUM_PROCESSES': None},
            r'^--processes \(JAX_NUM_PROCESSES\) is None, must be a whole '
            r'number[^;]*$',
        ),
        (
            {'JAX_COORDINATOR_ADDRESS': 'a'},
            r"--coordinator \(JAX_COORDINATOR_ADDRESS\) is 'a', must "
            r'be HOST:PORT',
        ),
    ],
)
def test_variables_that_do_not_fit_are_named(environment, variables, message):
    with pytest.raises(UserError, match=message):
        environment(
            **{name: value for name, value in (ALL | variables).items() if value is not None}
        )


@pytest.mark.parametrize(
    'variable, value', [('JOB_COMPLETION_INDEX', '0'), ('WORLD_SIZE', '2'), ('PMI_SIZE', '8')]
)
def test_one_of_several_that_does_not_know_which_is_refused_unless_it_is_said_to_be_alone(
    environment, variable, value
):
    with pytest.raises(
        UserError,
        match=f'^{variable}={value} in the environment: this seems .* JAX_COORDINATOR_ADD',
    ):
        environment(**{variable: value})
    assert environment(**{variable: value}, given=dict(processes=1)) == []
    assert environment(**{variable: value}, JAX_NUM_PROCESSES='1') == []


@pytest.mark.parametrize('given', ['', '--xla_gpu_autotune_level=0', processes_lib.DETERMINISTIC])
def test_the_flags_for_determinism_are_given_to_xla_once(monkeypatch, given):
    """Checkpoints record XLA_FLAGS, and a replay with them twice would be another setup."""
    monkeypatch.setenv('XLA_FLAGS', given)
    processes_lib.start(processes=1, deterministic=True)
    assert sorted(os.environ['XLA_FLAGS'].split()) == sorted(processes_lib.DETERMINISTIC.split())
