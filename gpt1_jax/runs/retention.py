"""The directories of a run's checkpoints: finds the complete steps, chooses the steps to keep, and
deletes steps."""

import math
import pathlib
import re
import shutil
from collections.abc import Iterable

from gpt1_jax import storage

DELETED = '.deleted'  # appended to a step's name before its files are deleted
# Appended by Orbax to the name of a step that is being written
UNFINISHED = '.orbax-checkpoint-tmp'
COMMITTED = 'commit_success.txt'  # Orbax's marker of a complete step in an object store


def steps(directory: storage.Path) -> list[int]:
    """The complete steps under a checkpoints directory, ascending."""
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in _numbered(directory) if _complete(path))


def kept(
    qualities: dict[int, float | None], keep_latest: int, keep_best: int, keep_steps: Iterable[int]
) -> set[int]:
    """The steps of {step: quality} to keep: the latest, the best and the chosen.

    Of equally good steps the earliest is best.
    """
    latest = sorted(qualities)[-keep_latest:]
    best = ranked(qualities)[:keep_best]
    return {*latest, *best, *keep_steps} & qualities.keys()


def ranked(qualities: dict[int, float | None]) -> list[int]:
    """The steps with a finite quality, the best first."""
    finite = {
        step: quality
        for step, quality in qualities.items()
        if quality is not None and math.isfinite(quality)
    }
    return sorted(finite, key=lambda step: (-finite[step], step))


def _numbered(directory):
    return [
        path for path in directory.iterdir() if re.fullmatch(r'\d+', path.name) and path.is_dir()
    ]


def _complete(path):
    """Whether a step is complete.

    A local step gets its name only when it is complete, a step in an object store its marker.
    """
    return not storage.remote(path) or (path / COMMITTED).exists()


def delete(path: storage.Path) -> None:
    """Delete a step so that no step is ever half there.

    A rename comes first, or in an object store the removal of the commit marker. If the rest is
    interrupted, `clear` finishes it at the next start.
    """
    if storage.remote(path):
        (path / COMMITTED).unlink(missing_ok=True)  # a deletion whose reply was lost is repeated
        path.rmtree(missing_ok=True)
    else:
        renamed = path.with_name(f'{path.name}{DELETED}')
        path.rename(renamed)
        shutil.rmtree(renamed, ignore_errors=True)


def clear(directory: pathlib.Path) -> None:
    """Remove the remains of steps that a killed process was deleting or writing."""
    if not storage.remote(directory):
        for left in (*directory.glob(f'*{DELETED}'), *directory.glob(f'*{UNFINISHED}*')):
            shutil.rmtree(left, ignore_errors=True)
    elif directory.is_dir():
        for path in _numbered(directory):
            if not _complete(path):
                path.rmtree(missing_ok=True)
