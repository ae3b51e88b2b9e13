"""Names the process of several that keeps the others waiting, and lets SIGTERM end them then.

Each process notes its last step, and a count that grows while it runs, in the key-value store of
jax's coordinator. The wait itself is inside XLA, where no Python handler of a signal would run.
"""

import collections
import contextlib
import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import jax

from gpt1_jax import startup
from gpt1_jax.errors import UserError

STEPS = 10  # usual steps without an update, after which a process is looked for
LEAST_S = 60  # and at least so long
POLL_S = 4
SILENT_POLLS = 3  # after so many a count that does not grow means that a process does not run
NOTES = 'gpt1_jax/steps'
ASKED_TO_STOP = 'RECEIVED_PREEMPTION_NOTICE'  # jax sets it when one of the processes gets SIGTERM


@contextlib.contextmanager
def watch() -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of each step that was started."""
    steps: collections.deque = collections.deque(maxlen=STEPS + 1)
    done = threading.Event()
    threading.Thread(target=_look, args=(steps, done), daemon=True).start()
    try:
        yield lambda step: steps.append((step, time.monotonic()))
    except UserError:  # in every process
        done.set()
        raise
    # Not after another error: then this process waits for jax to name the one that is gone.
    done.set()


def _look(steps, done):
    """Until `done`: note the last of `steps`, and compare it with the others' if it is long ago."""
    from jax._src import distributed  # the store has no public name

    client = distributed.global_state.client
    me = jax.process_index()
    seen: collections.deque = collections.deque(maxlen=SILENT_POLLS + 1)
    told = None
    # Without a coordinator jax ends this process itself.
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        for count in itertools.count():
            if done.wait(POLL_S):
                return
            latest = list(steps) or [(0, 0)]
            step, since = latest[-1]
            client.key_value_set(f'{NOTES}/{me}', f'{step} {count}', allow_overwrite=True)
            seen.append(dict(client.key_value_dir_get(NOTES)))
            idle = time.monotonic() - since
            behind = _behind(seen)
            if len(latest) <= STEPS or idle < max(LEAST_S, since - latest[0][1]) or not behind:
                continue
            if told != step:
                told = step
                print(
                    f'process {me}: no update for {idle:.0f} s after step {step:,}; behind: '
                    f'process {behind}',
                    file=sys.stderr,
                    flush=True,
                )
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # the key is not there
                client.key_value_try_get(ASKED_TO_STOP)
                startup.stopped(signal.SIGTERM, None)


def _behind(seen):
    """'1, 3': the processes with fewer steps than another, or whose notes did not change. seen: the
    notes at the last polls."""
    steps = {key: int(note.split()[0]) for key, note in seen[-1].items()}
    found = []
    for key in sorted(steps):
        silent = len(seen) > SILENT_POLLS and seen[0].get(key) == seen[-1][key]
        if silent or steps[key] < max(steps.values()):
            found.append(key.rpartition('/')[2])
    return ', '.join(found)
