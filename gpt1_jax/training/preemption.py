"""Preemption: SIGTERM, SIGINT or SIGHUP ends a run at the next step boundary.

SIGHUP means that the terminal was closed. All processes end at the same step.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import jax
from jax.experimental import multihost_utils

from gpt1_jax.parallel import stuck


@contextlib.contextmanager
def watch() -> Iterator[Callable[[int], str]]:
    """Yields a function step -> name of the signal that asked to stop, or ''.

    Call it once a step, with the same steps in every process.

    A second SIGTERM or SIGINT is not caught. SIGHUP is not handled if the process ignores it
    (nohup). Once a signal was caught, SIGHUP is ignored: a closed terminal may send several, and
    none may end the process while it saves. With several processes, jax's SIGTERM handler notifies
    the others, and they agree on a step. A SIGTERM handler here would disable it.
    """
    if jax.process_count() > 1:
        numbers = (signal.SIGINT, *_hangup())

        def terminate(number):
            os.kill(os.getpid(), signal.SIGTERM)

        with _handling(numbers, terminate), stuck.watch() as note:

            def stopped(step):
                note(step)
                return 'SIGTERM' if multihost_utils.reached_preemption_sync_point(step) else ''

            yield stopped
        return
    caught = []
    numbers = (signal.SIGTERM, signal.SIGINT, *_hangup())
    with _handling(numbers, lambda number: caught.append(signal.Signals(number).name)):
        yield lambda step: caught[0] if caught else ''


def _hangup():
    """(SIGHUP,), or () if this process was started to ignore it."""
    return () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)


@contextlib.contextmanager
def _handling(numbers, act):
    """The first of these signals calls act(number).

    After it the former handlers are back, and SIGHUP is ignored.
    """

    def handler(number, frame):
        for caught, former in previous.items():
            # A second SIGTERM ends even a process whose step hangs and in which no Python handler
            # would run.
            after = {signal.SIGHUP: signal.SIG_IGN, signal.SIGTERM: signal.SIG_DFL}
            signal.signal(caught, after.get(caught, former))
        act(number)
        # Stderr is closed, or the signal came while it was written
        with contextlib.suppress(OSError, RuntimeError):
            print(
                f'{signal.Signals(number).name}: saving after this step, then stopping',
                file=sys.stderr,
                flush=True,
            )

    if threading.current_thread() is not threading.main_thread():
        numbers = ()  # Python lets handlers be set only in the main thread
    previous = {}  # filled one by one, as a signal may come in between
    for number in numbers:
        previous[number] = signal.getsignal(number)
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in previous.items():
            if number != signal.SIGHUP or signal.getsignal(number) is handler:
                signal.signal(number, former)
