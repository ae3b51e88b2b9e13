"""Starts several processes on one machine, to try a pod's program without a pod.

python -m experiments.launch.local --processes=2 --devices=2 pretrain \\
    --config=configs/pretrain.py \\
    --workdir=runs/gpt1 --config.data.tokens=runs/tokens

--devices is the number of CPU devices that a process pretends to have. 0 leaves the real devices.
If a process fails, the others end. SIGTERM, SIGINT and SIGHUP are passed on to all processes, which
then save and stop at the same step. The tests use this program.
"""

import argparse
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

GRACE_S = 180  # for the others to name a process that is gone, and to end by themselves


def run(command: Sequence[str], processes: int, devices: int = 0) -> int:
    """Start a command in several processes, and return the first exit status that is not 0, or 0.

    The command gets the flags --coordinator, --processes and --process.
    """
    environment = dict(os.environ)
    if devices:
        flags = (
            f'{environment.get("XLA_FLAGS", "")} --xla_force_host_platform_device_count={devices}'
        )
        environment |= {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': flags.strip()}
    command = [*command, f'--coordinator=localhost:{free_port()}', f'--processes={processes}']
    started = [
        subprocess.Popen([*command, f'--process={i}'], env=environment, start_new_session=True)
        for i in range(processes)
    ]

    def pass_on(number, frame):
        for one in started:
            one.send_signal(number)  # does nothing if it has ended

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not under nohup
        signal.signal(signal.SIGHUP, pass_on)
    status = 0
    deadline = math.inf
    while any(one.poll() is None for one in started):
        for i, one in enumerate(started):
            if one.poll() and not status:
                status = one.returncode
                deadline = time.monotonic() + GRACE_S
                print(
                    f'process {i} of {processes} ended with status {status}',
                    file=sys.stderr,
                    flush=True,
                )
            if time.monotonic() > deadline:
                one.kill()
        time.sleep(0.1)
    return status or next((one.returncode for one in started if one.returncode), 0)


def free_port() -> int:
    """Return a TCP port of localhost that nothing uses."""
    with socket.socket() as one:
        one.bind(('localhost', 0))
        return one.getsockname()[1]


def main(arguments: Sequence[str]) -> int:
    """Parse the command line, start the processes, and return their exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m experiments.launch.local',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument('--devices', type=int, default=0)
    parser.add_argument('module', choices=('pretrain', 'finetune'), help='what to run')
    parser.add_argument('options', nargs=argparse.REMAINDER, help='its options')
    chosen = parser.parse_args(arguments)
    if any(option.startswith(('--processes', '--devices')) for option in chosen.options):
        parser.error('--processes and --devices go before the module')
    if chosen.processes < 1:
        parser.error(f'--processes={chosen.processes}, must be at least 1')
    return run(
        [sys.executable, '-m', 'gpt1_jax', chosen.module, *chosen.options],
        chosen.processes,
        chosen.devices,
    )


if __name__ == '__main__':
    status = main(sys.argv[1:])
    sys.exit(status if status >= 0 else 128 - status)
