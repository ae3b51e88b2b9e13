"""Being asked to stop: SIGTERM or SIGINT ends a run at the next step boundary; all processes at the same one."""
import contextlib
import os
import signal
import sys

import jax
from jax.experimental import multihost_utils


@contextlib.contextmanager
def watch():
    """Gives a function step -> name of the signal that asked to stop, or ''. It is called once a step, with the same
    steps in every process. A second signal is not caught.

    With several processes jax's own SIGTERM handler tells the others, and they agree on a step; a handler of ours would
    disable it.
    """
    if jax.process_count() > 1:
        with _handling((signal.SIGINT,), lambda number: os.kill(os.getpid(), signal.SIGTERM)):
            yield lambda step: 'SIGTERM' if multihost_utils.reached_preemption_sync_point(step) else ''
        return
    caught = []
    with _handling((signal.SIGTERM, signal.SIGINT), lambda number: caught.append(signal.Signals(number).name)):
        yield lambda step: caught[0] if caught else ''


@contextlib.contextmanager
def _handling(numbers, act):
    """The first of these signals calls act(number); the next one does what it did before."""
    def handler(number, frame):
        print(f'{signal.Signals(number).name}: saving after this step, then stopping', file=sys.stderr, flush=True)
        for one, old in previous.items():
            signal.signal(one, old)
        act(number)

    try:
        previous = {one: signal.signal(one, handler) for one in numbers}
    except ValueError:  # not the main thread: whoever runs us there handles signals
        previous = {}
    try:
        yield
    finally:
        for one, old in previous.items():
            signal.signal(one, old)
