"""A run's JSON-lines files: metrics.jsonl (Log), results.jsonl, predictions.jsonl."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gpt1_jax import storage
from gpt1_jax.errors import UserError, shown
from gpt1_jax.runs import lock
from gpt1_jax.runs.tracker import Events

OF_A_STEP = {'step': int}  # the field that every row of metrics.jsonl has
OF_A_START = {'step': int, 'code': str, 'environment': dict}  # the same for environment.jsonl
WANTED = {int: 'a whole number', str: 'a text', dict: 'an object'}


def check(path: storage.Path | None) -> None:
    """UserError if rows cannot be appended to a file.

    Called before the rows are computed.
    """
    if path is None or storage.remote(path):
        return
    if not path.parent.is_dir():
        raise UserError(f'{path}: there is no directory {path.parent}')
    if path.is_dir() or not writable(path):
        raise UserError(f'{path}: is a directory, or may not be written')


def writable(path: storage.Path) -> bool:
    """Whether a directory or file may be written, or the file made.

    True for an object store, because it is not known beforehand.
    """
    return storage.remote(path) or os.access(path if path.exists() else path.parent, os.W_OK)


def append(path: storage.Path, *rows: dict, only_new: bool = False, follow: bool = False) -> None:
    """Append rows to a JSON-lines file, in one write, flushed to the disk.

    A last line that a kill left incomplete is removed first. Processes that append to one file wait
    for each other. only_new: as `append_new`. UserError for a link, unless `follow`, which says
    that the user named the file.
    """
    if storage.remote(path):  # one writer: of two, one may lose its rows
        before = read(path, continued=True)
        if rows := _new(rows, before) if only_new else rows:
            storage.write(path, _lines([*before, *rows]))
        return
    with (
        storage.naming(path),
        open(path, 'ab+', opener=None if follow else storage.open_own) as file,
    ):
        # The lock holds until the file is closed. Without locks only one process may write it
        lock.flock(file, fcntl.LOCK_EX)
        if only_new and not (rows := _new(rows, read(path, continued=True))):
            return
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in (b'', b'\n'):
            last = storage.read(path).rpartition(b'\n')[2]
            if _row(last) is None:
                file.truncate(end - len(last))
            else:  # an editor wrote the file without a final line break
                file.write(b'\n')
        file.write(_lines(rows))
        file.flush()
        os.fsync(file.fileno())


def _row(line):
    """The row on a last line without a line break, or None if a kill left it incomplete."""
    try:
        row = storage.parse_json(line, '')
    except UserError:
        return None
    return row if isinstance(row, dict) else None


def append_new(path: storage.Path, rows: Sequence[dict], follow: bool = False) -> None:
    """Append the rows that results.jsonl does not have yet.

    Scoring the same parameters on the same files again gives no new row. The file then need not be
    writable. follow: as in `append`.
    """
    if path.exists() and not storage.size(path):
        print(
            f'notice: {path} is empty, 0 bytes, as after a crash: rows that it had are lost',
            flush=True,
        )
    if _new(rows, read(path, continued=True)):
        append(path, *rows, only_new=True, follow=follow)


def _new(rows, present):
    """The rows that are not present yet.

    An evaluation by hand has no key, so its row equals a row with any key.
    """

    def identity(row, key):
        names = (
            'kind',
            'task',
            'split',
            'group',
            'selection',
            'metric',
            'value',
            'run',
            'digest',
            'files',
        )
        return json.dumps([key, *(row.get(name) for name in names)])

    known = {identity(row, key) for row in present for key in (row.get('key'), None)}
    return [row for row in rows if identity(row, row.get('key')) not in known]


def read(
    path: storage.Path, types: Mapping[str, type] | None = None, continued: bool = False
) -> list[dict]:
    """The rows of a JSON-lines file, none if the file is missing.

    A last line that a kill left incomplete is left out.
    types:     {field: int, str or dict} that every row must have.
    continued: rows will be appended, so a file of no bytes, as a crash leaves it, has no rows.
    UserError naming the line if a row is damaged or lacks a field. Without `continued`, UserError
    for a file of no bytes.
    """
    if not path.exists():
        return []
    content = storage.read(path)
    if not content and not continued:
        raise UserError(
            f'{path}: is empty, 0 bytes, as after a crash: its rows are lost; delete it'
        )
    *lines, last = content.split(b'\n')  # bytes: the incomplete line may be no UTF-8
    if _row(last) is not None:
        lines.append(last)
    rows = []
    for number, line in enumerate(lines, 1):
        row = storage.parse_json(line, f'{path}: line {number}')
        if not isinstance(row, dict):
            raise UserError(f'{path}: line {number}: {type(row).__name__}, expected an object')
        for name, kind in (types or {}).items():
            if type(row.get(name)) is not kind:
                raise UserError(
                    f'{path}: line {number}: {name} is {shown(row.get(name))}, expected '
                    f'{WANTED[kind]}'
                )
        rows.append(row)
    return rows


def write(path: storage.Path, rows: Iterable[dict], follow: bool = False) -> None:
    """Replace a JSON-lines file in one step. follow: as in storage.write."""
    storage.write(path, _lines(rows), follow)


def _lines(rows):
    """Rows as lines of JSON.

    A lone surrogate, as in a file name that is not UTF-8, is written as a JSON escape.
    """
    return b''.join(
        json.dumps(row, ensure_ascii=False).encode('utf-8', 'backslashreplace') + b'\n'
        for row in rows
    )


class Log:
    """Writes metrics.jsonl of a run that resumes at `step`.

    Later rows are dropped, because they are written again. An object in an object store cannot
    grow, so its rows are kept on this host until `upload`.
    writes:      whether this process writes.
    tensorboard: whether rows are also points of tensorboard/ beside the file.
    tracker:     (rows up to the step, later rows, which are dropped) -> a tracker.Tracker, which
                 gets the rows as well.
    """

    def __init__(
        self,
        path: storage.Path,
        step: int,
        writes: bool = True,
        tensorboard: bool = False,
        tracker: Callable[[list[dict], list[dict]], Any] | None = None,
    ) -> None:
        self.path = path
        self._writes = writes
        self._events = None
        self._tracker = None
        self._file = storage.local(path)
        if not writes:
            return
        before = read(path, OF_A_STEP, continued=True)
        rows = [row for row in before if row['step'] <= step]
        storage.mkdir(self._file.parent)
        if rows:
            write(self._file, rows)
        # A cache may have another run's file. A file of no bytes would seem to have lost its rows
        else:
            self._file.unlink(missing_ok=True)
        if tensorboard:
            self._events = Events(path.parent / 'tensorboard', step, rows)
        if tracker:
            self._tracker = tracker(rows, [row for row in before if row['step'] > step])

    def append(self, row: dict) -> None:
        """Append a row, which is on the disk when this returns."""
        if self._writes:
            append(self._file, row)
        if self._events:
            self._events.append(row)
        if self._tracker:
            self._tracker.append(row)

    def upload(self) -> None:
        """Copy the rows to the object store.

        Called before each checkpoint, so that no checkpoint lacks its rows.
        """
        if self._writes and storage.remote(self.path) and self._file.exists():
            storage.write(self.path, self._file.read_bytes())
        if self._events:
            self._events.upload()

    def close(self) -> None:
        """End the run on the tracking service, which may wait until it has sent everything."""
        if self._tracker:
            self._tracker.close()


def write_predictions(
    path: storage.Path, ids: Iterable, gold: Iterable, scores: Iterable[np.ndarray]
) -> None:
    """Write predictions.jsonl, in the order of the data file.

    Each row has {"id", "gold" (label index, value or null), "scores" (one for each label or
    choice)}. The logit of a choice that a row does not have (metrics.ABSENT) is left out.
    """
    rows = []
    for row_id, label, logits in zip(ids, gold, scores, strict=True):
        kept = [float(f'{score:.12g}') for score in np.atleast_1d(logits) if score > -1e8]
        rows.append({'id': row_id, 'gold': label, 'scores': kept})
    write(path, rows)
