"""Section 4.1: the files of a corpus, the meaning of their extensions, and their decompressed
contents.

A file is on the local disk or in an object store (storage).
"""

import contextlib
import io
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from gpt1_jax import storage

# A document, a record a line, a record a row
TEXT = 'text'
JSON_LINES = 'JSON lines'
PARQUET = 'Parquet'
KINDS = {
    '.txt': TEXT,
    '.train': TEXT,
    '.dev': TEXT,
    '.test': TEXT,  # the last three are BabyLM's
    '.jsonl': JSON_LINES,
    '.json': JSON_LINES,
    '.parquet': PARQUET,
}
COMPRESSED = {'.gz': 'gzip', '.bz2': 'bz2', '.zst': 'zstd', '.lz4': 'lz4'}
# Names of validation data. `_HELD_OUT` finds these, and test, in names of files and directories
DEV = ('dev', 'val', 'valid', 'validation', 'eval')
_HELD_OUT = re.compile(rf'(?i)(^|[-_.])({"|".join(DEV)}|test)(?=[-_]?\d|\.|$)')
# For messages
READ = f'{", ".join(KINDS)}; all but .parquet also compressed: {", ".join(COMPRESSED)}'


def kind(name: str) -> str | None:
    """TEXT, JSON_LINES or PARQUET by a file's extensions, None for other extensions."""
    *_, inner, last = ('', *os.path.basename(name).split('.'))
    if f'.{last}' not in COMPRESSED:
        return KINDS.get(f'.{last}')
    found = KINDS.get(f'.{inner}')
    return None if found == PARQUET else found  # Parquet compresses its own pages


def in_directories(name: str) -> bool:
    """Whether a file is read if only its directory is named.

    A plain .json is not read, because beside a corpus it holds metadata.
    """
    return kind(name) is not None and not name.endswith('.json')


def is_held_out(name: str) -> bool:
    """Whether a path has a name of validation or test data, in the file or in a directory.

    Such as dev/a.txt, a.test, validation-00000-of-00001.parquet.
    """
    return any(map(_HELD_OUT.search, pathlib.PurePath(name).parts))


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Opens the decompressed contents of a file as a stream of bytes.

    OSError if the file cannot be opened, or later cannot be read.
    """
    extension = os.path.splitext(name)[1]
    with storage.opened(name) as raw, contextlib.ExitStack() as stack:
        stream: Any = raw
        if extension in COMPRESSED:
            import pyarrow

            stream = pyarrow.CompressedInputStream(raw, COMPRESSED[extension])
        yield (
            stream
            if hasattr(stream, 'peek')
            else stack.enter_context(io.BufferedReader(stream, 1 << 20))
        )
