"""GPT-1: Improving Language Understanding by Generative Pre-Training, Radford et al., 2018.

Section                         File
3.1  Unsupervised pre-training  models/gpt.py (Eq. 2), models/ops.py, training/losses.py (Eq. 1), pretrain.py
3.2  Supervised fine-tuning     models/heads.py (Eq. 3), training/losses.py (Eqs. 4, 5), finetune.py
3.3  Input transformations      data/inputs.py, data/tasks/
4.1  Setup                      training/optimizer.py, training/loop.py, models/dropout.py, data/text.py,
                                data/tokenizer.py, data/tokens.py
4.2  Fine-tuning, Tables 2-4    data/tasks/, evaluation/fine_tuned.py, metrics/
5    Analysis                   training/transfer.py (Figure 2, left), evaluation/zero_shot_heuristics.py,
                                evaluation/log_probs.py, zero_shot.py (Figure 2, right), models/lstm.py (Table 5)

In a program or a notebook: gpt1_jax.load(DIRECTORY), see api.py.

Other modules are imported at their first use, so that reading data never loads jax.
"""
import importlib.machinery
import importlib.util
import os
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
# some import, or be lost there. With -m, sys.argv[0] is '-m' until Python has found the program's file.
_COMMAND = sys.argv[:1] == ['-m'] or sys.argv and os.path.basename(sys.argv[0]) == 'gpt1'
if _COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _interrupted)


def _with_huge_pages():
    """Restart this process with huge pages for malloc: training on CPUs is a fifth (float32) to a quarter (bfloat16)
    faster (experiments/benchmarks/README.md).

    glibc reads the setting before Python runs, hence the restart, before anything is imported. Only where the kernel
    leaves the choice to programs and the user has made none. GPT1_JAX_HUGE_PAGES=0 turns it off.
    """
    tunables = os.environ.get('GLIBC_TUNABLES', '')
    if 'glibc.malloc.hugetlb' in tunables or os.environ.get('GPT1_JAX_HUGE_PAGES') == '0':
        return
    try:
        with open('/sys/kernel/mm/transparent_hugepage/enabled', encoding='ascii') as file:
            if '[madvise]' not in file.read():
                return
        name, version = (os.confstr('CS_GNU_LIBC_VERSION') or '').split()
        if name == 'glibc' and tuple(map(int, version.split('.'))) >= (2, 35):
            setting = ':'.join(filter(None, (tunables, 'glibc.malloc.hugetlb=1')))
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {'GLIBC_TUNABLES': setting})
    except (OSError, ValueError, AttributeError):  # no Linux, no glibc, or no permission: train without
        return


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
