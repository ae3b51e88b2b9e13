"""Finds and loads the config that --config names: a path, or the name of a config that comes with
the package, such as `finetune:rte`."""

import ast
import contextlib
import functools
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from gpt1_jax import configs, rules
from gpt1_jax.errors import UserError, did_you_mean, in_code

flags.disclaim_key_flags()  # --help counts flags that are defined here among the caller's
chosen = ''  # the value of --config, or its default. '' in a program without the flag
overrides: dict[str, str] = {}  # {'batch.size': '16'}, of --config.FIELD=VALUE


def define(default: str, help_string: str) -> None:
    """Defines the flag --config, with an override --config.FIELD for every field.

    default: a packaged config, 'finetune:cola'. On the command line --config is such a name, or a
    path, FILE:rte. UserError for a value that is neither, with the nearest name. UserError for a
    file that gives no config, or another program's config, and for an override as in `with_fields`.
    """
    global chosen
    chosen = default
    name, *arguments = _joined(flags.FLAGS.read_flags_from_files(sys.argv, force_gnu=False))
    sys.argv[:] = [name]
    overrides.clear()
    for argument in arguments:
        flag, _, value = argument.partition('=')
        if flag == '--config':
            chosen = value
        elif flag.startswith('--config.'):
            overrides[flag.removeprefix('--config.')] = value
        else:
            sys.argv.append(argument)
    config = load(chosen)
    if chosen != default:
        _check_program(config, default.partition(':')[0])
    config = with_fields(config, overrides)
    config_flags.DEFINE_config_dict('config', config, help_string, flags.FLAGS)
    flags.FLAGS['config'].default_as_str = f"'{default}'"  # the name, in place of all fields
    flags.declare_key_flag('config', flags.FLAGS)


def _check_program(config, program):
    try:
        rules.check_program(config, program)
    except UserError as error:
        part = f'{chosen}:{program}'
        # Some configs in experiments/ have a part for each program.
        with contextlib.suppress(UserError):
            rules.check_program(load(part), program)
            error = UserError(f'{error}: give --config={part}')
        raise error from None


def given(name: str) -> bool:
    """Whether a flag is on the command line, and --config is not."""

    def has(flag):
        return any(argument.lstrip('-').partition('=')[0] == flag for argument in sys.argv[1:])

    return has(name) and not has('config')


def packaged() -> dict[str, str]:
    """{name: path} of the configs that come with the package, in the clone or in the wheel."""
    files = [file for folder in configs.__path__ for file in pathlib.Path(folder).glob('*.py')]
    return {file.stem: str(file) for file in sorted(files) if file.stem != '__init__'}


def path_of(given: str) -> str:
    """The path of a value of --config, with ':ARGUMENT' if the value has an argument.

    FILE.py and a name with a separator (./mine) are paths. Any other name is a packaged config's,
    also if the working directory has a file of this name.
    """
    name, colon, argument = given.partition(':')
    is_path = name.endswith('.py') or os.sep in name
    if is_path and os.path.isfile(name):
        return given
    known = packaged()
    if name in known:
        return known[name] + colon + argument
    hint = did_you_mean(pathlib.Path(name).stem, known) or f'; packaged: {", ".join(known)}'
    if os.path.isfile(name):
        hint = f'; the file of this name is --config=./{given}'
    raise UserError(f'--config={given}: no such file{hint}')


def load(given: str) -> ConfigDict:
    """Loads the ConfigDict of a path or a packaged name, with its argument after a colon.

    UserError with file and line.
    """
    path, colon, argument = path_of(given).partition(':')
    with in_code(path):
        get_config = runpy.run_path(path).get('get_config')
        if get_config is None:
            raise UserError('no function get_config in it')
        config = get_config(argument) if colon else get_config()
    if not isinstance(config, ConfigDict):
        raise UserError(
            f'{path}: get_config returns {type(config).__name__}, must return an '
            'ml_collections.ConfigDict'
        )
    return config


def _joined(arguments):
    """The arguments with `--config NAME` and `-config=NAME` as `--config=NAME`, fields as well."""
    found: list[str] = []
    for argument in arguments:
        if found and re.fullmatch(r'--config[.\w]*', found[-1]) and argument[:2] != '--':
            found[-1] += f'={argument}'
        else:
            found.append(re.sub(r'^-config(?=[=.]|$)', '--config', argument))
    return found


def with_fields(config: ConfigDict, given: Mapping[str, Any]) -> ConfigDict:
    """A copy of a config with fields as --config.FIELD=VALUE sets them: {'batch.size': '16'}.

    A value that is no text is taken as it is. A field that the group `model` lacks is added, for a
    user's backbone. UserError for other unknown fields, and for a value of another type.
    """
    config = config.copy_and_resolve_references()
    for field, value in given.items():
        *parents, last = field.split('.')
        known = rules.flatten(config)
        if field not in known and parents != ['model']:
            raise UserError(f'config has no field {field}{did_you_mean(field, known)}')
        group = functools.reduce(ConfigDict.__getitem__, parents, config)
        kind = group.get_type(last) if last in group else object
        try:
            with config.unlocked():
                group[last] = _value(value, kind) if isinstance(value, str) else value
        except (TypeError, ValueError):
            raise UserError(f'{field}={value}: must be of type {kind.__name__}') from None
    return config


def _value(text, kind):
    """The value of a text for a field of this type.

    A tuple may be written without brackets. Its parts are numbers or texts.
    """
    if kind is bool:
        text = text.capitalize() or 'True'
    if kind is tuple and text[:1] not in ('', '(', '[') and text != 'None':
        return tuple(
            value if isinstance(value := _value(part, object), (int, float)) else part.strip()
            for part in text.split(',')
        )
    if kind is not str or text == 'None':
        with contextlib.suppress(SyntaxError, ValueError):
            return ast.literal_eval(text.strip())
    return text
