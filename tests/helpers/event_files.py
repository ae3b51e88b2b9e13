"""Reads TensorBoard's event files as TensorBoard does: TFRecords with their checksums, files in the
order of their names."""

import struct

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

import short_runs


def records(content):
    """The payloads, without a last payload that a kill has cut.

    AssertionError if a checksum is wrong.
    """
    while len(content) >= 12:
        size, crc = struct.unpack('<QI', content[:12])
        assert crc == masked_crc32c(content[:8])
        payload = content[12 : 12 + size]
        rest = content[12 + size :]
        if len(rest) < 4:
            return
        assert struct.unpack('<I', rest[:4]) == (masked_crc32c(payload),)
        yield payload
        content = rest[4:]


def points(directory):
    """{name: [(step, value), ...]} of all files.

    A session's start drops the points from its step on.
    """
    found = {}
    for file in sorted(directory.iterdir(), key=lambda file: file.name):
        for number, payload in enumerate(records(file.read_bytes())):
            event = Event.FromString(payload)
            assert (event.file_version == 'brain.Event:2') == (number == 0)
            if event.session_log.status == SessionLog.START:
                found = {
                    name: [p for p in kept if p[0] < event.step] for name, kept in found.items()
                }
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return {name: kept for name, kept in found.items() if kept}


def points_of(rows):
    """The same of rows of metrics.jsonl, as float32."""
    return {
        name: [(step, struct.unpack('f', struct.pack('f', value))[0]) for step, value in points]
        for name, points in short_runs.points_of(rows).items()
    }
