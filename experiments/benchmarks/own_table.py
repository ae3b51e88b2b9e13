"""Measures fine-tuning on a table of 100,000 rows, from the command to its first update: how often
the file is opened, the seconds, and the peak memory. Linux only, on an idle machine.

    python -m experiments.benchmarks.own_table
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROWS = 100_000
# Logs each open of the table, and runs the program
CHILD = """
import runpy, sys
table, log = sys.argv[1:3]
log = open(log, 'wb', 0)
del sys.argv[1:3]
sys.addaudithook(lambda event, given: event == 'open' and given[0] == table and log.write(b'x'))
runpy.run_module('gpt1_jax.finetuning', run_name='__main__', alter_sys=True)
"""


def measured(directory: pathlib.Path) -> dict:
    """The figures of one run, which is ended after its first update."""
    table = directory / 'reviews.csv'
    row = '"the old red house on hill {}, was sold to an angry farmer who had no money left",{}\n'
    table.write_text('text,label\n' + ''.join(row.format(i, i % 2) for i in range(ROWS)))
    log = directory / 'opened'
    flags = f'--data={table} --text=text --label=label --init_from=novels --config.log_every=1'
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, '-c', CHILD, str(table), str(log), f'--workdir={directory}/run']
        + flags.split(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout  # for mypy
    while not process.stdout.readline().startswith('step '):
        pass
    status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    process.kill()
    return {
        'opens': len(log.read_bytes()),
        'seconds': round(time.monotonic() - began, 1),
        'kB': int(re.findall(r'VmHWM:\s+(\d+) kB', status)[0]),
    }


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(measured(pathlib.Path(name))))
