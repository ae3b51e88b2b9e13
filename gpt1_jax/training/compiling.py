"""Prints a line while XLA compiles: 'compiling the training step ... 41 s'.

Compiling may take minutes.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

import jax

PATIENCE_S = 5


@contextlib.contextmanager
def announced(what: str, patience: float = PATIENCE_S) -> Iterator[None]:
    """Prints to stderr that `what` is compiled, and the seconds that it took.

    Nothing is printed if it takes at most `patience` seconds. Only process 0 prints.
    """
    began = time.monotonic()
    printed = threading.Event()

    def begin():
        printed.set()
        print(f'compiling {what} ...', end=' ', file=sys.stderr, flush=True)

    timer = threading.Timer(patience, begin)
    if not patience and jax.process_index() == 0:
        begin()
    elif jax.process_index() == 0:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if printed.is_set():
            print(f'{time.monotonic() - began:.0f} s', file=sys.stderr, flush=True)
