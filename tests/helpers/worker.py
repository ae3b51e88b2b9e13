"""One of the processes of a test: pretrains a tiny model and notes every window that it takes.

worker.py --text=DIR --workdir=DIR --overrides='{"train__steps": 4}' --coordinator=HOST:PORT
--processes=N --process=I
"""

import json
import os
import time

import numpy as np
from absl import flags

from gpt1_jax import cli, pretraining, storage
from gpt1_jax.data import windows
from gpt1_jax.parallel import processes, stuck
from gpt1_jax.training import device_data
from tiny import pretrain_config


def define_flags():
    cli.define_process_flags()
    for name in ('text', 'workdir', 'overrides'):
        flags.DEFINE_string(name, '', f'See {__file__}.')


def main():
    f = flags.FLAGS
    read = {}
    real = windows.window_numbers
    directory = storage.path(f.workdir)
    process = f.process or 0
    overrides = json.loads(f.overrides or '{}')
    own = {name: overrides.pop(name) for name in list(overrides) if name.startswith('process_')}
    overrides |= own.get(f'process_{process}', {})
    dies = overrides.pop('dies_at', None)
    processes.HEARTBEAT_S = overrides.pop('heartbeat', processes.HEARTBEAT_S)
    stuck.LEAST_S = overrides.pop('patience', stuck.LEAST_S)
    stuck.POLL_S = min(stuck.POLL_S, stuck.LEAST_S)
    processes.start(f.coordinator, f.processes, f.process, f.deterministic)

    def window_numbers(stream, step, seed, size, n_ctx, rows=slice(None)):
        if step == dies:
            time.sleep(3)  # for the last checkpoint, which is written in the background
            os._exit(9)
        found = real(stream, step, seed, size, n_ctx, rows)
        read.update({f'{step}/{row}': number for row, number in zip(range(size)[rows], found)})
        return found

    windows.window_numbers = device_data.window_numbers = window_numbers
    pretraining.run(pretrain_config(f.text, **overrides), directory)
    if not storage.remote(directory):
        np.savez(directory.parent / f'{directory.name}_read_{process}.npz', **read)


if __name__ == '__main__':
    cli.run(main, define_flags)
