"""Files on a local disk or in Google Cloud Storage (gs://BUCKET/...), behind one set of functions.

Objects in a store are written atomically, never changed in place, and cannot be renamed.
etils.epath gives them the interface of pathlib.Path (extra `gcs`). Files that are read many times
(token shards) or appended to (logs) have a copy on the local disk. If a file or an object cannot be
read or written, an OSError names it.
"""

import contextlib
import errno
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any, BinaryIO

from gpt1_jax.errors import UserError

SCHEME = 'gs://'
# Environment variable: the directory for local copies, default ~/.cache/gpt1_jax
CACHE = 'GPT1_JAX_CACHE'
ABSENT = '0'  # the generation number of an object that does not exist
BLOCK = 1 << 22  # bytes copied at a time
_reached: set[str] = set()  # buckets that this process has listed successfully

Path = Any  # pathlib.Path or etils.epath.Path, which have the same methods


def path(name: str | os.PathLike) -> Path:
    """Returns a pathlib.Path, or an etils.epath.Path for 'gs://...'. '~' is the home directory.

    UserError for another scheme or an unreachable bucket.
    """
    text = os.fspath(name)
    if not re.match(r'[a-z][a-z0-9]+://', text):
        return pathlib.Path(name).expanduser()
    bucket = text.removeprefix(SCHEME).partition('/')[0]
    if not text.startswith(SCHEME) or not bucket:
        raise UserError(f'{text}: neither a local path nor {SCHEME}BUCKET/...')
    _reach(bucket, text)
    return _client()(name)


def remote(name: str | os.PathLike) -> bool:
    """Whether a path is in an object store."""
    return os.fspath(name).startswith(SCHEME)


def absolute(name: str | os.PathLike) -> Path:
    """The path made absolute, without links. An object store's paths are absolute already."""
    return path(name) if remote(name) else pathlib.Path(os.path.realpath(name))


@functools.cache
def _client() -> type:
    if importlib.util.find_spec('gcsfs') is None:
        raise UserError(f"{SCHEME} paths need the extra gcs: pip install 'gpt1_jax[gcs]'")
    import fsspec
    from etils import epath

    from gpt1_jax.storage import gcs

    os.environ.setdefault('EPATH_USE_TF', '0')  # always gcsfs, even if TensorFlow is installed
    # Without the cache of listings, files that TensorStore or another process writes are visible at
    # once.
    fsspec.config.conf.setdefault('gcs', {}).setdefault('use_listings_cache', False)
    # Also for Orbax, which uses etils.epath
    fsspec.register_implementation('gcs', gcs.Store, clobber=True)
    return epath.Path


def _reach(bucket, text):
    """OSError if the path cannot be listed: no credentials, no permission or no network.

    Each bucket is asked only once.
    """
    if bucket in _reached:
        return
    with _as_os_errors(text), contextlib.suppress(FileNotFoundError):
        # The path is listed, because the permission may be only for a prefix of the bucket
        next(_client()(text).iterdir(), None)
    _reached.add(bucket)


@contextlib.contextmanager
def _as_os_errors(where: str | os.PathLike, writes: bool = False) -> Iterator[None]:
    """Turns the exceptions of the cloud client into OSError, which a local disk raises.

    writes: an object is written, so "not found" can only mean its bucket.
    """
    try:
        with naming(where):
            yield
    except FileNotFoundError as error:
        if error.errno is not None and not writes:
            raise
        # Gcsfs gives only the object's name
        cause = 'no such bucket' if writes else os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, cause, os.fspath(where)) from error
    except (OSError, UserError):
        raise
    except Exception as error:
        if not remote(where):
            raise
        text = (str(error).strip().splitlines() or [''])[0]
        raise OSError(errno.EIO, f'{type(error).__name__}: {text}', os.fspath(where)) from error


@contextlib.contextmanager
def naming(file: str | os.PathLike) -> Iterator[None]:
    """Completes an OSError.

    It gets the name of its file if it has none, as when a write to an open file fails. It gets a
    cause if it has only a text, as pyarrow's errors do.
    """
    try:
        yield
    except OSError as error:
        error.strerror = error.strerror or str(error)
        error.filename = error.filename or os.fspath(file)
        raise


def mkdir(directory: Path) -> None:
    """Make a local directory and its parents. Object stores have no directories.

    An OSError for a directory of the cache names the remedy.
    """
    if remote(directory):
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if directory.is_relative_to(cache('')):
            error.strerror = f'{error.strerror}: set {CACHE} to a directory that can be written'
        raise


def read(file: str | os.PathLike) -> bytes:
    """The contents of a file."""
    with _as_os_errors(file):
        return path(file).read_bytes()


@contextlib.contextmanager
def opened(file: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file as a stream of bytes that can seek.

    OSError if the file cannot be opened, or if a later read fails.
    """
    with _as_os_errors(file), path(file).open('rb') as stream:
        yield stream


def size(file: str | os.PathLike) -> int:
    """The size of a file in bytes."""
    with _as_os_errors(file):
        return path(file).stat().length if remote(file) else os.path.getsize(file)


def glob(pattern: str) -> list[str]:
    """The objects of a store that match a pattern, gs://BUCKET/a/**/*.txt, sorted."""
    system, bucket, key = _object(pattern)
    with _as_os_errors(pattern):
        found = system.glob(f'{bucket}/{key}', detail=True)
        return sorted(f'{SCHEME}{name}' for name, entry in found.items() if entry['type'] == 'file')


def write(file: str | os.PathLike, data: bytes, follow: bool = False) -> None:
    """Write a file atomically: after a crash it is complete or unchanged.

    The new file replaces a link, a pipe or a device, because a directory that came from elsewhere
    may have links that lead out of it. follow: the user gave the name. Then a link stays a link,
    and a pipe or a device is written to directly.
    """
    if remote(file):
        with _as_os_errors(file, writes=True):
            path(file).write_bytes(data)
        return
    if follow and os.path.exists(file) and not os.path.isfile(file):
        with naming(file), open(file, 'wb') as stream:
            stream.write(data)
        return
    file = pathlib.Path(os.path.realpath(file) if follow else file)
    partial = file.with_name(f'{file.name}.partial')
    partial.unlink(missing_ok=True)
    try:
        with open(partial, 'xb') as stream:  # x: never write through a link
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        error.filename = os.fspath(file)  # the name that the caller knows
        raise
    os.replace(partial, file)


def open_own(file: str | os.PathLike, flags: int) -> int:
    """os.open of a file that is written in its place, as an `opener` of `open`.

    UserError for a link: the directory may have come from elsewhere, and a link in it may lead out
    of it.
    """
    try:
        return os.open(file, flags | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(
            f'{os.fspath(file)}: is a link, and files of a run are not written through links: put '
            'the file itself there, or delete the link'
        ) from None


def read_json(file: str | os.PathLike) -> Any:
    """The value of a JSON file. UserError naming the file if it cannot be read or is not JSON."""
    try:
        return parse_json(read(file), os.fspath(file))
    except OSError as error:
        raise UserError(f'{os.fspath(file)}: cannot be read ({error.strerror or error})') from None


def parse_json(data: bytes, where: str) -> Any:
    """The value of JSON in UTF-8. UserError if the data is not JSON.

    where: file and line, for the error.
    """
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UserError(f'{where}: not JSON ({error})') from None


def write_json(file: str | os.PathLike, value: Any) -> None:
    """Write a JSON file atomically, indented by one space, in UTF-8."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + '\n'
    write(file, text.encode('utf-8', 'backslashreplace'))


def json_digest(value: Any) -> str:
    """SHA-256 of a value as JSON, in hexadecimal digits.

    The order of an object's keys does not matter.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def generation(file: str | os.PathLike) -> str:
    """The generation number of an object, or ABSENT if there is no such object.

    It changes with every write.
    """
    system, bucket, key = _object(file)
    with _as_os_errors(file):
        try:
            return system.call('GET', 'b/{}/o/{}', bucket, key, json_out=True)['generation']
        except FileNotFoundError:
            return ABSENT


def _object(file):
    """(gcsfs file system, bucket, name in the bucket) of an object."""
    import fsspec

    bucket, _, key = os.fspath(path(file)).removeprefix(SCHEME).partition('/')
    # The instance that epath also uses
    return fsspec.filesystem('gcs', finalize_on_close=True), bucket, key


def sha256(file: str | os.PathLike) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with _as_os_errors(file), path(file).open('rb') as stream:
        return hashlib.file_digest(stream, 'sha256').hexdigest()


def files(directory: Path) -> dict[str, Path]:
    """Every file under a directory, by its name relative to it: {'params/d/0ab3': path}."""
    result: dict[str, Path] = {}
    for entry in directory.iterdir():
        if entry.is_dir():
            result |= {f'{entry.name}/{name}': file for name, file in files(entry).items()}
        else:
            result[entry.name] = entry
    return result


def cache(name: str | os.PathLike) -> pathlib.Path:
    """The local path for the copy of a file or directory in an object store.

    The copy need not exist.
    """
    home = os.path.expanduser('~')
    if home == '~':  # no HOME, and the user has no entry in passwd
        home = '/'  # as `docker run --user` sets it
    root = os.environ.get(CACHE) or os.path.join(home, '.cache', 'gpt1_jax')
    return pathlib.Path(root, *os.fspath(name).replace(SCHEME, 'gs/').split('/'))


def local(name: Path) -> pathlib.Path:
    """Where a file or directory is written: at its local copy if it is in an object store."""
    return cache(name) if remote(name) else name


def fetch(file: str | os.PathLike, expected: str) -> pathlib.Path:
    """Returns a local copy of an object whose SHA-256 is `expected`.

    It is downloaded unless such a copy exists. UserError if the object itself has another hash.
    Several processes may fetch the same object at once.
    """
    copy = cache(file)
    with _as_os_errors(file):
        if copy.is_file() and sha256(copy) == expected:
            return copy
        mkdir(copy.parent)
        partial = copy.with_name(f'{copy.name}.{os.getpid()}.partial')
        try:
            with opened(file) as source, open(partial, 'wb') as target:
                shutil.copyfileobj(source, target, BLOCK)
            if sha256(partial) != expected:
                raise UserError(
                    f'{os.fspath(file)}: damaged, its SHA-256 is not the one in the manifest'
                )
            os.replace(partial, copy)
        finally:
            partial.unlink(missing_ok=True)
    return copy


def upload(directory: pathlib.Path, target: Path, last: str | None = None) -> None:
    """Copy every file under a local directory into an object store.

    The file called `last`, the manifest, is copied at the end.
    """
    local = files(directory)
    for name in sorted(local, key=lambda name: (name == last, name)):
        write(target / name, local[name].read_bytes())
