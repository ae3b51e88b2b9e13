"""Section 4.1: the files of a corpus: what their extensions mean and their contents, decompressed.

    .txt .train .dev .test    text: one document (the last three: BabyLM's)
    .jsonl .json              JSON lines: a record a line
    .parquet                  Parquet: a record a row
    .gz .bz2 .zst .lz4        after an extension of text or JSON lines: compressed

A file is on the local disk or in an object store (storage.py).
"""
import bz2
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from gpt1_jax import storage
from gpt1_jax.errors import UserError

TEXT = 'text'
JSON_LINES = 'JSON lines'
PARQUET = 'Parquet'
KINDS = {'.txt': TEXT, '.train': TEXT, '.dev': TEXT, '.test': TEXT, '.jsonl': JSON_LINES, '.json': JSON_LINES,
         '.parquet': PARQUET}
COMPRESSED = {'.gz': 'gzip', '.bz2': 'bz2', '.zst': 'zstd', '.lz4': 'lz4'}
READ = f'{", ".join(KINDS)}; all but .parquet also compressed: {", ".join(COMPRESSED)}'  # for messages


def kind(name: str) -> str | None:
    """TEXT, JSON_LINES or PARQUET by a file's extensions; None for others."""
    stem, extension = _cut(name)
    if extension not in COMPRESSED:
        return KINDS.get(extension)
    found = KINDS.get(_cut(stem)[1])
    return None if found == PARQUET else found  # Parquet compresses its own pages


def in_directories(name: str) -> bool:
    """Whether a file is read where its directory is named. A plain .json is not: beside a corpus it holds metadata."""
    return kind(name) is not None and not name.endswith('.json')


def _cut(name):
    """'a/b.txt.gz' -> ('b.txt', '.gz')."""
    stem, _, extension = os.path.basename(name).rpartition('.')
    return stem, f'.{extension}'


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The contents of a file as a stream of bytes, decompressed. UserError if it cannot be read, also while it is."""
    try:
        with storage.opened(name) as raw, _decompressed(raw, _cut(name)[1]) as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f'{name}: cannot be read ({error})') from None


def _decompressed(raw, extension):
    """A stream of the decompressed bytes of another. Python has gzip and bz2; pyarrow, imported for the others alone,
    has Zstandard and LZ4."""
    if extension not in COMPRESSED:
        return contextlib.nullcontext(raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw, 1 << 20))
    if extension == '.gz':
        return gzip.GzipFile(fileobj=raw)
    if extension == '.bz2':
        return bz2.BZ2File(raw)
    import pyarrow
    return io.BufferedReader(pyarrow.CompressedInputStream(raw, COMPRESSED[extension]), 1 << 20)
