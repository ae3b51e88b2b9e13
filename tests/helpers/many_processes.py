"""Processes of runs on this machine: worker.py by itself, and several of one run under the local
runner."""

import json
import os
import subprocess
import sys
import time

from tiny import ROOT

WORKER = str(ROOT / 'tests' / 'helpers' / 'worker.py')
STEPS = 20


def worker(text, directory, devices=None, **overrides):
    """One process of a run by itself."""
    flags = {}
    if devices:
        given = os.environ.get('XLA_FLAGS', '')
        flags['XLA_FLAGS'] = f'{given} --xla_force_host_platform_device_count={devices}'
    return subprocess.Popen(
        [
            sys.executable,
            WORKER,
            f'--text={text}',
            f'--workdir={directory}',
            f'--overrides={json.dumps(overrides)}',
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': str(ROOT)} | flags,
    )


def start(processes, devices, directory, text, **overrides):
    """The local runner with worker.py in it; its output goes to one pipe."""
    small = dict(
        train__steps=STEPS,
        log_every=1,
        eval__every=10,
        checkpoint__every=10,
        data__tokens=str(text.parent / 'tokens'),
        data__corpus='',
    )
    code = (
        'import sys; from experiments.launch import local; sys.exit(local.run([sys.executable, '
        f'{WORKER!r}, *sys.argv[1:]], {processes}, {devices}))'
    )
    return subprocess.Popen(
        [
            sys.executable,
            '-c',
            code,
            f'--text={text}',
            f'--workdir={directory}',
            f'--overrides={json.dumps(small | overrides)}',
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {'PYTHONPATH': str(ROOT)},
    )


def ended(process):
    out, _ = process.communicate(timeout=400)
    return process.returncode, out


def wait_for(condition, process, timeout=200):
    """Waits until the condition holds. An error if the process has ended before."""
    deadline = time.monotonic() + timeout
    while not condition():
        late = time.monotonic() > deadline
        if late:
            process.terminate()
        assert not late and process.poll() is None, process.communicate(timeout=60)
        time.sleep(0.01)
