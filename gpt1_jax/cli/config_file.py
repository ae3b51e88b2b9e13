"""Which file --config names: a path, or the name of a config that comes with the package, such as `finetune:rte`."""
import importlib.util
import os
import pathlib
import sys
from typing import Any

from absl import flags
from ml_collections import config_flags

from gpt1_jax import configs
from gpt1_jax.errors import did_you_mean


def define(default: str, help_string: str) -> None:
    """The flag --config, with an override --config.FIELD for every field.

    default: a packaged config, 'finetune:cola'. On the command line --config is that, too, or a path, FILE:rte.
    flags.IllegalFlagValueError for a name that is neither, with the nearest one.
    """
    sys.argv[:] = _resolved(sys.argv)  # ml_collections reads the arguments itself, before they are parsed
    config_flags.DEFINE_config_file('config', path_of(default), help_string)


def packaged() -> dict[str, str]:
    """{name: path} of the configs that come with the package: those of the clone, or the wheel's."""
    files = [file for folder in configs.__path__ for file in pathlib.Path(folder).glob('*.py')]
    return {file.stem: str(file) for file in sorted(files) if file.stem != '__init__'}


def path_of(given: str) -> str:
    """The path, with ':ARGUMENT' where there is one, of what --config was given; a file's is left as it is."""
    name, colon, argument = given.partition(':')
    if not name or os.path.isfile(name):
        return given
    known = packaged()
    if name in known:
        return _short(known[name]) + colon + argument
    stem = pathlib.Path(name).stem
    if stem in known:
        hint = f': --config={stem}{colon}{argument} is the one that comes with the package'
    else:
        hint = did_you_mean(stem, known) or f'; packaged: {", ".join(known)}'
    raise flags.IllegalFlagValueError(f'--config={given}: no such file{hint}')


def load(given: str) -> Any:
    """The ConfigDict of a path or a packaged name, its argument after a colon."""
    path, colon, argument = path_of(given).partition(':')
    spec = importlib.util.spec_from_file_location('gpt1_jax_config_to_show', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(argument) if colon else module.get_config()


def _short(path):
    """A path below the working directory relative to it, so that messages name `configs/pretrain.py`."""
    relative = os.path.relpath(path)
    return path if relative.startswith('..') else relative


def _resolved(arguments):
    """The command line with the path of a packaged config in place of its name."""
    found = list(arguments)
    for i, argument in enumerate(found):
        flag, equals, value = argument.partition('=')
        if flag not in ('--config', '-config'):
            continue
        if equals:
            found[i] = f'{flag}={path_of(value)}'
        elif i + 1 < len(found):
            found[i + 1] = path_of(found[i + 1])
    return found
