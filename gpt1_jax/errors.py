"""Errors that a user can cause: one line each, without a traceback."""

import contextlib
import difflib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

MAX_MESSAGE = 2000  # characters; longer messages lose their middle
MAX_VALUE = 300  # characters of one value, or of a list of names, inside a message
TYPED: dict[str, str] = {}  # {path in the cache: the name that the user gave}, for messages


class UserError(Exception):
    """A mistake in the input. The message is one line that names the file, row, field, parameter or
    step.

    The constructor escapes line breaks and control characters, which may come from a file name or a
    file's contents (`one_line`). Entry points print `error: MESSAGE` and exit with a non-zero
    status. They catch no other exception of this library, so a traceback always means a bug in this
    library.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(_as_typed(arg) if isinstance(arg, str) else arg for arg in args))

    def _render_traceback_(self) -> list[str]:
        """IPython calls this instead of printing a traceback, so notebooks also show one line."""
        return [f'error: {self}']


class Interrupted(UserError):
    """The run was asked to stop and has saved its state. The same command continues it."""


def fail(message: str) -> NoReturn:
    """Raise a message as a UserError: the default `on_bad` of readers.

    Readers call `on_bad(message)` for every bad row. With `list.append` in place of this function
    they skip bad rows and collect the messages.
    """
    raise UserError(message) from None


def _as_typed(message):
    for path, name in TYPED.items():
        message = message.replace(path, name)
    return one_line(message)


def refuse(message: str, option: str = 'skip_bad=True') -> NoReturn:
    """As `fail`, and names the option that leaves bad rows out."""
    fail(f'{message}; {option} leaves such rows out')


def one_line(text: str, max_length: int = MAX_MESSAGE) -> str:
    """Text as one printable line.

    Other characters become Python escapes, and the middle of a long text is cut out.
    """
    if not text.isprintable():
        text = ''.join(
            c if c.isprintable() else c.encode('unicode_escape').decode('ascii') for c in text
        )
    if len(text) <= max_length:
        return text
    return f'{text[: max_length * 2 // 3]} ... {text[-(max_length // 4) :]}'


def os_line(error: OSError) -> str:
    """'FILE: cause' of an OSError, which has the name of its file."""
    file = error.filename2 or error.filename  # of os.replace: the target
    return one_line(f'{file}: {error.strerror or type(error).__name__}' if file else str(error))


@contextlib.contextmanager
def os_errors_in_one_line() -> Iterator[None]:
    """Turns an OSError into a UserError.

    Only for the edges of the package. Library functions let OSErrors pass.
    """
    try:
        yield
    except OSError as error:
        raise UserError(os_line(error)) from None


@contextlib.contextmanager
def in_code(path: str) -> Iterator[None]:
    """Turns any error in a user's Python file into a UserError that names the file and its line.

    Meanwhile the file may import its neighbours: the working directory is the last of sys.path. At
    other times nothing is imported from there, because the directory may be a stranger's.
    """
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    except UserError as error:
        raise UserError(f'{path}: {error}') from None
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if os.path.abspath(frame.filename) == os.path.abspath(path)
        ]
        line = f' line {lines[-1]}:' if lines else ''
        raise UserError(f'{path}:{line} {type(error).__name__}: {error}') from None
    finally:
        if added:
            sys.path.remove(here)


def shown(value: Any) -> str:
    """The repr of a value for a message, shortened if it is long."""
    return one_line(repr(value), MAX_VALUE)


def listed(names: Iterable[Any]) -> str:
    """The names of columns for a message, shortened if they are long."""
    return one_line(', '.join(map(str, names)), MAX_VALUE)


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """ ", did you mean 'x'?" with the known name most similar to a wrong name, '' without one."""
    close = difflib.get_close_matches(str(name), [str(one) for one in known], n=1)
    return f', did you mean {close[0]!r}?' if close else ''
