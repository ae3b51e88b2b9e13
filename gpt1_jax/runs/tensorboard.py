"""A run's metrics as TensorBoard's event files, without TensorFlow: by tensorboardX (extra `tensorboard`).

metrics.jsonl stays the source. Each start of a run writes a file of its own. Its first event marks the step from which
the run resumes: TensorBoard drops later points of earlier files, as results.Log drops those rows.
"""
import platform
import time

from gpt1_jax import storage


class Events:
    """The event file of a run that resumes from `step`.

    directory: of the run's event files; a file for an object store is kept on this host until `upload`. rows: those of
    metrics.jsonl up to the step, written first where there is no event file yet.
    """

    def __init__(self, directory: storage.Path, step: int, rows: list[dict]) -> None:
        from tensorboardX.proto.event_pb2 import SessionLog
        from tensorboardX.record_writer import RecordWriter  # SummaryWriter's thread would hang on a full disk
        # TensorBoard reads files in the order of their names: by time, within a second by step.
        self._file = directory / f'events.out.tfevents.{int(time.time()):010}.{platform.node()}.{step:010}'
        self._local = storage.cache(self._file) if storage.remote(directory) else self._file
        first = not (directory.is_dir() and any(directory.iterdir()))
        self._local.parent.mkdir(parents=True, exist_ok=True)
        self._writer = RecordWriter(str(self._local))
        self._write(file_version='brain.Event:2')
        self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))
        for row in rows if first else ():
            self.append(row)

    def append(self, row: dict) -> None:
        """A point for each number of a row of metrics.jsonl, under its name; on the disk when this returns."""
        from tensorboardX.proto.summary_pb2 import Summary
        values = [Summary.Value(tag=name, simple_value=value) for name, value in row.items()
                  if name != 'step' and isinstance(value, (int, float))]
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
