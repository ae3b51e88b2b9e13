"""Joins several processes, usually one per host, and checks that they agree.

Not in the paper. Every process runs the same program on one mesh of all devices, and process 0
writes the files.
"""

import faulthandler
import json
import os
import re
import socket
import sys
import threading
import time
from concurrent import futures

import jax
import numpy as np
from jax.experimental import multihost_utils

from gpt1_jax import rules, storage
from gpt1_jax.errors import UserError

HEARTBEAT_S = 60  # after this long without a heartbeat a process counts as dead, and all others end
WAIT_S = 120  # how long a process waits for the others to start
# Set by Kubeflow's Trainer
VARIABLES = ('JAX_COORDINATOR_ADDRESS', 'JAX_NUM_PROCESSES', 'JAX_PROCESS_ID')
# Set by torchrun, MPICH and LeaderWorkerSet
LAUNCHERS = ('WORLD_SIZE', 'PMI_SIZE', 'LWS_GROUP_SIZE')
ADDRESS = (lambda x: re.fullmatch(r'\S+:\d+', x), 'HOST:PORT')
# Without autotuning, because it may choose other algorithms after a restart.
DETERMINISTIC = '--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0'


def start(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    deterministic: bool = False,
) -> None:
    """Join the other processes, if there are any. Call it before anything touches a device.

    coordinator, processes, process: 'HOST:PORT' of process 0, the number of processes and this
        process's number. By default they come from VARIABLES in the environment. Without these, jax
        detects the others (TPU pods, SLURM, Open MPI, Kubernetes). If it does not, this is the only
        process.
    deterministic: make results on GPUs bitwise repeatable.

    All processes but process 0 print nothing. UserError if the three do not fit together, or if the
    coordinator does not answer, and under a launcher that jax does not detect.
    """
    if deterministic:
        given = os.environ.get('XLA_FLAGS', '').split()
        os.environ['XLA_FLAGS'] = ' '.join(
            [*given, *(flag for flag in DETERMINISTIC.split() if flag not in given)]
        )
    if processes != 1 or coordinator:
        coordinator = coordinator or os.environ.get(VARIABLES[0]) or None
        processes = _number(VARIABLES[1]) if processes is None else processes
        process = _number(VARIABLES[2]) if process is None else process
    if processes == 1 and not coordinator and not process:
        return
    fields = {
        f'--coordinator ({VARIABLES[0]})': (coordinator, ADDRESS),
        f'--processes ({VARIABLES[1]})': (processes, rules.whole(1)),
        f'--process ({VARIABLES[2]})': (
            process,
            rules.whole(0, processes - 1 if isinstance(processes, int) else 2**31 - 1),
        ),
    }
    named = (coordinator, processes, process) != (None, None, None)
    others = f'{processes or "all"} processes at {coordinator or "the address that jax found"}'
    if named:
        rules.require(fields)
        print(f'waiting for {others} ...', file=sys.stderr, flush=True)
    # If jax itself gives up, it aborts this process with a stack trace.
    timer = threading.Timer(WAIT_S, _give_up, [others])
    timer.start()
    try:
        _in_a_thread(
            lambda: jax.distributed.initialize(
                coordinator,
                processes,
                process,
                initialization_timeout=2 * WAIT_S,
                heartbeat_timeout_seconds=HEARTBEAT_S,
            )
        )
    except (RuntimeError, ValueError, OSError) as error:  # OSError: no metadata server of TPUs
        if isinstance(error, ValueError) and not named:
            _check_launcher()
            return
        raise UserError(
            f'could not join the other processes ({others}): {" ".join(str(error).split())[:300]}'
        ) from None
    finally:
        timer.cancel()
    # If another process dies, jax aborts this process. A Python stack trace would hide the reason
    faulthandler.disable()
    if jax.process_count() == 1:
        return
    if not primary():
        sys.stdout = open(os.devnull, 'w', encoding='utf-8')
    hosts = _gathered(socket.gethostname(), 64)
    print('processes: ' + ', '.join(f'{i} on {host}' for i, host in enumerate(hosts)), flush=True)


def _in_a_thread(function):
    """Call a function in a thread, because it waits outside of Python and would block signals.

    Its exceptions are raised here. The end of this process does not wait for it, as it would for a
    thread of a pool.
    """
    outcome: futures.Future = futures.Future()

    def run():
        try:
            outcome.set_result(function())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    outcome.result()


def _give_up(others):
    print(
        f'error: waited {WAIT_S} s for {others}: check that each of them runs and reaches this '
        'address',
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


def _number(variable):
    """Returns the number in an environment variable.

    Other text is returned as it is, and None if there is no text.
    """
    text = os.environ.get(variable, '').strip()
    return int(text) if text.isdecimal() else text or None


def _check_launcher():
    """UserError under a launcher of several processes that jax does not detect.

    Without this error each process would train by itself.
    """
    several = (name for name in LAUNCHERS if os.environ.get(name, '1') not in ('', '1'))
    launcher = next(several, None)
    if os.environ.get('JOB_COMPLETION_INDEX'):
        launcher = 'JOB_COMPLETION_INDEX'  # an indexed Job of Kubernetes
    if launcher:
        raise UserError(
            f'{launcher}={os.environ[launcher]} in the environment: this seems to be one of '
            f'several processes: set {VARIABLES[0]}=HOST:PORT, {VARIABLES[1]} and {VARIABLES[2]}, '
            f'or {VARIABLES[1]}=1 (--processes=1) if it works alone'
        )


def joined() -> bool:
    """Whether this process is one of several."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def lost(error: Exception) -> bool:
    """Whether an exception means that another process died.

    If so, first wait for jax to print its number and to end this process.
    """
    if not joined() or not isinstance(error, jax.errors.JaxRuntimeError):
        return False
    print(
        f'error: process {jax.process_index()}: a step failed in several processes '
        f'({" ".join(str(error).split())[:200]}); waiting up to {2 * HEARTBEAT_S} s for the number '
        'of the process that is gone',
        file=sys.stderr,
        flush=True,
    )
    time.sleep(2 * HEARTBEAT_S)
    return True


def primary() -> bool:
    """Whether this is process 0, the only one that writes logs, results and configs."""
    return jax.process_index() == 0


def barrier(name: str) -> None:
    """Wait until every process is here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def from_primary(text: str) -> str:
    """Process 0's text, truncated to 8,192 bytes, in every process."""
    return _gathered(text, 8192)[0]


def _gathered(text, n):
    """The text of each process, in the order of their numbers.

    If there are several, each text is truncated to n bytes.
    """
    if jax.process_count() == 1:
        return [text]
    # Processes can only exchange arrays of one shape
    array = np.frombuffer(text.encode()[:n].ljust(n, b'\0'), np.uint8)
    gathered = multihost_utils.process_allgather(array)
    return [bytes(row).rstrip(b'\0').decode(errors='replace') for row in gathered]


def everywhere(fact: bool) -> bool:
    """Whether a fact is true in every process."""
    return set(_gathered(str(bool(fact)), 5)) == {'True'}


def agree(facts: dict) -> None:
    """UserError, in every process, if facts differ between processes.

    It names these facts and processes. facts: {'config.seed': JSON value, ...}.
    """
    digests = {name: storage.json_digest(value)[:16] for name, value in facts.items()}
    found = [json.loads(text) for text in _gathered(json.dumps(digests), 1 << 16)]
    others = [str(process) for process, digests in enumerate(found) if digests != found[0]]
    names = [
        name
        for name in sorted(set().union(*found))
        if len({digests.get(name) for digests in found}) > 1
    ]
    if others:
        raise UserError(
            f'{", ".join(names)}: not the same in process {", ".join(others)} of '
            f'{jax.process_count()} as in process 0'
        )
