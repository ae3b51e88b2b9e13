"""What a user did wrong, in one line."""
import contextlib

LONGEST = 2000  # characters of a message; of a longer one the middle is left out
SHOWN = 300     # characters of one value in it


class UserError(Exception):
    """A mistake in the input: its message is one line naming the file, row, field, parameter or step.

    It is one line whatever a file's name or contents are: see `one_line`. Entry points print the message and exit with
    a non-zero status; nothing else of ours is caught there, so a traceback always means a bug in this library.
    """

    def __init__(self, *args):
        super().__init__(*(one_line(arg) if isinstance(arg, str) else arg for arg in args))

    def _render_traceback_(self):
        """What IPython shows in place of a traceback: in a notebook, too, a mistake is one line."""
        return [f'error: {self}']


class Interrupted(UserError):
    """The run was asked to stop, has saved its state and can be continued by the same command."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """A text for a message: what is not printable is written as Python writes it, a line break as \\n; the middle of a
    long one is left out."""
    text = _cut(text, longest)
    if text.isprintable():
        return text
    return _cut(''.join(c if c.isprintable() else c.encode('unicode_escape').decode('ascii') for c in text), longest)


@contextlib.contextmanager
def about(path):
    """Whatever the system has against a path, such as a name that is too long, becomes a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f'{error.filename or path}: {error.strerror or error}') from None


def shown(value) -> str:
    """A value in a message, as Python writes it; cut where it is long, its kind where Python does not write it (a whole
    number of thousands of digits, a list that is nested too deep)."""
    try:
        return one_line(repr(value), SHOWN)
    except (ValueError, RecursionError):
        return f'a {type(value).__name__} too large to show'


def _cut(text, longest):
    return text if len(text) <= longest else f'{text[:longest * 2 // 3]} ... {text[-(longest // 4):]}'
