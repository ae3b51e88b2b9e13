"""Keeps the shards of a split on disk. Each shard has a record of its sources, so that unchanged
shards are reused.

00000.bin holds uint16 tokens. Its record, 00000.json, holds a key of the tokenizer and the sizes, a
hash of the text, counts, and the SHA-256 of the .bin. A shard is kept if its bytes and the text
still give the same record.
"""

import contextlib
import hashlib
import itertools
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpt1_jax import storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.windows import DTYPE
from gpt1_jax.errors import UserError

# The fields of a record that are copied to the manifest
FIELDS = ('file', 'documents', 'tokens', 'unknown', 'sha256')


def name(number: int) -> str:
    """The file name of a shard."""
    return f'{number:05d}.bin'


def keep(
    directory: pathlib.Path, stream: Iterator, key: str, shard_tokens: int, report: Callable
) -> tuple[list[dict], Iterator]:
    """The records of the leading shards that match a stream of encode.Unit, and the stream's rest.

    A shard that is missing or damaged does not match. Nothing is written.
    """
    kept: list[dict] = []
    while True:
        file = directory / name(len(kept))
        record = read_record(file)
        taken = list(itertools.islice(stream, record['units'])) if record else []
        made_from = [source(unit) for unit in taken]
        data = b''
        with contextlib.suppress(OSError):  # missing, or a bad disk
            data = file.read_bytes()
        found = _record(file.name, data, made_from, key)
        # Only the last shard may be short, and after it the text must end.
        following = list(itertools.islice(stream, 1)) if found['tokens'] < shard_tokens else []
        if found != record or following:
            return kept, itertools.chain(taken, following, stream)
        for unit in taken:
            report(unit.documents, None, unit.characters)
        kept.append(found)


def write(
    directory: pathlib.Path,
    number: int,
    data: bytes,
    made_from: Sequence[tuple[int, bytes]],
    key: str,
) -> dict:
    """Write a shard and then its record, and return the record.

    made_from: the `source` of each unit.
    """
    file = directory / name(number)
    record = _record(file.name, data, made_from, key)
    # The old record goes first: a kill between the two writes could leave it beside a new shard.
    file.with_suffix('.json').unlink(missing_ok=True)
    storage.write(file, data)
    storage.write_json(file.with_suffix('.json'), record)
    return record


def remove_others(directory: pathlib.Path, count: int) -> None:
    """Remove half-written files and all shards but the first `count`.

    The others are left by an earlier run with more text.
    """
    for file in directory.iterdir():
        if re.fullmatch(r'\d{5}\.(bin|json)(\.partial)?', file.name) and (
            file.suffix == '.partial' or int(file.stem) >= count
        ):
            file.unlink()


def source(unit: Any) -> tuple[int, bytes]:
    """(documents, SHA-256 of everything in an encode.Unit that its tokens depend on)."""
    result = hashlib.sha256(f'{unit.documents}'.encode())
    for part in unit.texts:
        head = f'\n{part.unescape_html} {len(part.text)} '
        if part.goes_on:
            head += 'goes on '
        result.update(head.encode() + part.text.encode('utf-8', 'surrogatepass'))
    return unit.documents, result.digest()


def _record(file, data, made_from, key):
    """The record of a shard of these bytes."""
    tokens = np.frombuffer(data, DTYPE, count=len(data) // DTYPE.itemsize)
    return {
        'file': file,
        'documents': sum(documents for documents, _ in made_from),
        'tokens': len(tokens),
        'unknown': int(np.count_nonzero(tokens == Tokenizer.unk_id)),
        'sha256': hashlib.sha256(data).hexdigest(),
        'key': key,
        'units': len(made_from),
        'made_from': hashlib.sha256(b''.join(digest for _, digest in made_from)).hexdigest(),
    }


def read_record(file: pathlib.Path) -> dict:
    """The record of a shard. {} if it is missing, or too damaged to have its number of units."""
    # FileNotFoundError if it is missing, TypeError if it is no object
    with contextlib.suppress(UserError, KeyError, TypeError, FileNotFoundError):
        record = storage.read_json(file.with_suffix('.json'))
        if 0 <= record['units'] <= sys.maxsize and isinstance(record['units'], int):
            return record
    return {}
