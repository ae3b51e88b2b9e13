"""The first minute: compiled programs are kept between starts, and training on a CPU gets huge pages."""
import os
import pathlib
import subprocess
import sys

import pytest

from tiny import ROOT

PROGRAM = """
import sys, warnings
warnings.showwarning = lambda *_: print('warned')
import jax
from gpt1_jax.parallel import compilation_cache
compilation_cache.enable()
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
print(jax.config.jax_compilation_cache_dir)
print(float(jax.jit(lambda x: x * 2 + 1)(3.0)))
"""


def output(code, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(('JAX_', 'GPT1_JAX_', 'GLIBC_'))}
    return subprocess.run([sys.executable, *code], capture_output=True, text=True, check=True, cwd=ROOT,
                          env=clean | {'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(ROOT)} | environment).stdout.split()


def test_compiled_programs_are_kept_by_the_kind_of_host_unless_the_user_has_a_cache_or_there_is_no_place(tmp_path):
    directory, result = output(['-c', PROGRAM], GPT1_JAX_CACHE=str(tmp_path))
    assert result == '7.0' and pathlib.Path(directory).parent == tmp_path / 'programs'
    assert any(pathlib.Path(directory).iterdir())
    mine = str(tmp_path / 'mine')
    assert output(['-c', PROGRAM], GPT1_JAX_CACHE=str(tmp_path), JAX_COMPILATION_CACHE_DIR=mine) == [mine, '7.0']
    (tmp_path / 'file').write_text('')
    assert output(['-c', PROGRAM], GPT1_JAX_CACHE=str(tmp_path / 'file')) == ['None', '7.0']


HUGE_PAGES = pathlib.Path('/sys/kernel/mm/transparent_hugepage/enabled')


@pytest.mark.skipif(not HUGE_PAGES.exists() or '[madvise]' not in HUGE_PAGES.read_text(),
                    reason='the kernel decides about huge pages itself')
@pytest.mark.parametrize('environment, expected', [
    ({'GPT1_JAX_HUGE_PAGES': '0'}, 'None'), ({'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=0'}, 'glibc.malloc.hugetlb=0'),
    ({'GLIBC_TUNABLES': 'glibc.malloc.check=0'}, 'glibc.malloc.check=0:glibc.malloc.hugetlb=1')])
def test_training_programs_start_with_huge_pages_unless_the_user_chose(tmp_path, environment, expected):
    """The restarted command is this code once more, with `pretrain` as its argument."""
    code = ("import os, sys; sys.argv[:] = ['gpt1']; sys.orig_argv[1:] = [*sys.orig_argv[1:3], 'pretrain', '--a=b c'];"
            "import gpt1_jax; print(os.environ.get('GLIBC_TUNABLES'))")
    assert output(['-c', code], **environment) == [expected]
