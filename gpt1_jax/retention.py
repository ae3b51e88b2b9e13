"""The directories of a run's checkpoints: which steps are there, which are kept, and how one goes."""
import math
import re
import shutil

from gpt1_jax import storage

DELETED = '.deleted'  # what a step is renamed to first when it goes
COMMITTED = 'commit_success.txt'  # Orbax's marker of what is complete, in an object store


def steps(directory):
    """The complete steps under a checkpoints directory, ascending."""
    directory = storage.path(directory)
    return sorted(int(path.name) for path in _numbered(directory) if _complete(path)) if directory.is_dir() else []


def kept(qualities, keep_latest, keep_best, keep_steps):
    """The steps of {step: quality or None} to keep: the latest, the best (of equals the earliest; one that is not
    finite is none), the chosen."""
    return {*sorted(qualities)[-keep_latest:], *ranked(qualities)[:keep_best], *keep_steps} & qualities.keys()


def ranked(qualities):
    """The steps with a finite quality, the best first."""
    return sorted((step for step, quality in qualities.items() if quality is not None and math.isfinite(quality)),
                  key=lambda step: (-qualities[step], step))


def _numbered(directory):
    return [path for path in directory.iterdir() if re.fullmatch(r'\d+', path.name) and path.is_dir()]


def _complete(path):
    """Whether all of a step is there: it has its name only then, or in an object store its marker."""
    return not storage.remote(path) or (path / COMMITTED).exists()


def delete(path):
    """Take a step away; if that is cut short, `clear` goes on at the next start."""
    if storage.remote(path):
        (path / COMMITTED).unlink()
        path.rmtree()
    else:
        gone = path.with_name(f'{path.name}{DELETED}')
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def clear(directory):
    """Remove what a kill has left of steps that were being deleted or, in an object store, written."""
    if not storage.remote(directory):
        for left in directory.glob(f'*{DELETED}'):
            shutil.rmtree(left, ignore_errors=True)
    elif directory.is_dir():
        for path in _numbered(directory):
            if not _complete(path):
                path.rmtree()
