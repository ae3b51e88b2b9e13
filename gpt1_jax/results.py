"""What a run leaves behind beside its weights: metrics.jsonl, results.jsonl, predictions.jsonl.

JSON lines, nothing else.
"""
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

import numpy as np

from gpt1_jax import events, storage
from gpt1_jax.errors import UserError, about, shown


def check(path):
    """UserError where rows could not be appended to a file: better told before they are computed. None is nowhere."""
    if path is None:
        return
    path = storage.path(path)
    with about(path):
        if storage.remote(path):
            return
        if path.is_dir():
            raise UserError(f'{path}: is a directory, not a file')
        if not path.parent.is_dir():
            raise UserError(f'{path}: there is no directory {path.parent}')
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f'{path}: may not be written')


def append(path, *rows):
    """Lines at the end of a JSON-lines file, in one write, flushed to the disk. A last line cut by a kill is removed
    first. UserError where the disk is full or the like."""
    if storage.remote(path):
        _write(path, b''.join([*(line + b'\n' for _, line in _read(path)), *map(_line, rows)]))
        return
    with _named(path), open(path, 'ab+') as file:
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
        file.write(b''.join(map(_line, rows)))
        file.flush()
        os.fsync(file.fileno())


def append_new(path, rows):
    """Append the rows of results.jsonl that are not there yet.

    Scoring the same parameters on the same files again is none.
    """
    def identity(row):
        names = ('kind', 'task', 'split', 'group', 'selection', 'metric', 'value', 'run', 'digest', 'files', 'key')
        return json.dumps([row.get(name) for name in names])
    try:
        known = set(map(identity, read(path)))
    except RecursionError:
        raise UserError(f'{path}: a row is nested too deep') from None
    new = [row for row in rows if identity(row) not in known]
    if new:
        append(path, *new)


def read(path):
    """The rows of a JSON-lines file, none if it is missing; a last line cut by a kill is left out. UserError naming the
    line that is no JSON object."""
    return [row for row, _ in _read(path)]


def _read(path):
    """[(row, its line as bytes)] of a JSON-lines file."""
    path = storage.path(path)
    if not path.exists():
        return []
    try:
        *lines, _ = storage.read(path).split(b'\n')  # what the kill cut may be no UTF-8
    except OSError as error:
        raise UserError(f'{path}: cannot be read ({error.strerror})') from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append((json.loads(line.decode()), line))
        except UnicodeDecodeError as error:
            raise UserError(f'{path}: line {number}: not UTF-8 at its byte {error.start}') from None
        except (ValueError, RecursionError) as error:
            raise UserError(f'{path}: line {number}: not JSON ({error})') from None
        if not isinstance(rows[-1][0], dict):
            raise UserError(f'{path}: line {number}: {type(rows[-1][0]).__name__}, expected an object')
    return rows


def write(path, rows):
    """Replace a JSON-lines file in one step."""
    _write(path, b''.join(map(_line, rows)))


def _write(path, lines):
    with _named(path):
        storage.write(path, lines)


def _line(row):
    """A row as JSON. Half a character, as a file's name may hold, is written as JSON escapes it: UTF-8 has none."""
    return json.dumps(row, ensure_ascii=False).encode('utf-8', 'backslashreplace') + b'\n'


@contextlib.contextmanager
def _named(path):
    """OSError of a write does not say which file: UserError does."""
    try:
        yield
    except OSError as error:
        raise UserError(f'{path}: cannot be written ({error.strerror})') from None


class Log:
    """metrics.jsonl of a run that goes on from `step`: the rows after it are dropped, as they are written again.

    writes: whether this process does; of several only one. tensorboard: whether its rows are written as points, too,
    into tensorboard/ beside the file. Rows for an object store, where a file cannot grow, are kept on this host until
    `upload`.
    """

    def __init__(self, path, step, writes=True, tensorboard=False):
        self.path, self.writes, self._events = storage.path(path), writes, None
        self._file = storage.cache(path) if storage.remote(path) else self.path
        if not writes:
            return
        if storage.remote(path):
            with about(self._file):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.unlink(missing_ok=True)
        rows = []
        if self.path.exists():
            rows = _read(self.path)
            for number, (row, _) in enumerate(rows, 1):
                if not isinstance(row.get('step', 0), (int, float)):
                    raise UserError(f'{path}: line {number}: step {shown(row["step"])} is not a number')
            rows = [(row, line) for row, line in rows if row.get('step', 0) <= step]
            _write(self._file, b''.join(line + b'\n' for _, line in rows))
        if tensorboard:
            self._events = events.Events(self.path.parent / 'tensorboard', step, [row for row, _ in rows])

    def append(self, row):
        if self.writes:
            append(self._file, row)
        if self._events:
            self._events.append(row)

    def upload(self):
        """Put what was appended where it belongs. Called before each checkpoint: none is without the rows up to it."""
        if self.writes and storage.remote(self.path) and self._file.exists():
            _write(self.path, self._file.read_bytes())
        if self._events:
            self._events.upload()


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
