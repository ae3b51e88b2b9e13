"""The harness's entry point where the harness is missing; tests/evaluation/test_lm_harness.py has the rest."""
import subprocess
import sys

from tiny import ROOT


def test_without_the_extra_one_line_says_which(tmp_path):
    code = ("import runpy, sys; sys.modules['lm_eval'] = None; "
            f"sys.argv = ['lm_eval', '--init_from={tmp_path}', '--tasks=a']; "
            "runpy.run_module('gpt1_jax.lm_eval', run_name='__main__')")
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    told = "error: lm-evaluation-harness is not installed: pip install 'gpt1_jax[lm-eval]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, '', told)
