"""The shards of a split on disk, each with a record of what it was made from, so that unchanged ones are reused.

00000.bin holds uint16 tokens. Its record, 00000.json, holds a key of the tokenizer and the sizes, a hash of the text,
counts, and the SHA-256 of the .bin.
"""
import contextlib
import hashlib
import itertools
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gpt1_jax import storage
from gpt1_jax.data.tokens import DTYPE
from gpt1_jax.errors import UserError

FIELDS = ('file', 'documents', 'tokens', 'unknown', 'sha256')  # of a record, those that are copied to the manifest
COUNTS = ('documents', 'tokens', 'unknown', 'units')


def name(number: int) -> str:
    """The file name of a shard."""
    return f'{number:05d}.bin'


def keep(directory: pathlib.Path, stream: Iterator, key: str, shard_tokens: int, unk_id: int,
         report: Callable, make_again: Callable[[list], np.ndarray] | None = None) -> tuple[list[dict], Iterator]:
    """The records of the leading shards that still match a stream of encode.Unit, and the rest of that stream.

    make_again: units -> tokens. Repairs a missing or damaged .bin whose text is unchanged, if that gives the same
    tokens. Without it such a shard does not match, and nothing is written.
    """
    shards: list[dict] = []
    while True:
        record = _record(directory / name(len(shards)), key)
        taken = list(itertools.islice(stream, record['units'])) if record else []
        same_text = record and _same_text(record, taken)
        if same_text and record['tokens'] < shard_tokens:  # the last shard: the text must still end here
            following = list(itertools.islice(stream, 1))
            taken += following
            same_text = not following
        if not same_text or not _sound(directory / record['file'], record, taken, unk_id, make_again):
            return shards, itertools.chain(taken, stream)
        for unit in taken:
            report(unit.documents, None, unit.characters)
        shards.append(record)


def write(directory: pathlib.Path, number: int, data: bytes, made_from: Sequence[tuple], key: str) -> dict:
    """Write a shard and then its record; returns the record.

    made_from: (documents, unknown tokens, digest) of each unit.
    """
    file = directory / name(number)
    record = {'file': file.name, 'documents': sum(documents for documents, _, _ in made_from),
              'tokens': len(data) // DTYPE.itemsize, 'unknown': sum(unknown for _, unknown, _ in made_from),
              'sha256': hashlib.sha256(data).hexdigest(), 'key': key, 'units': len(made_from),
              'made_from': _digests(digest for _, _, digest in made_from)}
    # First, or a kill between the two writes could leave an old record beside a new shard.
    file.with_suffix('.json').unlink(missing_ok=True)
    storage.write(file, data)
    storage.write_json(file.with_suffix('.json'), record)
    return record


def remove_others(directory: pathlib.Path, count: int) -> None:
    """Remove all shards but the first `count`, left by an earlier run with more text, and half-written files."""
    for file in directory.iterdir():
        if re.fullmatch(r'\d{5}\.(bin|json)(\.partial)?', file.name) and (
                file.suffix == '.partial' or int(file.stem) >= count):
            file.unlink()


def digest(unit: Any) -> bytes:
    """SHA-256 of everything in an encode.Unit that its tokens depend on."""
    result = hashlib.sha256(f'{unit.documents}'.encode())
    for part in unit.texts:
        head = f'\n{part.unescape_html} {len(part.text)} '
        if part.goes_on:
            head += 'goes on '
        result.update(head.encode() + part.text.encode('utf-8', 'surrogatepass'))
    return result.digest()


def _digests(digests: Iterable[bytes]) -> str:
    return hashlib.sha256(b''.join(digests)).hexdigest()


def _record(file, key):
    """The record of a shard; None if it is missing, damaged or has another key."""
    try:
        record = storage.read_json(file.with_suffix('.json'))
        if (record['key'], record['file']) != (key, file.name):
            return None
        counted = all(type(record[name]) is int and record[name] >= 0 for name in COUNTS)
        return record if counted and {*FIELDS, 'made_from'} <= record.keys() else None
    except (UserError, KeyError, TypeError):  # the last where it is no object
        return None


def _same_text(record, units) -> bool:
    return (_digests(map(digest, units)) == record['made_from']
            and record['documents'] == sum(unit.documents for unit in units))


def _sound(file, record, units, unk_id, make_again):
    """Whether a shard's file matches its record, if need be after it was made again."""
    def as_recorded(data):
        return (len(data) == record['tokens'] * DTYPE.itemsize
                and hashlib.sha256(data).hexdigest() == record['sha256']
                and record['unknown'] == int(np.count_nonzero(np.frombuffer(data, DTYPE) == unk_id)))
    with contextlib.suppress(OSError):  # missing, or a bad disk
        if as_recorded(file.read_bytes()):
            return True
    data = make_again(units).tobytes() if make_again else b''
    if not data or not as_recorded(data):
        return False
    storage.write(file, data)
    return True
