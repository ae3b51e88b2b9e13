"""Standard output and error of a program whose reader may end first, as `head` or a closed terminal
does."""

import os
import signal
import sys
from typing import Any


class Stream:
    """A text stream whose failed writes raise nothing. After a failure it writes to /dev/null."""

    def __init__(self, stream) -> None:
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._lose()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._lose()

    def _lose(self):
        # The descriptor itself, for buffered text and for libraries that write to it directly.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def guard(ends: bool = False) -> None:
    """Make standard output and error of this process Streams. ends: SIGPIPE ends the process, so
    that a failed write of output is an error."""
    # Python has None for a stream that was closed from the start.
    output: Any = sys.stdout or open(os.devnull, 'w', encoding='utf-8')
    output.reconfigure(errors='backslashreplace')  # for names that the terminal's encoding lacks
    if ends:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout = output if ends else Stream(output)
    sys.stderr = Stream(sys.stderr or open(os.devnull, 'w', encoding='utf-8'))


def typed(argument: str) -> str:
    """An argument as users of other programs mean it: -h, and ~ for the home directory.

    A shell leaves the ~ of --out=~/x as it is.
    """
    if argument == '-h':
        return '--help'
    flag, equals, value = argument.partition('=')
    if not equals or '~' not in value or flag in ('--prompt', '--stop'):
        return argument
    return flag + equals + ','.join(map(os.path.expanduser, value.split(',')))
