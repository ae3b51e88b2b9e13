"""Loads a user's functions and classes, which a config names: 'FILE:NAME', or for optimizers
'optax:NAME'.

    --config.model.ops.gelu=ideas/relu.py:relu --config.optimizer.kind=optax:lion

A run records the SHA-256 of each file, and resumes only with the same contents. Each file runs once
in a process. While the process runs, the file must not change, because compiled programs would
still have the old code.

Only code that the user names runs. The names in the config of a command are trusted (`trust`). A
run that is read may come from a stranger, and its config.json may name any file. Without
--trust_code, `load` refuses code that only the run names.
"""

import contextlib
import functools
import hashlib
import importlib
import pathlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from gpt1_jax import rules
from gpt1_jax.errors import UserError, did_you_mean, in_code, os_errors_in_one_line, os_line

LIBRARIES = ('optax',)

_trusted: set[str] = set()  # the FILE:NAME in configs that this process was given
_everything_trusted = False


def names_code(value: Any) -> bool:
    """Whether a config's value names code ('FILE:NAME') rather than a built-in choice."""
    return isinstance(value, str) and ':' in value


def trust(config: Mapping[str, Any]) -> None:
    """Allow the code that a user's config names."""
    _trusted.update(_named(config))


def trust_everything() -> None:
    """Allow all code, also code that only a run names. This is the flag --trust_code."""
    global _everything_trusted
    _everything_trusted = True


def load(name: str, field: str) -> Any:
    """Load the function or class that 'FILE:NAME' or 'optax:NAME' names.

    field: of the config, for errors. UserError if nobody trusted the name, or if the file does not
    exist, cannot be run, has changed since this process ran it, or has no such name.
    """
    place, _, attribute = name.rpartition(':')
    if place in LIBRARIES:
        module = importlib.import_module(place)
    elif not place:
        raise UserError(f'{field} = {name}: must be FILE:NAME, and no file is before the colon')
    elif name in _trusted or _everything_trusted:
        module = _module(place, field)
    else:
        raise UserError(
            f'{field} = {name}: is code, which this command does not name: read {place}, then give '
            '--trust_code (in Python trust_code=True) to run it'
        )
    try:
        found = functools.reduce(getattr, attribute.split('.'), module)
    except AttributeError:
        public = [known for known in vars(module) if not known.startswith('_')]
        raise UserError(
            f'{field} = {name}: {place} has no {attribute!r}{did_you_mean(attribute, public)}'
        ) from None
    if place in LIBRARIES and not str(getattr(found, '__module__', '')).startswith(place):
        # The name is, for example, a module that the file imports, or a method of a dictionary
        raise UserError(f'{field} = {name}: is not a function of {place} itself')
    return found


@contextlib.contextmanager
def running(name: str, field: str) -> Iterator[None]:
    """Turns any error in loaded code into a UserError.

    The error names the config's field, the file and its line.
    """
    try:
        with in_code(name.rpartition(':')[0]):
            yield
    except UserError as error:
        raise UserError(f'{field} = {name}: {error}') from None


def digest(name: str) -> str:
    """The value that a run records for 'FILE:NAME': the file's SHA-256, or a library's version."""
    place = name.rpartition(':')[0]
    if place in LIBRARIES:
        return importlib.import_module(place).__version__
    return hashlib.sha256(pathlib.Path(place).resolve().read_bytes()).hexdigest()


def digests(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """{'code': {FILE:NAME: digest}} of the code that a config names, {} if it names none."""
    found = {name: digest(name) for name in _named(config)}
    return {'code': found} if found else {}


def _named(config):
    """The FILE:NAME and optax:NAME in a config: its task, and values of its optimizer and model."""
    values = [config.get('task')]
    for group in ('optimizer', 'model'):
        found = config.get(group)
        if hasattr(found, 'items'):  # any other value is a mistake, which is reported later
            values += rules.flatten(found).values()
    return [value for value in values if names_code(value)]


def check(run: Any, recorded: Mapping[str, str]) -> None:
    """UserError if code with which a run was trained has changed.

    recorded: the run's {FILE:NAME: digest}.
    """
    for name, expected in recorded.items():
        try:
            found = digest(name)
        except OSError as error:
            raise UserError(
                f'{run}: was trained with {name}, which cannot be read ({os_line(error)})'
            ) from None
        if found != expected:
            raise UserError(f'{run}: was trained with {name}, which has changed since')


# {FILE of FILE:NAME: its place}, by which compiled programs are found again
_places: dict[str, pathlib.Path] = {}
# (contents, module) of the files run so far
_modules: dict[pathlib.Path, tuple[bytes, types.ModuleType]] = {}


def _module(file, field):
    """The module of a file.

    The file runs only once, because programs compiled with its code stay in use in this process.
    """
    path = pathlib.Path(file).resolve()
    try:
        with os_errors_in_one_line():
            contents = path.read_bytes()
        if _places.setdefault(str(file), path) != path:
            raise UserError(
                f'{file} was {_places[str(file)]} before in this process: give an absolute path'
            )
        if path in _modules:
            before, module = _modules[path]
            if before != contents:
                raise UserError(
                    f'{file} has changed since this process ran it: start a new process'
                )
            return module
        place = hashlib.sha256(bytes(path)).hexdigest()[:12]  # two files may share a name
        module = types.ModuleType(f'gpt1_jax_user_code_{place}_{path.stem}')
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # dataclasses and Flax look their module up there
        with in_code(str(file)):
            exec(compile(contents, str(file), 'exec'), vars(module))  # noqa: S102  the user named this file to be run
    except UserError as error:
        raise UserError(f'{field}: {error}') from None
    _modules[path] = contents, module
    return module
