"""Names on the Hugging Face Hub: hf:USER/NAME, or hf:USER/NAME@REVISION (a branch, a tag or a commit).

huggingface_hub (extra `hub`) talks to it and keeps what it downloads in its cache (HF_HOME). HF_TOKEN, or
`hf auth login`, opens private and gated repositories; HF_ENDPOINT names another server.
"""
import contextlib
import functools
import importlib.util
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from gpt1_jax.errors import UserError, one_line

PREFIX = 'hf:'
EXTRA = "names on the Hugging Face Hub need the extra hub: pip install 'gpt1_jax[hub]'"
NAME = r'[\w.-]+(/[\w.-]+)?'


def is_name(path: Any) -> bool:
    return isinstance(path, str) and path.startswith(PREFIX)


def split(name: str) -> tuple[str, str | None]:
    """(USER/NAME, revision or None) of 'hf:USER/NAME@REVISION', with or without 'hf:'. UserError if it is no name."""
    repository, at, revision = name.removeprefix(PREFIX).partition('@')
    if not re.fullmatch(NAME, repository) or (at and not revision):
        raise UserError(f'{name}: must be {PREFIX}USER/NAME or {PREFIX}USER/NAME@REVISION')
    return repository, revision or None


@functools.cache  # one question to the Hub for the files and the rows of a split
def download(name: str, kind: str, patterns: tuple[str, ...]) -> pathlib.Path:
    """The local directory of a repository's files that match a pattern, absent if none does; its name is the commit.

    kind: 'model' or 'dataset'. Without a network, files that were downloaded before are used. UserError for a name that
    is wrong, private or gated, and for no network where none of the files was downloaded before.
    """
    library = client(name)
    repository, revision = split(name)
    with one_line_errors(name):
        directory = pathlib.Path(library.snapshot_download(repository, repo_type=kind, revision=revision,
                                                           allow_patterns=list(patterns)))
    if not any(next(directory.glob(pattern), None) for pattern in patterns):
        try:
            with one_line_errors(name):  # without a network, huggingface_hub gives the directory of other files
                library.HfApi().repo_info(repository, repo_type=kind, revision=directory.name)
        except UserError as error:
            raise UserError(f'{error}, and not all of it was downloaded before') from None
    return directory


@contextlib.contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Turns what huggingface_hub raises for a name, a token or a network into a UserError."""
    try:
        yield
    except Exception as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise UserError(f'{name}: {meaning}') from None


def _meaning(error):
    """What an exception of huggingface_hub, of its connection or of its cache means; None of any other."""
    from huggingface_hub import errors
    if isinstance(error, errors.OfflineModeIsEnabled):
        return 'HF_HUB_OFFLINE is set'
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f'{_meaning(error.__cause__) or "the Hub cannot be reached"}, and not all of it was downloaded before'
    if type(error) is errors.RepositoryNotFoundError:  # without a token the Hub says that the password is wrong
        return 'the Hub has no such repository, or it is private: check the name, and set HF_TOKEN for a private one'
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        hint = ': set HF_TOKEN to a token with the right to do this' if status in (401, 403) else ''
        said = ' '.join((error.server_message or str(error)).split())
        return f'the Hub answers HTTP {status} ({one_line(said, 300)}){hint}'
    if type(error).__module__.startswith(('httpx', 'httpcore')):  # also httpx2, of newer versions
        return f'the Hub cannot be reached ({type(error).__name__}: {one_line(str(error), 300)})'
    # A name that the Hub refuses; a cache that cannot be written.
    return ' '.join(str(error).split()) if isinstance(error, (ValueError, OSError)) else None


def client(name: str) -> Any:
    """The module huggingface_hub. UserError naming the extra where it is not installed."""
    if importlib.util.find_spec('huggingface_hub') is None:
        raise UserError(f'{name}: {EXTRA}')
    import huggingface_hub
    import huggingface_hub.errors
    import huggingface_hub.utils
    huggingface_hub.utils.logging.set_verbosity_error()  # errors are reported in a line of ours
    if not sys.stderr.isatty():
        huggingface_hub.utils.disable_progress_bars()
    return huggingface_hub
