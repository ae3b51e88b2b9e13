"""`python -m gpt1_jax.prepare` as a process: what it says, and two of them at once."""
import ctypes
import re
import signal
import subprocess
import sys
import time

import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import tokens
from gpt1_jax.runs import lock
from tiny import ROOT, command
from twenty_books import write_books


@pytest.fixture
def books(tmp_path):
    return write_books(tmp_path / 'books')


def without_root_s_rights():
    """In a child: what may not be written may not be written by root, either."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


@pytest.mark.parametrize('out', ['here', 'here/below'])
def test_a_directory_that_may_not_be_written_is_one_line(books, tmp_path, out):
    (tmp_path / 'here').mkdir(mode=0o555)
    done = command('prepare', f'--out={tmp_path / out}', f'--corpus={books}', '--valid=0.3', '--merges=20',
                   preexec_fn=without_root_s_rights)
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr.startswith(f'error: {tmp_path / out}') and done.stderr.endswith(': Permission denied\n')
    assert done.stderr.count('\n') == 1 and not list((tmp_path / 'here').iterdir())


def test_while_one_prepares_a_directory_a_second_says_so(books, tmp_path):
    out, flags = tmp_path / 'out', (f'--corpus={books}', '--valid=0.3', '--merges=20')
    first = subprocess.Popen([sys.executable, '-m', 'gpt1_jax.prepare', f'--out={out}', *flags], cwd=ROOT)
    while not (out / lock.FILE).exists() and first.poll() is None:
        time.sleep(0.001)
    first.send_signal(signal.SIGSTOP)
    second = command('prepare', f'--out={out}', *flags)
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0
    assert (second.returncode, second.stdout) == (1, '') and re.fullmatch(
        rf'error: another process( \(pid {first.pid} on .*, since .*\))? holds the lock on {out}\n', second.stderr)
    assert command('prepare', f'--out={out}', *flags).returncode == 0 and not (out / lock.FILE).exists()


def test_the_command_line_joins_rows_of_parquet(tmp_path):
    table = pyarrow.table({'body': [f'The cat {i}.' for i in range(60)], 'book': [i // 5 for i in range(60)]})
    pyarrow.parquet.write_table(table, tmp_path / 'a.parquet')
    done = command('prepare', f'--out={tmp_path / "out"}', f'--corpus={tmp_path}', '--valid=0.3', '--merges=20',
                   '--text_field=body', '--join_by=book', '--join_characters=1000', '--join_with=\n',
                   '--tokenizer_characters=500')
    assert done.returncode == 0, done.stderr
    manifest = tokens.read_manifest(tmp_path / 'out')
    assert sum(entry['documents'] for entry in manifest['splits'].values()) == 12
    assert manifest['inputs']['join'] == r"rows joined by 'book' and up to 1000 characters with '\n'"
