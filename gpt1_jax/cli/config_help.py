"""The fields of a config for --help: name, type, default, and the comment beside it in the config's file."""
import pathlib
import re
import textwrap
from typing import Any

from absl import flags
from ml_collections import ConfigDict

from gpt1_jax.cli import config_file

WIDTH = 120
COLUMN = 44  # where comments begin


def of_command_line(argv: list[str]) -> list[str]:
    """The lines about the config that a command line names, or the program's default; none without a flag --config."""
    given = _given(argv)
    if given is None:
        return []
    path = config_file.path_of(given).partition(':')[0]
    return ['', f'Fields of {given}, set by --config.FIELD=VALUE:', '', *lines(config_file.load(given), path)]


def flags_of(argv: list[str]) -> list[str]:
    """['config.batch.size', ...]: the fields of that config; none where its file cannot be read."""
    given = _given(argv)
    try:
        return [] if given is None else [f'config.{name}' for name, *_ in fields(config_file.load(given))]
    except Exception:  # whatever is wrong with the file: the message will be about a flag
        return []


def _given(argv):
    """What --config is on a command line, or its default; None where there is neither."""
    if 'config' not in flags.FLAGS:
        return None
    given = config_file.named(argv) or flags.FLAGS['config'].default_as_str.strip("'")
    return None if given == 'None' else given


def lines(config: ConfigDict, path: str) -> list[str]:
    """Lines for the terminal. path: of the file that made the config."""
    notes = comments(pathlib.Path(path))
    found = []
    for name, value, kind in fields(config):
        what = f'  {name}: {kind} = {"{}" if isinstance(value, ConfigDict) else repr(value)}'
        wrapped = textwrap.wrap(comment(name, notes), WIDTH - COLUMN)
        if wrapped and len(what) < COLUMN:
            what = f'{what:{COLUMN}}{wrapped.pop(0)}'
        found += [what, *(' ' * COLUMN + more for more in wrapped)]
    return found


def fields(config: ConfigDict, prefix: str = '') -> list[tuple[str, Any, str]]:
    """[('batch.size', 64, 'int'), ...] of a config's leaves, in alphabetical order; 'int or None' of a placeholder."""
    found = []
    for name in config:
        value, kind = config[name], config.get_type(name)
        if isinstance(value, ConfigDict) and len(value):
            found += fields(value, f'{prefix}{name}.')
        else:
            kind = 'group' if issubclass(kind, ConfigDict) else kind.__name__
            found.append((prefix + name, value, f'{kind} or None' if value is None else kind))
    return found


def comments(file: pathlib.Path) -> dict[str, str]:
    """{'batch.size': '4.1, windows an update', ...}: the comment after the first assignment to each field, and on the
    lines below it, in a config's file; of other fields, and as 'pretrain.batch.size', those in configs that it imports.
    """
    source = file.read_text(encoding='utf-8')
    found: dict[str, str] = {}
    for name, text in re.findall(r'^ *(?:\w+ = )?\w+\.([\w.]+) = .*?# (.*(?:\n *#.*)*)', source, re.M):
        found.setdefault(name, re.sub(r'\s*\n *# *', ' ', text).rstrip())
    for name in re.findall(r'\w+', ' '.join(re.findall(r'^(?:from gpt1_jax.configs )?import (.*)', source, re.M))):
        beside = file.with_name(f'{name}.py')
        other = beside if beside.exists() else config_file.packaged().get(name)
        if other is not None and pathlib.Path(other) != file:
            theirs = comments(pathlib.Path(other))
            found = theirs | {f'{name}.{field}': text for field, text in theirs.items()} | found
    return found


def comment(field: str, notes: dict[str, str]) -> str:
    """The comment of 'finetune.optimizer.kind', 'optimizer.kind' or 'finetune.kind'; '' without any."""
    first, *rest = field.split('.')
    names = field, '.'.join(rest), '.'.join([first, *rest[1:]])
    return next((notes[name] for name in names if name in notes), '')
