"""Measures fine-tuning on a table of your own, from the command to its first update: how often the
file is opened, the seconds, and the peak memory of the process.

    python -m experiments.benchmarks.own_table [--rows=100000]

Linux only, as the memory is read from /proc. One line of JSON is printed, and on the next run is
compared by eye: the machine must be otherwise idle.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from absl import app, flags

ROWS = flags.DEFINE_integer('rows', 100_000, 'Rows of the table.')
WORDS = 'the old red house on a hill was sold to an angry farmer who had no money left'.split()
# Counts the opens of one file in a process, and runs a program of the package
CHILD = """
import os, runpy, sys
table, counts, *sys.argv[1:] = sys.argv[1:]
log = os.open(counts, os.O_WRONLY | os.O_APPEND)
def hook(event, given):
    if event == 'open' and isinstance(given[0], (str, bytes)) and os.fsdecode(given[0]) == table:
        os.write(log, b'x')
sys.addaudithook(hook)
runpy.run_module('gpt1_jax.finetuning', run_name='__main__', alter_sys=True)
"""


def main(_):
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(measured(pathlib.Path(name), ROWS.value)))


def measured(directory, n):
    """{'rows', 'opens', 'seconds', 'mib'} of one run, which is ended after its first update."""
    table = directory / 'reviews.csv'
    write(table, n)
    opened = directory / 'opened'
    opened.touch()
    began = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable,
            '-c',
            CHILD,
            str(table),
            str(opened),
            f'--data={table}',
            '--text=text',
            '--label=label',
            '--init_from=novels',
            f'--workdir={directory}/run',
            '--config.log_every=1',
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end='', file=sys.stderr)
        if re.match(r'(step|update) ', line.strip()):
            break
    seconds = time.monotonic() - began
    status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    process.kill()
    process.wait()
    peak = re.search(r'VmHWM:\s+(\d+) kB', status)
    assert peak, 'the process has ended'
    return {
        'rows': n,
        'bytes': os.path.getsize(table),
        'opens': len(opened.read_bytes()),
        'seconds': round(seconds, 1),
        'mib': int(peak[1]) // 1024,
    }


def write(path, n):
    """Writes n rows of about 90 characters with one of two labels."""
    with open(path, 'w', encoding='utf-8') as file:
        file.write('text,label\n')
        for i in range(n):
            words = [WORDS[i * k % 7919 % len(WORDS)] for k in range(1, 18)]
            file.write(f'"{" ".join(words)}, {i}",{("good", "bad")[i % 2]}\n')


if __name__ == '__main__':
    app.run(main)
