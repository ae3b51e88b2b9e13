"""Functions and classes of the user's own, named in a config: 'FILE:NAME', or for optimizers 'optax:NAME'.

    --config.model.ops.gelu=ideas/relu.py:relu --config.optimizer.kind=optax:lion

A run records the SHA-256 of each file, and resumes only with the same contents. Each file runs once a process, in which
it must not change: compiled programs would still have the code of before.
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


def names_code(value: Any) -> bool:
    """Whether a config's value names code ('FILE:NAME') rather than something built in."""
    return isinstance(value, str) and ':' in value


def load(name: str, field: str) -> Any:
    """The function or class that 'FILE:NAME' or 'optax:NAME' names.

    field: of the config, for errors. UserError where the file does not exist, cannot be run, has changed since this
    process ran it, or has no such name.
    """
    place, _, attribute = name.rpartition(':')
    module = importlib.import_module(place) if place in LIBRARIES else _module(place, field)
    try:
        return functools.reduce(getattr, attribute.split('.'), module)
    except AttributeError:
        public = [known for known in vars(module) if not known.startswith('_')]
        raise UserError(f'{field} = {name}: {place} has no {attribute!r}{did_you_mean(attribute, public)}') from None


@contextlib.contextmanager
def running(name: str, field: str) -> Iterator[None]:
    """Turns what goes wrong in loaded code into a UserError that names the config's field, the file and its line."""
    try:
        with in_code(name.rpartition(':')[0]):
            yield
    except UserError as error:
        raise UserError(f'{field} = {name}: {error}') from None


def digest(name: str) -> str:
    """What a run records of 'FILE:NAME': the SHA-256 of the file; of a library its version."""
    place = name.rpartition(':')[0]
    if place in LIBRARIES:
        return importlib.import_module(place).__version__
    return hashlib.sha256(pathlib.Path(place).resolve().read_bytes()).hexdigest()


def digests(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """{'code': {FILE:NAME: digest}} of the code that a config names in its optimizer and model; {} where it names none.
    """
    found = {value: digest(value) for group in ('optimizer', 'model')
             for value in rules.flatten(config[group]).values() if names_code(value)}
    return {'code': found} if found else {}


def check(run: Any, recorded: Mapping[str, str]) -> None:
    """UserError where code that a run was trained with has changed. recorded: its {FILE:NAME: digest}."""
    for name, expected in recorded.items():
        try:
            found = digest(name)
        except OSError as error:
            raise UserError(f'{run}: was trained with {name}, which cannot be read ({os_line(error)})') from None
        if found != expected:
            raise UserError(f'{run}: was trained with {name}, which has changed since')


_places: dict[str, pathlib.Path] = {}  # where each FILE of FILE:NAME is, by which compiled programs are found again
_modules: dict[pathlib.Path, tuple[bytes, types.ModuleType]] = {}  # (contents, module) of the files run so far


def _module(file, field):
    """The module of a file, which runs once: programs that were compiled with it stay in use in this process."""
    path = pathlib.Path(file).resolve()
    try:
        with os_errors_in_one_line():
            contents = path.read_bytes()
        if _places.setdefault(str(file), path) != path:
            raise UserError(f'{file} was {_places[str(file)]} before in this process: give an absolute path')
        if path in _modules:
            before, module = _modules[path]
            if before != contents:
                raise UserError(f'{file} has changed since this process ran it: start a new process')
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
