"""The shards of a split on disk, each with a record of what it was made from, so that unchanged
ones are reused.

00000.bin holds uint16 tokens. Its record, 00000.json, holds a key of the tokenizer and the sizes, a
hash of the text, counts, and the SHA-256 of the .bin. A shard is kept if its record is the one that
its bytes and the text give now.
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
from gpt1_jax.data.tokens import DTYPE
from gpt1_jax.errors import UserError

# Of a record, those that are copied to the manifest
FIELDS = ('file', 'documents', 'tokens', 'unknown', 'sha256')


def name(number: int) -> str:
    """The file name of a shard."""
    return f'{number:05d}.bin'


def keep(
    directory: pathlib.Path,
    stream: Iterator,
    key: str,
    shard_tokens: int,
    report: Callable,
    make_again: Callable[[list], np.ndarray] | None = None,
) -> tuple[list[dict], Iterator]:
    """The records of the leading shards that still match a stream of encode.Unit, and the rest of
    that stream.

    make_again: units -> tokens. Repairs a missing or damaged .bin whose text is unchanged, if that
    gives the same tokens. Without it such a shard does not match, and nothing is written.
    """
    kept: list[dict] = []
    while True:
        file = directory / name(len(kept))
        record = _read(file.with_suffix('.json'))
        taken = list(itertools.islice(stream, record['units'])) if record else []
        made_from = [source(unit) for unit in taken]
        data = b''
        with contextlib.suppress(OSError):  # missing, or a bad disk
            data = file.read_bytes()
        found = _record(file.name, data, made_from, key)
        if (
            make_again
            and found != record
            and all(found[of] == record.get(of) for of in ('key', 'made_from'))
        ):
            data = make_again(taken).tobytes()
            found = _record(file.name, data, made_from, key)
            if found == record:
                storage.write(file, data)
        # After the last shard, which is the only short one, the text must end.
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
    """Write a shard and then its record; returns the record. made_from: the `source` of each
    unit."""
    file = directory / name(number)
    record = _record(file.name, data, made_from, key)
    # First, or a kill between the two writes could leave an old record beside a new shard.
    file.with_suffix('.json').unlink(missing_ok=True)
    storage.write(file, data)
    storage.write_json(file.with_suffix('.json'), record)
    return record


def remove_others(directory: pathlib.Path, count: int) -> None:
    """Remove all shards but the first `count`, left by an earlier run with more text, and
    half-written files."""
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


def _read(file):
    """A record on disk; {} if it is missing, or too damaged to say how many units there are."""
    with contextlib.suppress(UserError, KeyError, TypeError):  # the last where it is no object
        record = storage.read_json(file)
        if 0 <= record['units'] <= sys.maxsize and isinstance(record['units'], int):
            return record
    return {}
