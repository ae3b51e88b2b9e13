"""GPT-1: Improving Language Understanding by Generative Pre-Training, Radford et al., 2018.

README.md lists the files of each section. In a program or a notebook: gpt1_jax.load(DIRECTORY), see api.py.

Other modules are imported at their first use, so that reading data never loads jax.
"""
import contextlib
import importlib.machinery
import importlib.util
import os
import re
import signal
import sys
from typing import TYPE_CHECKING

__version__ = '0.1.0'


def _interrupted(number, frame):
    os.write(2, b'error: interrupted\n')
    os._exit(130)


def interruptible() -> None:
    """Let an interrupt (Ctrl-C) raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# `python -m gpt1_jax.PROGRAM` imports for seconds before it can catch anything: an interrupt would show a traceback of
# some import, or be lost there. With -m, sys.argv[0] is '-m' until Python has found the program's file,
# also that of another package, whose __init__.py may import this one. Python takes -um and -mNAME as well.
_OURS = any(re.match(rf'(-\w*m)?{__name__}(\.|$)', word) for word in sys.orig_argv[1:8])
_COMMAND = sys.argv[:1] == ['-m'] and _OURS or sys.argv and os.path.basename(sys.argv[0]) == 'gpt1'
if _COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _interrupted)


def _with_huge_pages():
    """Restart this process with huge pages for malloc: training on CPUs is a fifth (float32) to a quarter (bfloat16)
    faster (experiments/benchmarks/README.md).

    glibc (from 2.35) reads the setting before Python runs, hence the restart, before anything is imported. Only where
    the kernel leaves the choice to programs and the user has made none. GPT1_JAX_HUGE_PAGES=0 turns it off.
    """
    tunables = os.environ.get('GLIBC_TUNABLES', '')
    if 'glibc.malloc.hugetlb' in tunables or os.environ.get('GPT1_JAX_HUGE_PAGES') == '0':
        return
    with contextlib.suppress(OSError):  # no Linux, or no permission: train without
        with open('/sys/kernel/mm/transparent_hugepage/enabled', encoding='ascii') as file:
            if '[madvise]' not in file.read():
                return
        setting = ':'.join(filter(None, (tunables, 'glibc.malloc.hugetlb=1')))
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {'GLIBC_TUNABLES': setting})


def _stopped(number, frame):
    """SIGTERM or SIGHUP before the training loop handles them: the exit status tells a scheduler to start again."""
    os.write(2, f'error: stopped by {signal.Signals(number).name}: rerun the same command to resume\n'.encode())
    flag = '--exit_code_when_stopped='
    given = [word.removeprefix(flag) for word in sys.argv if word.startswith(flag)]
    os._exit(int(given[-1]) if given and given[-1].isdecimal() else 75)


_PROGRAMS = {word.removeprefix('gpt1_jax.') for word in sys.orig_argv[1:4]} if _COMMAND else set()
if _PROGRAMS & {'pretrain', 'finetune'}:
    _with_huge_pages()
if _PROGRAMS & {'pretrain', 'finetune', 'prepare'}:
    for _number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(_number) is signal.SIG_DFL:
            signal.signal(_number, _stopped)


def _configs_of_the_clone():
    """Make the folder configs/ of a clone importable as gpt1_jax.configs, its name in the wheel, which holds it."""
    package = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(os.path.dirname(package), 'configs')
    if os.path.isdir(os.path.join(package, 'configs')) or not os.path.isfile(os.path.join(folder, 'pretrain.py')):
        return
    spec = importlib.machinery.ModuleSpec(f'{__name__}.configs', None, is_package=True)
    spec.submodule_search_locations = [folder]
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)


_configs_of_the_clone()


_PUBLIC = {'load': 'api', 'Trained': 'api', 'UserError': 'errors'}  # name: module, imported at the first use
__all__ = [*_PUBLIC]  # which help(gpt1_jax) prints

if TYPE_CHECKING:
    from gpt1_jax.api import Trained as Trained
    from gpt1_jax.api import load as load
    from gpt1_jax.errors import UserError as UserError
else:
    def __getattr__(name):
        if name not in _PUBLIC:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        return getattr(importlib.import_module(f'{__name__}.{_PUBLIC[name]}'), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
