"""A type checker sees the real types of the public interface."""

import re

import pytest

from tiny import python

pytestmark = pytest.mark.full

SCRIPT = """\
import gpt1_jax

gpt1 = gpt1_jax.load('runs/gpt1', step=3)
texts: list[str] = gpt1.generate('The cat', tokens=5, temperature=0)
total: float = gpt1.score('The cat sat.').log_probabilities.sum()
labels: list[dict] = gpt1_jax.load('runs/cola').classify(['He sat.'])
try:
    gpt1.embed(texts)
except gpt1_jax.UserError as error:
    print(error)
gpt1_jax.load(3)  # error
gpt1.generate('The cat', topk=5)  # error
gpt1.scores('The cat')  # error
gpt1_jax.lood('runs/gpt1')  # error
number: int = gpt1.generate('The cat')  # error
"""


def test_mypy_finds_the_planted_errors_of_a_script_and_no_others(tmp_path):
    pytest.importorskip('mypy')
    (tmp_path / 'script.py').write_text(SCRIPT)
    done = python(
        '-m',
        'mypy',
        '--config-file=',
        '--ignore-missing-imports',
        '--follow-imports=silent',
        '--no-error-summary',
        f'--cache-dir={tmp_path}',
        tmp_path / 'script.py',
        timeout=600,
    )
    found = {int(line) for line in re.findall(r'script.py:(\d+): error', done.stdout)}
    expected = {
        number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith('# error')
    }
    assert found == expected, done.stdout + done.stderr
