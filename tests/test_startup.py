"""The seconds of a program's imports: a signal ends them with one line, programs get huge pages."""

import pathlib
import signal
import subprocess
import sys

import pytest

from many_processes import wait_for
from tiny import ROOT, python

MODULE = ('-m', 'gpt1_jax')
SCRIPT = ('-c', 'from gpt1_jax.__main__ import main; main()')  # the installed gpt1's code
HUGE_PAGES = pathlib.Path('/sys/kernel/mm/transparent_hugepage/enabled')


def begin(*words):
    """A process of Python."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.mark.full
@pytest.mark.parametrize(
    'how, words, number, status',
    [
        (SCRIPT, ['finetune'], signal.SIGHUP, 75),
        (SCRIPT, ['pretrain', '--exit_code_when_stopped=3'], signal.SIGTERM, 3),
        (MODULE, ['prepare'], signal.SIGTERM, 75),
    ],
)
def test_a_signal_while_a_program_is_still_importing_ends_it_with_the_status_that_asks_for_a_restart(
    how, words, number, status
):
    process = begin(*how, *words)
    wait_for(lambda: caught(process.pid, number), process, 60)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == status
    assert (
        error
        == f'error: stopped by {signal.Signals(number).name}: rerun the same command to resume\n'
    )


def caught(pid, number):
    """Whether a process has a handler for a signal."""
    line = next(line for line in open(f'/proc/{pid}/status') if line.startswith('SigCgt'))
    return int(line.split()[1], 16) >> (number - 1) & 1


def test_a_program_of_another_package_that_imports_this_one_keeps_its_signals(tmp_path):
    (tmp_path / 'gpt1').write_text(
        'import gpt1_jax, signal\nprint(*map(signal.getsignal, (2, 15)), sep="\\n")'
    )
    done = python('gpt1', 'pretrain', cwd=tmp_path, env={'PYTHONPATH': str(ROOT)}, check=0)
    assert done.stdout.splitlines() == [str(signal.default_int_handler), str(signal.SIG_DFL)]


COMMAND = "from gpt1_jax import startup; startup.before_imports('finetune'); report()"
PROGRAM = (
    'import jax; from absl import flags; from gpt1_jax import cli;'
    "cli.run(report, lambda: flags.DEFINE_string('a', '', ''))"
)
SESSION = f"sys.ps1 = '>>> '; {PROGRAM}"
ADDED = 'glibc.malloc.check=0:glibc.malloc.hugetlb=1'


@pytest.mark.skipif(
    not HUGE_PAGES.exists() or '[madvise]' not in HUGE_PAGES.read_text(),
    reason='the kernel decides about huge pages itself',
)
@pytest.mark.parametrize(
    'code, given, expected',
    [
        (COMMAND, {'GPT1_JAX_HUGE_PAGES': '0'}, 'None'),
        (COMMAND, {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=0'}, 'glibc.malloc.hugetlb=0'),
        (COMMAND, {'GLIBC_TUNABLES': 'glibc.malloc.check=0'}, ADDED),
        (PROGRAM, {'GLIBC_TUNABLES': 'glibc.malloc.check=0'}, ADDED),
        (SESSION, {'GLIBC_TUNABLES': 'glibc.malloc.check=0'}, 'glibc.malloc.check=0'),
    ],
)
def test_programs_start_with_huge_pages_unless_the_user_chose_or_is_in_a_session(
    code, given, expected, monkeypatch
):
    """The restarted command is this code once more, with the same argument."""
    for name in ('GLIBC_TUNABLES', 'GPT1_JAX_HUGE_PAGES'):
        monkeypatch.delenv(name, raising=False)
    report = (
        "import os, sys; report = lambda: print(os.environ.get('GLIBC_TUNABLES'), sys.argv[1:]);"
    )
    assert (
        python('-c', report + code, '--a=b c', env=given, check=0).stdout
        == f"{expected} ['--a=b c']\n"
    )
