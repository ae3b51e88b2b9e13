"""Calls functions one after the other, or several at a time, each in a process.

A GPU waits while a process reads rows, compiles a program or saves a checkpoint. Several processes
keep it busy. Each process has a time limit and a log of the lines that it prints. If a process
crashes, the others are not affected.
"""

import collections
import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from typing import Any, NamedTuple

from gpt1_jax import cli, errors
from gpt1_jax.runs.console import duration

EVERY = 0.2  # seconds between looks at the time limits


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
    jobs: Sequence[Job],
    processes: int = 0,
    seconds: float | None = None,
    may_start: Callable[[], bool] = lambda: True,
) -> Iterator[Outcome]:
    """Make the calls, and yield each as it ends.

    processes: how many at a time. With 0 the calls run in this process, in turn, and an exception
    reaches the caller. seconds: with processes, a call that takes longer is ended. may_start: asked
    before each call. Once it returns False, no other call is made. Closing the iterator ends the
    processes.
    """
    if processes:
        yield from _in_processes(jobs, processes, seconds, may_start)
        return
    for job in jobs:
        if not may_start():
            return
        print(job.name, flush=True)
        began = time.monotonic()
        value = job.function(*job.arguments)
        yield Outcome(job, value, '', time.monotonic() - began)


def _in_processes(jobs, processes, seconds, may_start):
    waiting = collections.deque(jobs)
    running = {}  # {the end of its pipe: (job, process, when it began)}
    try:
        while True:
            while waiting and len(running) < processes and may_start():
                job = waiting.popleft()
                print(job.name, flush=True)
                began = time.monotonic()
                pipe, process = _start(job)
                running[pipe] = job, process, began
            if not running:
                return
            ready = connection.wait(list(running), EVERY)
            for pipe, (job, process, began) in list(running.items()):
                passed = time.monotonic() - began
                late = seconds is not None and passed > seconds
                if pipe not in ready and not late:
                    continue
                if pipe in ready:
                    value, error = _answer(pipe, process)
                else:
                    value = None
                    error = f'took over {duration(seconds)}'
                _end(process)
                del running[pipe]
                yield Outcome(job, value, error, passed)
    finally:
        for _, process, _ in running.values():
            _end(process)


def _start(job):
    """Start a job, and return (the end of a pipe that receives the answer, the process)."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context('spawn')  # a fork would share the devices of this process
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(job, sender))
    process.start()
    sender.close()  # so that the pipe ends with the process
    return receiver, process


def _answer(pipe, process):
    """Return (value, error) of a process that has sent its answer, or died without an answer."""
    with contextlib.suppress(EOFError):
        return pipe.recv()
    process.join()
    return None, f'its process ended with status {process.exitcode}'


def _end(process):
    """Kill a process. Finished work is in files, and saving more takes longer than repeating it."""
    process.kill()
    process.join()


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
