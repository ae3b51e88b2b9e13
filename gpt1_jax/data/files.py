"""Names of text and tables to paths: a file, a directory, a pattern, each also in an object store
(storage), hf:USER/NAME and tfds:..., and the contents of a file, decompressed.

The same for corpora and labelled sets: what a file is follows from its extensions, and its split
from its name.
"""

import contextlib
import functools
import glob
import io
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from gpt1_jax import storage
from gpt1_jax.data import hub
from gpt1_jax.errors import UserError

# {extension: a key of readers.READERS}
KINDS = {
    '.txt': 'txt',
    '.train': 'txt',
    '.dev': 'txt',
    '.test': 'txt',  # the last three are BabyLM's
    '.jsonl': 'jsonl',
    '.json': 'json',
    '.parquet': 'parquet',
    '.csv': 'csv',
    '.tsv': 'tsv',
}
TABLES = ('.csv', '.tsv', '.jsonl', '.json', '.parquet')
COMPRESSED = {'.gz': 'gzip', '.bz2': 'bz2', '.zst': 'zstd', '.lz4': 'lz4'}
SPLITS = {
    'train': ('train',),
    'dev': ('dev', 'val', 'valid', 'validation', 'eval'),
    'test': ('test',),
}
# Names of validation and test data, in names of files and directories
_HELD_OUT = re.compile(rf'(?i)(^|[-_.])({"|".join(SPLITS["dev"])}|test)(?=[-_]?\d|\.|$)')
OF_SHARDS = r'-(\d{5,})-of-(\d{5,})(-[0-9a-f]+)?'
TFDS = 'tfds:'
# For messages
READ = f'{", ".join(KINDS)}; all but .parquet also compressed: {", ".join(COMPRESSED)}'
# A file that every run's directory has from its start (runs/workdir.py)
RUN = 'environment.jsonl'


def kind(name: str) -> str | None:
    """The key of readers.READERS for a file's extensions, None for other extensions."""
    if name.startswith(TFDS):
        return 'tfds'
    *_, inner, last = ('', *os.path.basename(name).lower().split('.'))
    if f'.{last}' not in COMPRESSED:
        return KINDS.get(f'.{last}')
    found = KINDS.get(f'.{inner}')
    return None if found == 'parquet' else found  # Parquet compresses its own pages


def is_text(name: str) -> bool:
    """Whether a file is read as pretraining text if only its directory is named.

    A plain .json and tables are not, because beside a corpus they hold metadata.
    """
    return kind(name) in ('txt', 'jsonl', 'json', 'parquet') and not name.endswith('.json')


def is_file(source: str) -> bool:
    """Whether a source is a file, rather than a TFDS data set."""
    return not source.startswith(TFDS)


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Opens the decompressed contents of a file as a stream of bytes.

    OSError if the file cannot be opened, or later cannot be read.
    """
    extension = os.path.splitext(name)[1]
    with storage.opened(name) as raw:
        stream: Any = raw
        if extension in COMPRESSED:
            import pyarrow

            stream = pyarrow.CompressedInputStream(raw, COMPRESSED[extension])
        with io.BufferedReader(stream, 1 << 20) as buffered:
            yield buffered


@functools.cache
def say_once(line: str) -> None:
    """Print a notice, once however often text or rows are read."""
    print(line, file=sys.stderr, flush=True)


# Labelled sets


def splits(place: str) -> dict[str, str]:
    """{split: path} of a table, or of the tables of a directory or hf:USER/NAME by their names.

    'train' is always there. Prints which tables of a directory are not read. UserError for another
    extension, and if there is no table for train or several for a split.
    """
    directory = _downloaded(place) if hub.is_name(place) else storage.path(place)
    if not directory.is_dir():
        if f'.{kind(str(place))}' not in TABLES:
            raise UserError(f'{place}: must end in one of {", ".join(TABLES)}')
        return {'train': str(directory)}
    files = [file for file in sorted(directory.iterdir()) if f'.{kind(file.name)}' in TABLES]
    found: dict[str, str] = {}
    for split, names in SPLITS.items():
        own = [file for file in files if re.sub(OF_SHARDS, '', file.name.split('.')[0]) in names]
        if len(own) > 1:
            raise UserError(
                f'{place}: holds {" and ".join(file.name for file in own)}: give one file'
            )
        found |= {split: str(file) for file in own}
    if 'train' not in found:
        kinds = ', '.join(f'train{suffix}' for suffix in TABLES)
        raise UserError(f'{place}: none of {kinds} in it')
    for file in files:
        if str(file) not in found.values():
            read = ', '.join(map(os.path.basename, found.values()))
            say_once(f'warning: {file} is not read: the splits are {read}')
    return found


def _downloaded(name):
    """Downloads the splits of hf:USER/NAME, and returns their directory: data, or the whole."""
    patterns = [
        f'{folder}{stem}*{suffix}'
        for folder in ('', 'data/')
        for stem in ('train', 'dev', 'val', 'eval', 'test')
        for suffix in TABLES
    ]
    place = hub.download(name, 'dataset', tuple(patterns))
    if not place.is_dir():
        raise UserError(f'{name}: no train.csv, train.parquet or the like in it, nor in its data/')
    folder = place / 'data'
    return folder if folder.is_dir() else place


# Corpora


def expand(
    spec: str | os.PathLike | Sequence[str | os.PathLike], split_files: bool | None = True
) -> list[str]:
    """The files of one spec or several, each once. `tfds:...` stays as it is.

    Not read are files with other extensions, behind links to directories, and in directories of
    runs. A line on stderr says so. Hidden files are left out silently.
    split_files: about files of directories and patterns whose names say validation or test data.
    False leaves them out, unless all files have such names. None reads them. In both cases there is
    a line on them. UserError for a spec that names no file, or one that is not read.
    """
    specs = as_list(spec)
    if not specs or not all(specs):
        raise UserError(
            'corpus: no file, directory or other source given, or one with an empty name'
        )
    found = []
    for one in specs:
        found += _without_held_out(one, _expand_one(one), split_files)
    return list(dict.fromkeys(found))


def as_list(spec: Any) -> list[str]:
    """One spec or several as a list of strings."""
    specs = [spec] if isinstance(spec, (str, os.PathLike)) else spec
    return [os.path.expanduser(one) for one in specs]


def _expand_one(spec):
    """The sources of one spec."""
    if not is_file(spec):
        return [spec]
    if hub.is_name(spec):
        patterns = tuple(f'*{suffix}' for suffix in KINDS)
        spec = str(hub.download(spec, 'dataset', patterns))
    path = storage.path(spec)
    remote = storage.remote(spec)
    if storage.generation(path) != storage.ABSENT if remote else path.is_file():
        found = [spec]
    elif path.is_dir():
        found = _below(spec)
    elif glob.has_magic(spec):
        found = _matching(spec)
        if not found:
            raise UserError(f'{spec}: no file matches this pattern')
    elif path.exists():
        raise UserError(
            f'{spec}: is neither a file nor a directory; a pipe is not read, because text is read '
            'several times'
        )
    else:
        raise UserError(f'{spec}: no such file or directory')
    for file in found:
        if kind(file) is None:
            raise UserError(f'{file}: unknown extension, must be one of these: {READ}')
    return found if remote else list(map(_normal, found))


def _matching(pattern):
    """The files that match a pattern, without those in directories of runs."""
    if storage.remote(pattern):  # as on a local disk, * begins no hidden name
        return [name for name in storage.glob(pattern) if '/.' not in name or '/.' in pattern]
    found = sorted(filter(_is_file, glob.glob(pattern, recursive=True)))
    # Directories that the pattern chose, not those that it names
    named = pathlib.Path(os.path.dirname(re.split(r'[*?[]', pattern)[0]))
    parents = {parent for name in found for parent in pathlib.Path(name).parents}
    runs = {
        parent for parent in parents if not named.is_relative_to(parent) and (parent / RUN).exists()
    }
    for line in _on_runs(runs):
        say_once(f'{pattern}: {line}')
    return [name for name in found if runs.isdisjoint(pathlib.Path(name).parents)]


def _without_held_out(spec, found, split_files):
    """The found files of a spec that `split_files` keeps."""
    # Without the common directory: if all files are in a/dev, the user means 'dev'
    base = os.path.commonpath(found) if len(found) > 1 else ''
    held_out = [
        name
        for name in found
        if any(map(_HELD_OUT.search, pathlib.PurePath(os.path.relpath(name, base or '.')).parts))
    ]
    if split_files or len(found) == 1 or len(held_out) in (0, len(found)):
        return found
    which = (
        f'{spec}: {len(held_out):,} of {len(found):,} files are named as validation or test '
        f'data (such as {os.path.relpath(held_out[0], base)})'
    )
    if split_files is None:
        way_out = 'split_files=False leaves them out, True reads them without this notice'
        say_once(f'{which} and are read as well: {way_out}')
        return found
    say_once(f'{which} and are left out')
    return [name for name in found if name not in held_out]


def _normal(name):
    """The shortest name of a file: 'a' for 'b/../a'.

    If b is a link, its parent is elsewhere and the name stays.
    """
    short = os.path.normpath(name)
    return short if os.path.realpath(short) == os.path.realpath(name) else name


def _below(directory):
    """The files below a directory that are read, by name. UserError if there are none.

    Hidden files and files in hidden directories (.git) are left out silently. Links to directories
    are not followed.
    """
    runs: list[str] = []
    links: list[str] = []
    found = list(map(str, _walk(storage.path(directory), runs, links)))
    runs = [os.path.relpath(run, directory) for run in runs]
    others = sorted(os.path.basename(name) for name in found if not is_text(name))
    lines = _on_runs(runs)
    if links:
        lines.append(
            f'directories behind links are not read ({len(links):,}, such as {min(links)}): also '
            'name them'
        )
    if others:
        lines.append(
            f'{len(others):,} of {len(found):,} files left out (such as {others[0]}): only these '
            f'are read: {READ}; a table or a .json file only if it is named itself'
        )
    if len(others) == len(found):
        raise UserError(
            f'{directory}: no text file in this directory, {"; ".join(lines) or "it is empty"}'
        )
    for line in lines:
        say_once(f'{directory}: {line}')
    return list(filter(is_text, found))


def _walk(directory, runs, links):
    """The files below a directory, by name. Adds to the directories of runs, and to the links."""
    entries = sorted(directory.iterdir())
    if any(entry.name == RUN for entry in entries):
        runs.append(str(directory))
        return []  # a run may be deleting files there
    found = []
    for entry in entries:
        if entry.name.startswith('.'):
            continue
        if not entry.is_dir():
            if storage.remote(entry) or (entry.exists() or is_text(entry.name)) and _is_file(entry):
                found.append(entry)
        elif os.path.islink(entry):
            links.append(entry.name)
        else:
            found += _walk(entry, runs, links)
    return found


def _on_runs(runs):
    """[a line on the directories of runs that are left out], or []."""
    if not runs:
        return []
    return [f'directories of runs are not read ({len(runs):,}, such as {min(runs)})']


def _is_file(path):
    """Whether a path is a file.

    UserError for a link to nothing, because its text would be left out silently.
    """
    if pathlib.Path(path).is_file():
        return True
    if os.path.islink(path) and not os.path.exists(path):
        raise UserError(f'{path}: a link to a file that does not exist')
    return False
