"""Calls jitted functions on a mesh, with a line while XLA compiles.

'compiling the training step ... 41 s': compiling may take minutes.
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


def on_mesh(
    function: jax.stages.Wrapped, mesh: jax.sharding.Mesh, precision: Callable, name: str = ''
) -> Callable:
    """Wraps a jitted function so that it runs within jax.set_mesh(mesh) and precision().

    Its `trace` is wrapped in the same way. Inside, sharding.constrain finds the mesh. If the
    function has a `name`, its first compilation is announced at once. Any other compilation is
    announced if it takes long. The shapes in the first argument must not change.
    """
    compiled: set[tuple] = set()  # the shapes of the arguments after the first

    def announce(args):
        shapes = tuple(map(np.shape, jax.tree.leaves(args[1:])))
        if shapes in compiled:
            return contextlib.nullcontext()
        patience = 0 if name and not compiled else PATIENCE_S
        compiled.add(shapes)
        return announced(name or f'{function.__name__}()', patience)

    def within(function, announce):
        def call(*args):
            with jax.set_mesh(mesh), precision(), announce(args):
                return function(*args)

        return call

    call = within(function, announce)
    call.trace = within(function.trace, contextlib.nullcontext)
    return call
