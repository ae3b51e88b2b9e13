"""Calls jitted functions on a mesh, with a line while XLA compiles.

'compiling training_step() ... 41 s': compiling may take minutes.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np

PATIENCE_S = 5


@contextlib.contextmanager
def announced(what: str) -> Iterator[None]:
    """Prints to stderr that `what` is compiled, and the seconds that it took.

    Nothing is printed if it takes at most PATIENCE_S seconds. Only process 0 prints.
    """
    began = time.monotonic()
    printed = threading.Event()

    def begin():
        printed.set()
        print(f'compiling {what} ...', end=' ', file=sys.stderr, flush=True)

    timer = threading.Timer(PATIENCE_S, begin)
    if jax.process_index() == 0:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if printed.is_set():
            print(f'{time.monotonic() - began:.0f} s', file=sys.stderr, flush=True)


def on_mesh(function: jax.stages.Wrapped, mesh: jax.sharding.Mesh, precision: Callable) -> Callable:
    """Wraps a jitted function so that it runs within jax.set_mesh(mesh) and precision().

    Its `trace` is wrapped in the same way. Inside, sharding.constrain finds the mesh. A compilation
    that takes long is announced. The shapes in the first argument must not change.
    """
    compiled: set[tuple] = set()  # the shapes of the arguments after the first

    def announce(args):
        shapes = tuple(map(np.shape, jax.tree.leaves(args[1:])))
        if shapes in compiled:
            return contextlib.nullcontext()
        compiled.add(shapes)
        return announced(f'{function.__name__}()')

    def within(function, announce):
        def call(*args):
            with jax.set_mesh(mesh), precision(), announce(args):
                return function(*args)

        return call

    call = within(function, announce)
    call.trace = within(function.trace, contextlib.nullcontext)
    return call
