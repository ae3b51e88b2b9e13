"""Lists the fields of a config for --help: name, type, default, and the comment beside or above the
line that defines the field."""

import collections
import linecache
import re
import sys
import textwrap
from typing import Any

from ml_collections import ConfigDict

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

    The comments are {'batch.size': 'windows per update', ...}. Of several lines with a comment that
    set a field, the first comment counts, and the last is added after "; here: ".
    """
    set_item = ConfigDict.__setitem__
    groups = []
    places = collections.defaultdict(list)

    def record(group, name, value):
        frame = sys._getframe(1)
        while frame.f_globals.get('__name__', '').startswith('ml_collections.'):
            frame = frame.f_back
        groups.append(group)  # kept, so that no later object gets its id
        places[id(group), name].append((frame.f_code.co_filename, frame.f_lineno))
        set_item(group, name, value)

    def comments(group, prefix=''):
        for name, value in group.items():
            if isinstance(value, ConfigDict) and len(value):
                yield from comments(value, f'{prefix}{name}.')
            else:
                notes = [_comment(file, line, name) for file, line in places[id(group), name]]
                first = next(filter(None, notes), '')
                last = notes[-1] if notes and notes[-1] != first else ''
                yield prefix + name, '; here: '.join(filter(None, (first, last)))

    ConfigDict.__setitem__ = record
    try:
        config = config_file.load(given)
    finally:
        ConfigDict.__setitem__ = set_item
    return config, dict(comments(config))


def _comment(file, line, name):
    """The comment beside an assignment to this field or on the lines above, '' if there is none."""
    lines = linecache.getlines(file)[:line] or ['']  # code without a file has none
    assignment = re.match(rf'\s*(?:\w+ = )?[\w.]+\.{name} = .*?(?:# (.*))?$', lines.pop())
    if not assignment or assignment[1]:
        return assignment[1].rstrip() if assignment else ''
    above = []
    while lines and (comment := re.match(r'\s*# ?(.*)', lines.pop())):
        above.insert(0, comment[1].rstrip())
    return ' '.join(above)
