"""Standard output and error of a program whose reader may end first, as `head` or a closed terminal
does."""

import errno
import os
import sys

ENDED = 128 + 13  # the exit status that a shell shows for a program killed by SIGPIPE
GONE = (errno.EPIPE, errno.EIO)  # of a pipe without a reader, and of a closed terminal


class Stream:
    """A text stream whose failed writes raise nothing. After a failure it writes to /dev/null.

    ends: instead, once the reader is gone, the program ends silently, with the status ENDED. Other
    errors are then raised.
    """

    def __init__(self, stream, ends=False) -> None:
        self._stream = stream
        self._ends = ends

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error):
        if self._ends and error.errno not in GONE:
            raise error
        # The descriptor itself, for buffered text and for libraries that write to it directly.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
        if self._ends:
            sys.exit(ENDED)


def guard(ends: bool = False) -> None:
    """Make standard output and error of this process Streams. ends: of output, see Stream."""
    # Python has None for a stream that was closed from the start.
    sys.stdout = Stream(sys.stdout or open(os.devnull, 'w', encoding='utf-8'), ends)
    # For file names that the terminal's encoding lacks
    sys.stdout.reconfigure(errors='backslashreplace')
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
