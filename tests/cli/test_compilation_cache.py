"""The first minute: compiled programs are kept between starts."""

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
from gpt1_jax import cli
cli.keep_compiled_programs()
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
print(jax.config.jax_compilation_cache_dir)
print(float(jax.jit(lambda x: x * 2 + 1)(3.0)))
"""


def output(**environment):
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(('JAX_', 'GPT1_JAX_', 'GLIBC_'))
    }
    environment = clean | {'JAX_PLATFORMS': 'cpu'} | environment
    words = [sys.executable, '-c', PROGRAM]
    return subprocess.check_output(words, text=True, cwd=ROOT, env=environment).split()


@pytest.mark.full
def test_compiled_programs_are_kept_by_the_kind_of_host_unless_the_user_has_a_cache_or_there_is_no_place(
    tmp_path,
):
    cache = str(tmp_path)
    directory, result = output(GPT1_JAX_CACHE=cache)
    assert result == '7.0' and pathlib.Path(directory).parent == tmp_path / 'programs'
    assert any(pathlib.Path(directory).iterdir())
    mine = str(tmp_path / 'mine')
    assert output(GPT1_JAX_CACHE=cache, JAX_COMPILATION_CACHE_DIR=mine) == [mine, '7.0']
    (tmp_path / 'file').write_text('')
    assert output(GPT1_JAX_CACHE=str(tmp_path / 'file')) == ['None', '7.0']
