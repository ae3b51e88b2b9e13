"""Calls functions one after the other, or several at a time, each in a process.

A GPU waits while a process reads rows, compiles a program or saves a checkpoint. Several processes
keep it busy. Each process has a time limit and a log of the lines that it prints. If a process
crashes, the others are not affected.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from gpt1_jax import cli, errors
from gpt1_jax.runs.console import duration


class Job(NamedTuple):
    """A call to make. log: the file for its printed lines if the call gets a process."""

    name: str
    function: Callable
    arguments: tuple
    log: pathlib.Path


class Outcome(NamedTuple):
    """A call that has ended. error: one line if it has no value."""

    job: Job
    value: Any
    error: str
    seconds: float


def share_devices() -> None:
    """Let several processes use one GPU: JAX then takes memory only when it needs some.

    Call this before a device is used.
    """
    os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')


def call(
    jobs: Sequence[Job], config: ConfigDict, may_start: Callable[[], bool] = lambda: True
) -> Iterator[Outcome]:
    """Make the calls, and yield each as it ends.

    config.processes: how many at a time. With 0 the calls run in this process, in turn, and an
    exception reaches the caller. config.run_minutes: with processes, a call that takes longer is
    ended. may_start: asked before each call. Calls for which it returns False are not made. Closing
    the iterator ends the processes.
    """
    if not config.processes:
        for job in jobs:
            if not may_start():
                return
            print(job.name, flush=True)
            began = time.monotonic()
            value = job.function(*job.arguments)
            yield Outcome(job, value, '', time.monotonic() - began)
        return
    stopped = threading.Event()
    running: set = set()

    def one(job):
        if stopped.is_set() or not may_start():
            return None
        print(job.name, flush=True)
        return _in_process(job, config.run_minutes, running)

    with concurrent.futures.ThreadPoolExecutor(config.processes) as pool:
        try:
            for future in concurrent.futures.as_completed([pool.submit(one, job) for job in jobs]):
                if outcome := future.result():
                    yield outcome
        finally:
            stopped.set()
            for process in list(running):
                process.kill()


def _in_process(job, minutes, running):
    """Do a job in a process, and return its Outcome. The process is in `running` meanwhile."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context('spawn')  # a fork would share the devices of this process
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(job, sender))
    began = time.monotonic()
    process.start()
    running.add(process)
    sender.close()  # so that the pipe ends with the process
    value = None
    try:
        if receiver.poll(minutes and 60 * minutes):
            value, error = receiver.recv()
        else:
            error = f'took over {duration(60 * minutes)}'
    except EOFError:
        process.join()
        error = f'its process ended with status {process.exitcode}'
    # Finished work is in files, and saving more takes longer than repeating it.
    process.kill()
    process.join()
    running.discard(process)
    return Outcome(job, value, error, time.monotonic() - began)


def _child(job, sender):
    """Do a job in the new process, and send its answer."""
    with job.log.open('w', encoding='utf-8') as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this
    threading.Thread(target=_end_with_parent, daemon=True).start()
    share_devices()
    cli.keep_compiled_programs()
    try:
        answer = job.function(*job.arguments), ''
    except Exception as error:
        traceback.print_exc()
        answer = None, errors.one_line(f'{type(error).__name__}: {error}', 300)
    sys.stdout.flush()
    sender.send(answer)


def _end_with_parent():
    """End with the parent, also if it is killed: its next start does the work again."""
    multiprocessing.parent_process().join()
    os._exit(1)
