"""Several processes, one a host: who they are, what they must agree on, who writes.

Not in the paper. The program is the same in every process; jax makes one mesh of the devices of all.
"""
import faulthandler
import glob
import hashlib
import importlib.util
import json
import os
import socket
import sys
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

from gpt1_jax import storage
from gpt1_jax.errors import UserError

# A process that is silent for so long is taken for dead, and ends the run everywhere. Compiling holds no heartbeat up.
HEARTBEAT_S = 60
DETERMINISTIC = '--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0'  # tuning may choose anew at a restart


def start(coordinator=None, processes=None, process=None, deterministic=False):
    """`initialize` and `keep_programs`, and on GPUs flags for results that are the same to the bit: before anything
    touches a device."""
    if deterministic:
        os.environ['XLA_FLAGS'] = f'{os.environ.get("XLA_FLAGS", "")} {DETERMINISTIC}'.strip()
    initialize(coordinator, processes, process)
    keep_programs()


def keep_programs():
    """Compiled programs are kept on this host for the next start, where compiling takes long: on GPUs and TPUs, unless
    JAX_COMPILATION_CACHE_DIR says where (a CPU's are soon made, and run on no other)."""
    if jax.config.jax_compilation_cache_dir is None and jax.default_backend() != 'cpu':
        jax.config.update('jax_compilation_cache_dir', str(storage.cache('programs')))


def initialize(coordinator=None, processes=None, process=None):
    """Join the other processes, if there are any; call it before anything touches a device.

    coordinator: 'HOST:PORT' of process 0, with the number of processes and this one's number, where nothing tells; on
    TPU pods, under SLURM and under Open MPI jax finds all three in the environment. All but process 0 print nothing.
    UserError where they do not fit, or where nobody answers.
    """
    given = (coordinator, processes, process)
    if any(one is not None for one in given):
        if any(one is None for one in given):
            raise UserError('give --coordinator=HOST:PORT, --processes=N and --process=I together')
        if not 0 <= process < processes:
            raise UserError(f'--process={process} must be from 0 to {processes - 1} (--processes={processes})')
    elif not _environment_has_several() and not _tpu_vm():
        return
    try:
        jax.distributed.initialize(coordinator, processes, process, heartbeat_timeout_seconds=HEARTBEAT_S)
    except (RuntimeError, ValueError) as error:
        raise UserError(f'could not join the other processes (coordinator {coordinator or "of the environment"}): '
                        f'{" ".join(str(error).split())[:300]}') from None
    except OSError as error:  # no such server
        raise UserError(f'could not ask the metadata server of this TPU VM for the other processes ({error}): where '
                        'there is none, set TPU_SKIP_MDS_QUERY=1') from None
    if jax.process_count() == 1:
        return
    if not primary():
        sys.stdout = open(os.devnull, 'w', encoding='utf-8')
    print('processes: ' + ', '.join(f'{i} on {host}' for i, host in enumerate(hosts())), flush=True)


def joined() -> bool:
    """Whether this process is one of several."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def lost(error) -> bool:
    """Whether an exception means that another process is gone; then jax is given the time to say which one
    (`tasks are unhealthy`, or that the leader, process 0, is gone), and to end this process with that line."""
    if not joined() or not isinstance(error, jax.errors.JaxRuntimeError) or 'RESOURCE_EXHAUSTED' in str(error):
        return False
    print(f'error: process {jax.process_index()}: a step failed in several processes '
          f'({" ".join(str(error).split())[:200]}); waiting up to {2 * HEARTBEAT_S} s for the number of the process '
          'that is gone', file=sys.stderr, flush=True)
    faulthandler.disable()  # no one wants to know where we waited
    time.sleep(2 * HEARTBEAT_S)
    return True


def primary() -> bool:
    """Whether this process writes logs, results and configs: one of all does."""
    return jax.process_index() == 0


def hosts() -> list[str]:
    """The name of each process's host: what a process's number in an error stands for."""
    own = np.zeros(64, np.uint8)
    name = socket.gethostname().encode()[:64]
    own[:len(name)] = np.frombuffer(name, np.uint8)
    return [bytes(one).rstrip(b'\0').decode(errors='replace') for one in multihost_utils.process_allgather(own)]


def barrier(name):
    """Wait for the other processes."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def everywhere(fact: bool) -> bool:
    """Whether it is so in every process."""
    return bool(np.all(multihost_utils.process_allgather(np.array(fact)))) if jax.process_count() > 1 else fact


def agree(facts: dict):
    """UserError, in every process, that names what differs between them and where.

    facts: {'the code': value that JSON can hold, 'config.seed': ...}.
    """
    if jax.process_count() == 1:
        return
    others = _differing([facts])[0]
    if not others:
        return
    if _differing([sorted(facts)])[0]:
        names = ['the fields of the config']
    else:
        found = _differing([facts[name] for name in sorted(facts)])
        names = [name for name, differs in zip(sorted(facts), found) if differs]
    raise UserError(f'{", ".join(names)}: not the same in process {", ".join(map(str, others))} of '
                    f'{jax.process_count()} as in process 0')


def _differing(values):
    """Of each value: the processes whose own is not that of process 0."""
    digests = [hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).digest() for value in values]
    every = multihost_utils.process_allgather(np.stack([np.frombuffer(one, np.uint8) for one in digests]))
    return [[i for i in range(len(every)) if (every[i, k] != every[0, k]).any()] for k in range(len(values))]


def _environment_has_several():
    """Whether the environment is that of one of several processes: SLURM, Open MPI, or TPUs under Kubernetes."""
    counts = [os.environ.get(name, '') for name in ('SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE')]
    hosts = os.environ.get('TPU_WORKER_HOSTNAMES', '')
    return any(count.isdigit() and int(count) > 1 for count in counts) or ',' in hosts or \
        'MEGASCALE_COORDINATOR_ADDRESS' in os.environ


def _tpu_vm():
    """Whether this is a TPU VM of the cloud: one of several, or alone, as its metadata server says, which jax asks."""
    return bool(importlib.util.find_spec('libtpu') and (glob.glob('/dev/accel*') or glob.glob('/dev/vfio/[0-9]*'))
                and 'tpu' in os.environ.get('JAX_PLATFORMS', 'tpu') and 'TPU_SKIP_MDS_QUERY' not in os.environ)
