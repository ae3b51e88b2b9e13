"""The fields of a config for --help: name, type, default, and the comment beside it in the config's file."""
import ast
import io
import pathlib
import textwrap
import tokenize
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
        return [] if given is None else [f'config.{name}' for name, _ in fields(config_file.load(given))]
    except Exception:  # whatever is wrong with the file: the message will be about a flag
        return []


def _given(argv):
    """What --config is on a command line, or its default; None where the program has no such flag."""
    if 'config' not in flags.FLAGS:
        return None
    return config_file.named(argv) or flags.FLAGS['config'].default_as_str.strip("'")


def lines(config: ConfigDict, path: str) -> list[str]:
    """Lines for the terminal. path: of the file that made the config; its comments and those of the configs that it
    imports are read from the source."""
    notes = comments(path)
    found = []
    for name, value in fields(config):
        what = f'  {name}: {_type(config, name)} = {"{}" if isinstance(value, ConfigDict) else repr(value)}'
        note = notes.get(name, '')
        wrapped = textwrap.wrap(note, WIDTH - COLUMN)
        if wrapped and len(what) < COLUMN:
            what = f'{what:{COLUMN}}{wrapped.pop(0)}'
        found += [what, *(' ' * COLUMN + more for more in wrapped)]
    return found


def fields(config: ConfigDict, prefix: str = '') -> list[tuple[str, Any]]:
    """[('batch.size', 64), ...] of a config's leaves, in alphabetical order."""
    found = []
    for name in config:
        value = config[name]
        if isinstance(value, ConfigDict) and len(value):
            found += fields(value, f'{prefix}{name}.')
        else:
            found.append((prefix + name, value))
    return found


def comments(path: str, function: str = 'get_config') -> dict[str, str]:
    """{'batch.size': '4.1, windows an update', ...}: the comment beside each assignment to a field.

    A config that sets a field of another one again without a comment leaves it the other's.
    """
    return _Source(pathlib.Path(path)).of_function(function)


class _Source:
    """The source of a config file: its syntax tree, and the comments by line."""

    def __init__(self, file) -> None:
        text = file.read_text(encoding='utf-8')
        self._file = file
        self._functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        self._beside: dict[int, str] = {}  # comments after code, by line
        self._alone: dict[int, str] = {}   # comments on a line of their own
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                kind = self._beside if token.line[:token.start[1]].strip() else self._alone
                kind[token.start[0]] = token.string.lstrip('# ').rstrip()

    def of_function(self, name):
        """{field: comment} of what a function assigns to the fields of a config."""
        if name not in self._functions:
            return {}
        body = self._functions[name]
        found = {}
        places = {'config': ''}  # the fields below a local name begin with this: {'p': 'pretrain.'}
        for node in ast.walk(body):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
                places[node.value.id] = ''
            elif isinstance(node, ast.Return):
                found |= self._called(node.value)
        for node in ast.walk(body):
            if isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Tuple):
                self._assignment(node, places, found)
        return found

    def _assignment(self, node, places, found):
        """Add the field of `config.field = value  # comment`, or those of the function that a value comes from."""
        fields = [self._field(target, places) for target in node.targets]
        field = next((one for one in fields if one is not None), None)
        for target in node.targets:  # p = config.pretrain: p is another name for these fields
            if isinstance(target, ast.Name) and target.id not in places:
                same = self._field(node.value, places) or field
                if same:
                    places[target.id] = f'{same}.'
        if field is None:
            return
        for name, comment in self._called(node.value).items():
            found.setdefault(f'{field}.{name}'.lstrip('.'), comment)
        comment = self._comment(node)
        if comment and field:
            found[field] = comment

    def _field(self, node, places):
        """'batch.size' of the expression config.batch.size; '' of config itself; None of anything else."""
        name, _, field = ast.unparse(node).partition('.')
        if not isinstance(node, (ast.Attribute, ast.Name)) or name not in places:
            return None
        return (places[name] + field).rstrip('.')

    def _called(self, node):
        """The comments of the function that a value comes from: `fields()` here, or `pretrain.get_config()`."""
        if not isinstance(node, ast.Call):
            return {}
        if isinstance(node.func, ast.Name):
            return self.of_function(node.func.id)
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            module = node.func.value.id
            beside = self._file.with_name(f'{module}.py')
            file = str(beside) if beside.exists() else config_file.packaged().get(module)
            if file and file != str(self._file):
                return comments(file, node.func.attr)
        return {}

    def _comment(self, node):
        """The comment after a statement, and the lines of comment right below that continue it."""
        line = node.end_lineno
        parts = [self._beside[one] for one in range(node.lineno, line + 1) if one in self._beside]
        while parts and line + 1 in self._alone:
            line += 1
            parts.append(self._alone[line])
        return ' '.join(parts)


def _type(config, name):
    """'int', or 'int or None' of a placeholder."""
    *parents, last = name.split('.')
    for parent in parents:
        config = config[parent]
    kind = config.get_type(last)
    kind = 'group' if issubclass(kind, ConfigDict) else kind.__name__
    return f'{kind} or None' if config[last] is None else kind
