"""gpt1_jax.user_code: code that a config names as FILE:NAME."""
import hashlib

import optax
import pytest

from gpt1_jax import user_code
from gpt1_jax.errors import UserError


def test_a_function_of_a_file_and_one_of_optax(tmp_path):
    file = tmp_path / 'idea.py'
    file.write_text('import dataclasses\n\n@dataclasses.dataclass\nclass A:\n    x: int = 3\n\n'
                    'def double(x):\n    return 2 * x\n')
    assert user_code.load(f'{file}:double', 'a.b')(4) == 8
    assert user_code.load(f'{file}:A', 'a.b')().x == 3
    assert user_code.load('optax:contrib.muon', 'a.b') is optax.contrib.muon
    assert user_code.digest(f'{file}:double', 'a.b') == hashlib.sha256(file.read_bytes()).hexdigest()
    assert user_code.digest('optax:lion', 'a.b') == optax.__version__


def test_a_file_that_changes_while_a_process_uses_it_is_refused(tmp_path):
    file = tmp_path / 'idea.py'
    file.write_text('x = 1')
    assert user_code.load(f'{file}:x', 'f') == 1
    file.write_text('x = 2')
    with pytest.raises(UserError, match='f: .*idea.py has changed since this process ran it'):
        user_code.load(f'{file}:x', 'f')


@pytest.mark.parametrize('contents, name, message', [
    (None, 'x', 'optimizer.kind: .*idea.py: No such file'),
    ('def relu(x): pass', 'relo', "idea.py has no 'relo', did you mean 'relu'"),
    ('import nothing_of_this_name', 'x', "line 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    ('a = 1\ndef f(:\n', 'f', 'idea.py: line 2: '), ('\n\n1 / 0', 'x', 'line 3: ZeroDivisionError')])
def test_what_cannot_be_loaded_is_named(tmp_path, contents, name, message):
    file = tmp_path / 'idea.py'
    if contents is not None:
        file.write_text(contents)
    with pytest.raises(UserError, match=message):
        user_code.load(f'{file}:{name}', 'optimizer.kind')
