"""The fields of a config in --help: each with its type, its default and the comment of its source."""
import pathlib

import pytest

from gpt1_jax.cli import config_file, config_help

SOURCE = '''"""A config of one's own."""
from gpt1_jax.configs import pretrain
from ml_collections import ConfigDict, config_dict
import base


def get_config():
    c = base.get_config()
    c.size = 3                  # of the whole,
    # and of its parts
    c.rate = 0.5
    p = c.inner = ConfigDict()
    p.steps = config_dict.placeholder(int)  # none: all
    c.other = more()
    c.a, c.b = 1, 2             # not of one field
    return c


def more():
    config = ConfigDict()
    config.name = ''            # of it
    return config
'''
BASE = '''from ml_collections import ConfigDict


def get_config():
    config = ConfigDict()
    config.size, config.a, config.b = 1, 1, 1
    config.rate = 1.0           # per update
    return config
'''


def test_comments_follow_the_names_of_the_fields(tmp_path, monkeypatch):
    (tmp_path / 'base.py').write_text(BASE)
    (tmp_path / 'own.py').write_text(SOURCE)
    path = str(tmp_path / 'own.py')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [line.rstrip() for line in config_help.lines(config_file.load(path), path)] == [
        '  a: int = 1', '  b: int = 2', f'{"  inner.steps: int or None = None":44}none: all',
        f"{'  other.name: str = ' + repr(''):44}of it", f'{"  rate: float = 0.5":44}per update',
        f'{"  size: int = 3":44}of the whole, and of its parts']


@pytest.mark.parametrize('given', ['pretrain', 'finetune:rte', 'zero_shot:cola', 'custom:rating', 'overnight_cpu:lstm'])
def test_every_field_of_a_program_s_config_has_a_comment_and_lines_fit(given):
    path = config_file.path_of(given).partition(':')[0]
    config, notes = config_file.load(given), config_help.comments(pathlib.Path(path))
    assert not [name for name, *_ in config_help.fields(config) if not config_help.comment(name, notes)]
    assert max(map(len, config_help.lines(config, path))) <= config_help.WIDTH
