"""Where files are: in a directory of this machine, or in an object store (gs://BUCKET/...).

Not in the paper. An object appears whole or not at all, is never changed in place, and has no rename; etils.epath gives
it the methods of a pathlib.Path (extra `gcs`). What is read many times, or grows by lines, has a copy on this host.
"""
import contextlib
import errno
import functools
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil

from gpt1_jax.errors import UserError, about

SCHEME = 'gs://'
CACHE = 'GPT1_JAX_CACHE'  # environment variable: where copies are, default ~/.cache/gpt1_jax
_reached = set()  # buckets that could be listed


def path(name: str | os.PathLike):
    """A pathlib.Path, or of 'gs://...' an etils.epath.Path. UserError for another scheme, or where a bucket cannot be
    reached."""
    text = os.fspath(name)
    if not re.match(r'[a-z][a-z0-9]+://', text):
        return pathlib.Path(name)
    bucket = text.removeprefix(SCHEME).partition('/')[0]
    if not text.startswith(SCHEME) or not bucket:
        raise UserError(f'{text}: neither a directory of this machine nor {SCHEME}BUCKET/...')
    _reach(bucket, text)
    return _client()(name)


def remote(name: str | os.PathLike) -> bool:
    """Whether a path is in an object store."""
    return os.fspath(name).startswith(SCHEME)


def absolute(name):
    return path(name) if remote(name) else pathlib.Path(os.path.abspath(name))


@functools.cache
def _client():
    if importlib.util.find_spec('gcsfs') is None:
        raise UserError(f"{SCHEME} paths need the extra gcs: pip install 'gpt1_jax[gcs]'")
    import fsspec
    from etils import epath
    os.environ.setdefault('EPATH_USE_TF', '0')  # one client, whatever else is installed
    # What another process, or TensorStore in this one, has written is there at once.
    fsspec.config.conf.setdefault('gcs', {}).setdefault('use_listings_cache', False)
    return epath.Path


def _reach(bucket, text):
    """UserError where the first path of a bucket cannot be listed: no credentials, no right to, no network."""
    if bucket in _reached:
        return
    with about(text), _as_os_errors(text), contextlib.suppress(FileNotFoundError):
        next(_client()(text).iterdir(), None)
    _reached.add(bucket)


@contextlib.contextmanager
def _as_os_errors(where):
    """A client of an object store raises errors of its own: OSError, as a disk does."""
    try:
        yield
    except (OSError, UserError):
        raise
    except Exception as error:
        if not remote(where):
            raise
        text = (str(error).strip().splitlines() or [''])[0]
        raise OSError(errno.EIO, f'{type(error).__name__}: {text}', os.fspath(where)) from error


@contextlib.contextmanager
def _no_bucket(where):
    """What cannot be found, when an object is written, is its bucket."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(errno.ENOENT, 'no such bucket', os.fspath(where)) from error


def mkdir(directory):
    """Make a directory; an object store has none."""
    if not remote(directory):
        directory.mkdir(parents=True, exist_ok=True)


def read(file: str | os.PathLike) -> bytes:
    """What a file holds. OSError where it cannot be read."""
    with _as_os_errors(file):
        return path(file).read_bytes()


def write(file: str | os.PathLike, data: bytes):
    """A file of these bytes, which appears complete or not at all. OSError where it cannot be written."""
    if remote(file):
        with _as_os_errors(file), _no_bucket(file):
            path(file).write_bytes(data)
        return
    file = pathlib.Path(file)
    partial = file.with_name(f'{file.name}.partial')
    with open(partial, 'wb') as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, file)


def sha256(file: str | os.PathLike) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    return size_and_sha256(file)[1]


def size_and_sha256(file: str | os.PathLike) -> tuple[int, str]:
    """Of a file: its bytes, and their SHA-256 in hexadecimal digits."""
    digest, size = hashlib.sha256(), 0
    with _as_os_errors(file), path(file).open('rb') as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def files(directory) -> dict:
    """{'params/d/0ab3': path} of every file under a directory."""
    found = {}
    for one in directory.iterdir():
        if one.is_dir():
            found |= {f'{one.name}/{name}': file for name, file in files(one).items()}
        else:
            found[one.name] = one
    return found


def cache(name) -> pathlib.Path:
    """Where on this host the copy of something in an object store is, or would be."""
    root = os.environ.get(CACHE) or pathlib.Path.home() / '.cache' / 'gpt1_jax'
    return pathlib.Path(root, *os.fspath(name).replace(SCHEME, 'gs/').split('/'))


def fetch(file, expected: str) -> pathlib.Path:
    """The copy on this host of an object whose SHA-256 is `expected`; downloaded where there is none yet, or another.

    UserError where the object itself has another hash. Any number of processes may ask for the same one.
    """
    copy = cache(file)
    with about(file), _as_os_errors(file):
        if copy.is_file() and sha256(copy) == expected:
            return copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        partial = copy.with_name(f'{copy.name}.{os.getpid()}.partial')
        try:
            with path(file).open('rb') as source, open(partial, 'wb') as target:
                shutil.copyfileobj(source, target, 1 << 22)
            if sha256(partial) != expected:
                raise UserError(f'{os.fspath(file)}: damaged, its SHA-256 is not the one in the manifest')
            os.replace(partial, copy)
        finally:
            partial.unlink(missing_ok=True)
    return copy


def upload(directory: pathlib.Path, target, last: str | None = None):
    """Copy every file under a local directory into an object store, the one called `last` after all others."""
    found = files(directory)
    for name in sorted(found, key=lambda name: (name == last, name)):
        with about(target / name), _as_os_errors(target), _no_bucket(target), open(found[name], 'rb') as source:
            with (target / name).open('wb') as stream:
                shutil.copyfileobj(source, stream, 1 << 22)
