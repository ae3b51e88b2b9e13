"""Names on the Hugging Face Hub: hf:USER/NAME, or hf:USER/NAME@REVISION (a branch, a tag or a
commit).

huggingface_hub (extra `hub`) talks to it and keeps what it downloads in its cache (HF_HOME).
HF_TOKEN, or `hf auth login`, opens private and gated repositories; HF_ENDPOINT names another
server.
"""

import functools
import importlib.util
import pathlib
import re
import sys
from typing import Any

from gpt1_jax.errors import UserError, one_line

PREFIX = 'hf:'
EXTRA = "names on the Hugging Face Hub need the extra hub: pip install 'gpt1_jax[hub]'"
NAME = r'[\w.-]+(/[\w.-]+)?'


def is_name(path: Any) -> bool:
    return isinstance(path, str) and path.startswith(PREFIX)


def split(name: str) -> tuple[str, str | None]:
    """Splits 'hf:USER/NAME@REVISION' into (USER/NAME, revision or None).

    'hf:' may be missing. UserError if `name` has another form.
    """
    repository, at, revision = name.removeprefix(PREFIX).partition('@')
    if not re.fullmatch(NAME, repository) or (at and not revision):
        raise UserError(f'{name}: must be {PREFIX}USER/NAME or {PREFIX}USER/NAME@REVISION')
    return repository, revision or None


@functools.cache  # one question to the Hub for the files and the rows of a split
def download(name: str, kind: str, patterns: tuple[str, ...]) -> pathlib.Path:
    """Downloads a repository's files that match a pattern, and returns their local directory.

    The directory is named for the commit, and does not exist if no file matches. kind: 'model' or
    'dataset'. Without a network, files that were downloaded before are used. UserError, in the
    words of huggingface_hub, if the name is wrong, private or gated, or if the network or the cache
    fails.
    """
    if importlib.util.find_spec('huggingface_hub') is None:
        raise UserError(f'{name}: {EXTRA}')
    import huggingface_hub
    import huggingface_hub.utils

    repository, revision = split(name)
    huggingface_hub.utils.logging.set_verbosity_error()  # errors are reported below, in one line
    if not sys.stderr.isatty():
        huggingface_hub.utils.disable_progress_bars()
    try:
        return pathlib.Path(
            huggingface_hub.snapshot_download(
                repository, repo_type=kind, revision=revision, allow_patterns=list(patterns)
            )
        )
    except Exception as error:  # from the library, its connection or its cache
        said = ' '.join(str(error).split())
        raise UserError(f'{name}: {type(error).__name__}: {one_line(said, 500)}') from None
