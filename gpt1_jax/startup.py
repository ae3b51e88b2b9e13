"""Prepares a command before its imports: huge pages, and the exit status of a run that is stopped
before its first update."""

import contextlib
import os
import pathlib
import signal
import sys


def before_imports(program: str) -> None:
    # An interrupt would show a traceback of some import, or be lost there. cli.run makes interrupts
    # a KeyboardInterrupt again.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    with_huge_pages()
    if program in ('pretrain', 'finetune', 'prepare'):
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, stopped)


def _interrupted(number, frame):
    os.write(2, b'error: interrupted\n')
    os._exit(130)


def stopped(number, frame):
    """Ends the process with an exit status that tells a scheduler to start again."""
    os.write(
        2,
        f'error: stopped by {signal.Signals(number).name}: rerun the same command to '
        'resume\n'.encode(),
    )
    flag = '--exit_code_when_stopped='
    given = [word.removeprefix(flag) for word in sys.argv if word.startswith(flag)]
    os._exit(int(given[-1]) if given and given[-1].isdecimal() else 75)


def with_huge_pages() -> None:
    """Restart this process with huge pages for malloc.

    Training on CPUs is then a fifth (float32) to a quarter (bfloat16) faster
    (experiments/benchmarks/README.md). glibc (from 2.35) reads the setting before Python runs, so a
    restart is needed. Does nothing if the kernel does not leave the choice to programs, or if the
    user has made a choice. Does nothing in an interpreter's session, which would be lost.
    """
    tunables = os.environ.get('GLIBC_TUNABLES', '')
    if (
        'glibc.malloc.hugetlb' in tunables
        or os.environ.get('GPT1_JAX_HUGE_PAGES') == '0'
        or hasattr(sys, 'ps1')
    ):
        return
    with contextlib.suppress(OSError):  # no Linux, or no permission: train without
        if '[madvise]' in pathlib.Path('/sys/kernel/mm/transparent_hugepage/enabled').read_text(
            encoding='ascii'
        ):
            setting = ':'.join(filter(None, (tunables, 'glibc.malloc.hugetlb=1')))
            os.execve(
                sys.executable,
                [sys.executable, *sys.orig_argv[1:]],
                os.environ | {'GLIBC_TUNABLES': setting},
            )
