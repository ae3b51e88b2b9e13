"""Copies a run's metrics to TensorBoard's event files (extra `tensorboard`), Weights & Biases or
Trackio.

metrics.jsonl stays the source. The two services have the same interface: init, log, finish. Their
environment variables hold: WANDB_MODE=offline, WANDB_ENTITY, TRACKIO_DIR, ...
"""

import importlib
import platform
import secrets
import time
from typing import Any

from gpt1_jax import storage
from gpt1_jax.errors import UserError, one_line

FILE = 'tracker.json'  # in the run directory: {service: the run's id there}


class Events:
    """Writes TensorBoard's event file of a run that resumes from `step`.

    tensorboardX writes it, without TensorFlow. Each start of a run writes a new file. The first
    event marks the step from which the run resumes. TensorBoard then drops later points of earlier
    files, as results.Log drops later rows.

    directory: of the run's event files. A file for an object store is kept on this host until
               `upload`.
    rows:      the rows of metrics.jsonl up to the step. They are written first if there is no event
               file yet.
    """

    def __init__(self, directory: storage.Path, step: int, rows: list[dict]) -> None:
        from tensorboardX.proto.event_pb2 import SessionLog

        # SummaryWriter's thread would hang on a full disk
        from tensorboardX.record_writer import RecordWriter

        # TensorBoard reads files in the order of their names: by time, within a second by step
        self._file = (
            directory / f'events.out.tfevents.{int(time.time()):010}.{platform.node()}.{step:010}'
        )
        self._local = storage.local(self._file)
        first = not (directory.is_dir() and any(directory.iterdir()))
        self._local.parent.mkdir(parents=True, exist_ok=True)
        self._writer = RecordWriter(str(self._local))
        self._write(file_version='brain.Event:2')
        self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))
        for row in rows if first else ():
            self.append(row)

    def append(self, row: dict) -> None:
        """Write a point for each number of a row of metrics.jsonl, under its name.

        The points are on the disk when this returns.
        """
        from tensorboardX.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=name, simple_value=value) for name, value in _numbers(row).items()
        ]
        self._write(step=row['step'], summary=Summary(value=values))

    def _write(self, **content):
        from tensorboardX.proto.event_pb2 import Event

        with storage.naming(self._local):
            self._writer.write(Event(wall_time=time.time(), **content).SerializeToString())
            self._writer.flush()

    def upload(self) -> None:
        """Copy the file to its directory."""
        if self._local != self._file:
            storage.write(self._file, self._local.read_bytes())


class Tracker:
    """A run on a tracking service, begun or continued.

    service:   'wandb' or 'trackio'.
    project:   its group of runs there.
    directory: the run's directory.
    config:    the run's fields.
    rows:      the rows of metrics.jsonl from which the run resumes. They are logged first if the
               service does not have the run yet.
    known:     later rows that an earlier start logged. When they are made again, they have the same
               values and are not logged twice.
    UserError if the service refuses the run, as without a login.
    """

    def __init__(
        self,
        service: str,
        project: str,
        directory: storage.Path,
        config: dict,
        rows: list[dict],
        known: list[dict],
    ) -> None:
        file = directory / FILE
        found: Any = storage.read_json(file) if file.exists() else {}
        first = not isinstance(found.get(service), str)
        name = f'{file.parent.name}-{secrets.token_hex(4)}' if first else found[service]
        self._known = set() if first else {_key(row) for row in known}
        # wandb writes to DIR/wandb
        how = {'id': name, 'dir': str(storage.local(directory))} if service == 'wandb' else {}
        try:
            self._run = importlib.import_module(service).init(
                project=project, name=name, config=config, resume='allow', **how
            )
        # Any exception: the services raise their classes, and the network's
        except Exception as error:
            raise UserError(
                f'{service}: {one_line(str(error), 300)}: log in, work offline '
                '(WANDB_MODE=offline), or '
                "leave config.tracker = ''"
            ) from None
        if first:
            # Not earlier, because a start that is refused logs nothing
            storage.write_json(file, found | {service: name})
            for row in rows:
                self.append(row)

    def append(self, row: dict) -> None:
        """Log the numbers of a row of metrics.jsonl."""
        if _key(row) not in self._known:
            self._run.log(_numbers(row), step=row['step'])

    def close(self) -> None:
        """Send the remaining rows."""
        self._run.finish()


def _numbers(row):
    """{name: number} of a row of metrics.jsonl, without its step."""
    return {
        name: value
        for name, value in row.items()
        if name != 'step' and isinstance(value, (int, float))
    }


def _key(row):
    """The key of a row in a run. A step may have a row of training and a row of validation."""
    return row['step'], frozenset(row)
