"""Several real processes on this machine, each with several devices: the same run as one process's."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from tiny import ROOT, corpus, pretrain_config

from gpt1_jax import checkpoint, distributed, pretrain, results, storage
from gpt1_jax.data import tokens
from gpt1_jax.errors import UserError

WORKER = str(pathlib.Path(__file__).with_name('worker.py'))
STEPS = 20


def start(processes, devices, directory, text, **overrides):
    """The local runner with worker.py in it; its output goes to one pipe."""
    small = dict(train__steps=STEPS, log_every=1, eval__every=10, checkpoint__every=10,
                 data__tokens=str(text.parent / 'tokens'), data__corpus='')
    code = ('import sys; from experiments.launch import local; '
            f'sys.exit(local.run([sys.executable, {WORKER!r}, *sys.argv[1:]], {processes}, {devices}))')
    return subprocess.Popen(
        [sys.executable, '-c', code, f'--text={text}', f'--workdir={directory}',
         f'--overrides={json.dumps(small | overrides)}'], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=os.environ | {'PYTHONPATH': str(ROOT)})


def ended(process, timeout=400):
    out, _ = process.communicate(timeout=timeout)
    return process.returncode, out


def losses(directory):
    rows = results.read(directory / 'metrics.jsonl')
    return {(row['step'], name): row[name] for row in rows for name in ('loss', 'valid_loss') if name in row}


def rows_read(directory, process):
    return dict(np.load(directory.parent / f'{directory.name}_read_{process}.npz'))


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    """Text with its shards beside it, as several processes want them."""
    root = tmp_path_factory.mktemp('distributed')
    pretrain.run(pretrain_config(corpus(root / 'text'), data__tokens=str(root / 'tokens'), train__steps=1),
                 root / 'prepare')
    return root / 'text'


@pytest.fixture(scope='module')
def alone(text):
    """One process with four devices, not interrupted."""
    status, out = ended(start(1, 4, text.parent / 'alone', text))
    assert status == 0, out
    return text.parent / 'alone'


def check_losses(directory, alone):
    expected, found = losses(alone), losses(directory)
    assert found.keys() == expected.keys() and len(found) == STEPS + 2
    np.testing.assert_allclose([found[k] for k in expected], list(expected.values()), rtol=2e-5)


def check_same(directory, alone, text, processes):
    check_losses(directory, alone)
    stream = tokens.open_split(text.parent / 'tokens', 'train')
    each = [rows_read(directory, i) for i in range(processes)]
    for step in range(STEPS):
        for row, number in enumerate(tokens.numbers(stream, step, 0, 8, 16)):
            taken = [found[f'{step}/{row}'] for found in each if f'{step}/{row}' in found]
            assert len(taken) >= 1 and all(one == number for one in taken)
    return each


@pytest.mark.parametrize('processes, devices, mesh', [
    (2, 2, {}), (4, 1, {'mesh__fsdp': 4, 'data__resident': 'yes'}),
    pytest.param(4, 2, {'mesh__fsdp': 4}, marks=pytest.mark.slow), pytest.param(
        2, 2, {'mesh__fsdp': 2, 'mesh__tensor': 2}, marks=pytest.mark.slow)], ids=str)
def test_several_processes_are_one_run(text, alone, tmp_path, processes, devices, mesh):
    process = start(processes, devices, tmp_path / 'run', text, **mesh)
    status, out = ended(process)
    assert status == 0, out
    each = check_same(tmp_path / 'run', alone, text, processes)
    if 'mesh__tensor' not in mesh:  # each row is of one process alone
        assert sum(map(len, each)) == 8 * STEPS
    assert out.count(f'step {STEPS}/{STEPS}') == 1  # one of them talks
    assert {p.name for p in (tmp_path / 'run').iterdir()} == {
        'config.json', 'parameters.txt', 'environment.jsonl', 'tokenizer', 'checkpoints', 'metrics.jsonl'}


def stopped_at(out):
    return [int(line.split(' at step ')[1].split(' of ')[0]) for line in out.splitlines() if 'stopped by SIG' in line]


def test_a_signal_to_one_stops_all_at_the_same_step_and_any_number_goes_on(text, alone, tmp_path):
    run = start(2, 2, tmp_path / 'run', text, train__steps=400)
    wait_for(tmp_path / 'run', 5)
    run.send_signal(signal.SIGTERM)
    status, out = ended(run)
    steps = stopped_at(out)
    assert status == 75 and len(steps) == 2 and steps[0] == steps[1], out
    assert checkpoint.steps(tmp_path / 'run' / 'checkpoints')[-1] == steps[0]


def test_any_number_of_processes_and_devices_goes_on_where_another_was(text, alone, tmp_path):
    """1 x 2, then 2 x 2, then 1 x 8, each but the last dying without a word."""
    for processes, devices, dies, first in ((1, 2, 7, 0), (2, 2, 13, 5), (1, 8, None, 10)):
        status, out = ended(start(processes, devices, tmp_path / 'run', text, dies_at=dies, checkpoint__every=5))
        assert status == (9 if dies else 0) and f'step {first} of {STEPS}: ' in out, out
    check_losses(tmp_path / 'run', alone)


def wait_for(directory, step, timeout=200):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        rows = results.read(directory / 'metrics.jsonl')
        if rows and rows[-1]['step'] >= step:
            return
        time.sleep(0.05)
    raise AssertionError(f'{directory}: step {step} not reached')


@pytest.mark.parametrize('dead', [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_process_that_dies_ends_the_others_with_a_line_that_names_it(text, tmp_path, dead):
    """Here after a heartbeat of ten seconds; a minute by default."""
    began = time.monotonic()
    status, out = ended(start(3, 1, tmp_path / 'run', text, batch__size=6, eval__batch_size=6,
                              heartbeat=10, **{f'process_{dead}': {'dies_at': 12}}))
    assert status == 9 and time.monotonic() - began < 300  # starting and compiling too
    named = 'the leader task' if dead == 0 else 'stopped sending heartbeats):\n1\n'
    assert named in out and f'processes: 0 on {socket.gethostname()}, 1 on ' in out, out
    assert checkpoint.steps(tmp_path / 'run' / 'checkpoints')[-1] == 10


def test_processes_that_disagree_say_what_differs(text, tmp_path):
    status, out = ended(start(2, 1, tmp_path / 'run', text, process_1={'optimizer__peak_rate': 2e-2}))
    line = 'error: config.optimizer.peak_rate: not the same in process 1 of 2 as in process 0'
    assert status == 1 and out.count(line) == 2, out
    assert not (tmp_path / 'run' / 'checkpoints').exists()


# Where nothing is started: what tells that there are others

@pytest.fixture
def environment(monkeypatch):
    """Sets environment variables, and whether this is a TPU VM; gives the calls of jax.distributed.initialize."""
    called = []
    monkeypatch.setattr(jax.distributed, 'initialize', lambda *given, **how: called.append(given))

    def set_to(tpu_vm=False, **variables):
        monkeypatch.setattr(distributed, '_tpu_vm', lambda: tpu_vm)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        distributed.initialize()
        return called
    return set_to


@pytest.mark.parametrize('variables', [
    {'SLURM_STEP_NUM_TASKS': '8'}, {'OMPI_COMM_WORLD_SIZE': '2'}, {'TPU_WORKER_HOSTNAMES': 'a,b'},
    {'MEGASCALE_COORDINATOR_ADDRESS': 'a:1'}, {'tpu_vm': True}], ids=str)
def test_jax_is_asked_who_the_others_are_where_there_may_be_some(environment, variables):
    assert environment(**variables) == [(None, None, None)]


@pytest.mark.parametrize('variables', [{}, {'SLURM_STEP_NUM_TASKS': '1'}, {'OMPI_COMM_WORLD_SIZE': '1'},
                                       {'TPU_WORKER_HOSTNAMES': 'localhost'}], ids=str)
def test_a_process_alone_joins_nobody(environment, variables):
    assert environment(**variables) == []


@pytest.mark.parametrize('given, message', [
    (dict(process=1), 'give --coordinator=HOST:PORT, --processes=N and --process=I together'),
    (dict(coordinator='a:1', processes=2), 'together'),
    (dict(coordinator='a:1', processes=2, process=2), r'--process=2 must be from 0 to 1 \(--processes=2\)')])
def test_flags_that_do_not_fit_are_named(given, message):
    with pytest.raises(UserError, match=message):
        distributed.initialize(**given)


@pytest.mark.parametrize('several, text, found', [
    (True, 'Gloo all-reduce failed', True), (True, 'RESOURCE_EXHAUSTED: out of memory', False),
    (False, 'Gloo all-reduce failed', False)])
def test_another_process_is_lost_only_where_there_are_others_and_memory_is_not_short(
        monkeypatch, several, text, found):
    monkeypatch.setattr(distributed, 'joined', lambda: several)
    monkeypatch.setattr(distributed.time, 'sleep', lambda seconds: None)
    monkeypatch.setattr(distributed.faulthandler, 'disable', lambda: None)
    assert distributed.lost(jax.errors.JaxRuntimeError(text)) == found


@pytest.mark.parametrize('backend, before, after', [
    ('gpu', None, 'kept/programs'), ('tpu', None, 'kept/programs'), ('cpu', None, None), ('gpu', 'mine', 'mine')])
def test_compiled_programs_are_kept_where_compiling_takes_long(monkeypatch, backend, before, after):
    monkeypatch.setenv(storage.CACHE, 'kept')
    monkeypatch.setattr(jax, 'default_backend', lambda: backend)
    was = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update('jax_compilation_cache_dir', before)
        distributed.keep_programs()
        assert jax.config.jax_compilation_cache_dir == after
    finally:
        jax.config.update('jax_compilation_cache_dir', was)
