"""What a run leaves behind beside its weights: metrics.jsonl, results.jsonl, predictions.jsonl.

JSON lines, nothing else.
"""
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

import numpy as np

from gpt1_jax.errors import UserError


def append(path, *rows):
    """Lines at the end of a JSON-lines file, in one write, flushed to the disk. A last line cut by a kill is removed
    first."""
    with open(path, 'ab+') as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - 4096, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b'\n')
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        file.truncate(end)
        file.write(b''.join(json.dumps(row, ensure_ascii=False).encode() + b'\n' for row in rows))
        file.flush()
        os.fsync(file.fileno())


def append_new(path, rows):
    """Append the rows of results.jsonl that are not there yet.

    Scoring the same parameters on the same files again is none.
    """
    def identity(row):
        names = ('kind', 'task', 'split', 'group', 'selection', 'metric', 'value', 'run', 'digest', 'files', 'key')
        return json.dumps([row.get(name) for name in names])
    known = set(map(identity, read(path)))
    new = [row for row in rows if identity(row) not in known]
    if new:
        append(path, *new)


def read(path):
    """The rows of a JSON-lines file, none if it is missing; a last line cut by a kill is left out."""
    path = pathlib.Path(path)
    if not path.exists():
        return []
    *lines, _ = path.read_text(encoding='utf-8').split('\n')  # not splitlines: strings may hold U+2028
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise UserError(f'{path}: line {number}: not JSON ({error})') from None
    return rows


def write(path, rows):
    """Replace a JSON-lines file in one step."""
    partial = pathlib.Path(f'{path}.partial')
    lines = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
    partial.write_text(lines, encoding='utf-8', newline='')
    partial.replace(path)


def rewind(path, step):
    """Drop the rows after a step: a run that goes on from there writes them again."""
    rows = read(path)
    if rows or pathlib.Path(path).exists():
        write(path, [row for row in rows if row.get('step', 0) <= step])


def write_predictions(path, ids, gold, scores):
    """predictions.jsonl: {"id", "gold" (label index, value or null), "scores" (one a label or choice)} a row, in the
    file's order. The logit of a choice that a row does not have (heads.ABSENT) is left out."""
    write(path, [{'id': i, 'gold': g, 'scores': [float(f'{s:.12g}') for s in np.atleast_1d(row) if s > -1e8]}
                 for i, g, row in zip(ids, gold, scores, strict=True)])


def file_hashes(paths):
    """{file name: first 16 hex digits of its sha256}, one entry for all of more than 16 files. UserError for a file
    that cannot be read."""
    try:
        found = {str(p): _hash(str(p), os.stat(p).st_mtime_ns, os.stat(p).st_size) for p in paths}
    except OSError as error:
        raise UserError(f'{error.filename}: {error.strerror}') from None
    if len(found) > 16:
        return {f'{len(found)} files': digest([(pathlib.Path(p).name, h) for p, h in found.items()])}
    names = [pathlib.Path(p).name for p in found]
    if len(set(names)) < len(names):  # two folders have a file of one name
        names = ['/'.join(pathlib.Path(p).parts[-3:]) for p in found]
    return dict(zip(names, found.values()))


@functools.lru_cache(maxsize=None)
def _hash(path, modified, size):
    """Of a file as it is now: unless its time or size changed it is not read again."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]


def digest(value):
    """16 hex digits of a value that JSON can hold: equal values, equal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


@functools.cache
def code_digest():
    """16 hex digits of this package's sources: what made a figure, also in a clone with changes not committed."""
    root = pathlib.Path(__file__).resolve().parent
    return digest([(str(p.relative_to(root)), p.read_text(encoding='utf-8')) for p in sorted(root.rglob('*.py'))])


def versions():
    """Git commit of the clone (with +dirty) if it is one, digest of the sources, Python and library versions."""
    found = {'python': platform.python_version()}
    for name in ('gpt1_jax', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'sentencepiece', 'spacy', 'ftfy',
                 'numpy'):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return {'commit': _commit(), 'code': code_digest(), 'versions': found}


def _commit():
    root = pathlib.Path(__file__).resolve().parent.parent
    if not (root / '.git').exists():
        return None

    def git(*arguments):
        return subprocess.run(['git', '-C', str(root), *arguments], capture_output=True, text=True,
                              check=True).stdout.strip()
    try:
        return git('rev-parse', 'HEAD') + ('+dirty' if git('status', '--porcelain') else '')
    except (OSError, subprocess.CalledProcessError):
        return None
