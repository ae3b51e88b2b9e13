"""What a user did wrong, in one line."""


class UserError(Exception):
    """A mistake in the input: its message is one line naming the file, row, field, parameter or step.

    Entry points print the message and exit with a non-zero status; nothing else of ours is caught there,
    so a traceback always means a bug in this library.
    """


class Interrupted(UserError):
    """The run was asked to stop, has saved its state and can be continued by the same command."""
