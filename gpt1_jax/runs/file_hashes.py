"""The SHA-256 of every file of a checkpoint, in its files.json. The digests of its arrays decide whether a checkpoint
is sound; files.json names the damaged file when it is not."""
import json
import os

from gpt1_jax import storage

RECORD = 'files.json'


def write(directory: str | os.PathLike) -> None:
    """Record size and SHA-256 of every file; the record appears complete or not at all. OSError as the disk says."""
    directory = storage.path(directory)
    files = {name: list(storage.size_and_sha256(file)) for name, file in sorted(storage.files(directory).items())
             if name not in (RECORD, f'{RECORD}.partial')}
    record = {'files': files, 'digest': storage.json_digest(files)}
    storage.write(directory / RECORD, json.dumps(record, indent=1).encode())


def differences(directory: str | os.PathLike) -> list[str] | None:
    """The files that are not as `write` found them, a phrase each: ['params/d/0ab3 is missing']; [] where none differs.

    None without a sound files.json: it was never written, or is damaged itself.
    """
    directory = storage.path(directory)
    try:
        record = json.loads((directory / RECORD).read_bytes())
        if record['digest'] != storage.json_digest(record['files']):
            return None
        phrases = {name: _difference(directory / name, *expected) for name, expected in record['files'].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return [f'{name} {phrase}' for name, phrase in phrases.items() if phrase]


def _difference(file, size, sha256):
    try:
        found_size, found_sha256 = storage.size_and_sha256(file)
    except FileNotFoundError:
        return 'is missing'
    except OSError as error:
        return f'cannot be read ({error.strerror or error})'
    if found_size != size:
        return f'has {found_size:,} bytes, not {size:,}'
    return None if found_sha256 == sha256 else 'holds other bytes than were written'
