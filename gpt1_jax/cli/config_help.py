"""Lists the fields of a config for --help: name, type, default, and the comment beside or above the
line that defines the field."""

import pathlib
import re
import textwrap
from typing import Any

from ml_collections import ConfigDict

from gpt1_jax import rules
from gpt1_jax.cli import config_file

WIDTH = 120
COLUMN = 44  # where comments begin
# The fields that most runs set. As many as there are, at most TEN, are listed first
TEN = 10
FIRST = (
    *('custom.data', 'custom.text', 'custom.label'),
    *('data.corpus', 'data.valid', 'data.dir', 'init_from', 'tokenizer.vocab_size'),
    *('model.n_layer', 'model.n_embd', 'model.n_ctx', 'model.dtype'),
    *('batch.size', 'optimizer.peak_rate', 'train.steps', 'train.epochs', 'eval.splits', 'seed'),
)


def lines(config: ConfigDict, comments: dict[str, str]) -> list[str]:
    """Lines for the terminal, the fields that most runs set first. The arguments are the result of
    `load`."""
    known = {name: (name, value, kind) for name, value, kind in fields(config)}
    first = [known[name] for name in FIRST if name in known][:TEN]
    return [*_lines(first, comments), '', 'All fields:', '', *_lines(known.values(), comments)]


def _lines(chosen, comments):
    found = []
    for name, value, kind in chosen:
        what = f'  {name}: {kind} = {"{}" if isinstance(value, ConfigDict) else repr(value)}'
        found += textwrap.wrap(
            f'{what:{COLUMN - 2}}  {comments[name]}', WIDTH, subsequent_indent=' ' * COLUMN
        )
    return found


def fields(config: ConfigDict, prefix: str = '') -> list[tuple[str, Any, str]]:
    """[('batch.size', 64, 'int'), ...] of a config's leaves, in alphabetical order.

    The type of a placeholder is 'int or None'.
    """
    found = []
    for name in config:
        value = config[name]
        kind = config.get_type(name)
        if isinstance(value, ConfigDict) and len(value):
            found += fields(value, f'{prefix}{name}.')
        else:
            kind = 'group' if issubclass(kind, ConfigDict) else kind.__name__
            found.append((prefix + name, value, f'{kind} or None' if value is None else kind))
    return found


def load(given: str) -> tuple[ConfigDict, dict[str, str]]:
    """Loads a config, by path or packaged name, and the comments of its fields.

    The comments are {'batch.size': 'windows per update', ...}, from the text of configs/pretrain.py
    for a field of pretraining, and so on, or else from the config's own text.
    """
    config = config_file.load(given)
    own = _comments(config_file.path_of(given).partition(':')[0])
    tables: dict[str, dict[str, str]] = {'': {}}
    for program in rules.PROGRAMS:
        tables[program] = own | _comments(config_file.packaged()[program])
    found = {}
    for name, *_ in fields(config):
        program, _, field = name.partition('.')
        if program not in tables:
            program, field = rules.program_of(config), name
        table = tables[program]
        found[name] = table.get(field) or table.get(field.rpartition('.')[2]) or own.get(name, '')
    return config, found


def _comments(path):
    """{'batch.size': comment} of lines config.batch.size = 64, in a config and those it imports.

    The comment is beside the line or above it.
    """
    text = pathlib.Path(path).read_text(encoding='utf-8')
    found = {}
    above: list[str] = []
    for line in text.splitlines():
        comment = re.match(r'\s*# (.*)', line)
        assignment = re.match(r'\s*config\.([\w.]+) = .*?(?:  # (.*))?$', line)
        if assignment and (assignment[2] or above):
            found[assignment[1]] = assignment[2] or ' '.join(above)
        above = [*above, comment[1]] if comment else []
    for names in re.findall(r'^from gpt1_jax\.configs import (.+)', text, re.MULTILINE):
        for name in names.split(', '):
            found = _comments(config_file.packaged()[name]) | found
    return found
