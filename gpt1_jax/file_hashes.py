"""The SHA-256 of every file under a directory, kept in its files.json: not what decides whether a checkpoint is sound
(its arrays' digests do), but what names the file when it is not."""
import hashlib
import json

from gpt1_jax import storage

RECORD = 'files.json'


def write(directory):
    """Record size and SHA-256 of every file; the record appears complete or not at all. OSError as the disk says."""
    directory = storage.path(directory)
    files = {name: list(storage.size_and_sha256(file)) for name, file in sorted(storage.files(directory).items())
             if name not in (RECORD, f'{RECORD}.partial')}
    storage.write(directory / RECORD, json.dumps({'files': files, 'digest': digest(files)}, indent=1).encode())


def differences(directory):
    """What is not as `write` found it, a phrase each: ['params/d/0ab3 is missing']; [] where nothing differs.

    None where no record can be relied on: it was never written, or is damaged itself.
    """
    directory = storage.path(directory)
    try:
        record = json.loads((directory / RECORD).read_bytes())
        if record['digest'] != digest(record['files']):
            return None
        found = {name: _difference(directory / name, *expected) for name, expected in record['files'].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return [f'{name} {phrase}' for name, phrase in found.items() if phrase]


def digest(value):
    """SHA-256, in hexadecimal digits, of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _difference(file, size, sha256):
    try:
        found = storage.size_and_sha256(file)
    except FileNotFoundError:
        return 'is missing'
    except OSError as error:
        return f'cannot be read ({error.strerror or error})'
    if found[0] != size:
        return f'has {found[0]:,} bytes, not {size:,}'
    return None if found[1] == sha256 else 'holds other bytes than were written'
