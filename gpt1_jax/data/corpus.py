"""Section 4.1: reads pretraining text from files or TFDS, or the ten novels of the package. The
paper's BooksCorpus is not distributed any more.

A spec names text: a file (files.py), a directory or a pattern, each also in an object store
(storage), 'tfds:NAME:SPLIT[:FIELD]', or 'novels' (README.md, "Corpora"). Several specs are read in
order. Text is UTF-8. Documents are streamed, one in memory at a time. Rows that are less than a
document can be joined (document.py).
"""

import glob
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from gpt1_jax import storage
from gpt1_jax.data import files, parts, records
from gpt1_jax.data.document import Document, Join, joined
from gpt1_jax.errors import UserError, fail

NOVELS = 'novels'
_PACKAGED = pathlib.Path(__file__).parent / 'novels.jsonl.bz2'
TFDS = 'tfds:'
# A file that every run's directory has from its start (runs/workdir.py)
RUN = 'environment.jsonl'

Spec = str | os.PathLike | Sequence[str | os.PathLike]  # one or several


def documents(
    spec: Spec,
    field: str = 'text',
    join: Join = Join(),
    part: parts.Part | None = None,
    on_bad: Callable[[str], None] = fail,
) -> Iterator[Document]:
    """Streams the documents of a spec, always in the same order. A file named twice is read once.

    field:  the text field of JSON lines, the text column of Parquet, and the default field of TFDS
            records.
    join:   which rows form a document.
    part:   read only this part of the corpus (parts.py), which may be empty.
    on_bad: called with the message of a bad row, see records.
    UserError if text cannot be read, naming the file and the byte, line or row, and if there is no
    document at all. OSError as the file system raises it.
    """
    empty = part is None
    for source, row_groups in parts.slices(expand(spec)[0], part, whole_files=bool(join)):
        for document in _read(source, row_groups, field, join, on_bad):
            empty = False
            yield document
            del document  # frees its text before the next document is read
    if empty:
        raise UserError(f'corpus {", ".join(_as_list(spec))} holds no document')


def _read(source, row_groups, field, join, on_bad):
    """The documents of a source, or of some of its row groups."""
    kind = files.kind(source)
    if not is_file(source):
        yield from joined(records.tfds(source, field, join.key, on_bad), join)
    elif kind == files.PARQUET:
        yield from joined(records.parquet(source, field, join.key, row_groups, on_bad), join)
    elif kind == files.JSON_LINES:
        yield from joined(records.json_lines(source, field, join.key, on_bad), join)
    else:
        yield from records.text(source)


def expand(spec: Spec, split_files: bool | None = True) -> tuple[list[str], list[str]]:
    """(the files of a spec, in order and each once, lines on the files that are not read).

    `tfds:...` stays as it is. Not read are files with other extensions, behind links to
    directories, and in directories of runs. Hidden files are left out silently.
    split_files: about files of directories and patterns whose names say validation or test data.
    False leaves them out, unless all files have such names. None reads them. In both cases there is
    a line on them. UserError as in `documents`.
    """
    specs = _as_list(spec)
    if not specs or not all(specs):
        raise UserError(
            'corpus: no file, directory or other source given, or one with an empty name'
        )
    found = []
    lines = []
    for one in specs:
        sources, left = _expand_one(one, split_files)
        found += sources
        lines += [f'{one}: {line}' for line in left]
    return list(dict.fromkeys(found)), lines


def is_file(source: str) -> bool:
    """Whether a source is a file, rather than a TFDS data set."""
    return not source.startswith(TFDS)


def _expand_one(spec, split_files):
    """(the sources of one spec, lines on the files that are left out)."""
    if not is_file(spec):
        return [spec], []
    runs = set()
    path = storage.path(spec)
    remote = storage.remote(spec)
    if storage.generation(path) != storage.ABSENT if remote else path.is_file():
        found = [spec]
    elif path.is_dir():
        found, left = _below(spec)
        if not found:
            raise UserError(
                f'{spec}: no text file in this directory, {"; ".join(left) or "it is empty"}'
            )
        return _without_held_out(found, left, split_files)
    elif glob.has_magic(spec) and remote:  # as on a local disk, * begins no hidden name
        found = [name for name in storage.glob(spec) if '/.' not in name or '/.' in spec]
    elif glob.has_magic(spec):
        found = sorted(filter(_is_file, glob.glob(spec, recursive=True)))
        # Directories that the pattern chose, not those that it names
        named = pathlib.Path(os.path.dirname(re.split(r'[*?[]', spec)[0]))
        parents = {parent for name in found for parent in pathlib.Path(name).parents}
        chosen = {parent for parent in parents if not named.is_relative_to(parent)}
        runs = {parent for parent in chosen if (parent / RUN).exists()}
        found = [name for name in found if runs.isdisjoint(pathlib.Path(name).parents)]
    elif path.exists():
        raise UserError(
            f'{spec}: is neither a file nor a directory; a pipe is not read, because text is read '
            'several times'
        )
    else:
        found = [str(_PACKAGED)] * (spec == NOVELS)
    if not found:
        raise UserError(
            f'{spec}: no file matches this pattern'
            if glob.has_magic(spec)
            else f'{spec}: no such file or directory'
        )
    for file in found:
        if files.kind(file) is None:
            raise UserError(f'{file}: unknown extension, must be one of these: {files.READ}')
    found = found if remote else list(map(_normal, found))
    return _without_held_out(found, _about_runs(runs), split_files)


def _without_held_out(found, lines, split_files):
    """(the found files that `split_files` keeps, the lines with one on the others if there are)."""
    # Without the common directory: if all files are in a/dev, the user means 'dev'
    base = os.path.commonpath(found)
    held_out = [name for name in found if files.is_held_out(os.path.relpath(name, base))]
    if split_files or len(held_out) in (0, len(found)):
        return found, lines
    which = (
        f'{len(held_out):,} of {len(found):,} files are named as validation or test data (such as '
        f'{os.path.relpath(held_out[0], base)})'
    )
    if split_files is None:
        way_out = 'split_files=False leaves them out, True reads them without this notice'
        return found, [*lines, f'{which} and are read as well: {way_out}']
    left = [name for name in found if name not in held_out]
    return left, [*lines, f'{which} and are left out']


def _normal(name):
    """The shortest name of a file: 'a' for 'b/../a'.

    If b is a link, its parent is elsewhere and the name stays.
    """
    short = os.path.normpath(name)
    return short if os.path.realpath(short) == os.path.realpath(name) else name


def _below(directory):
    """(the files below a directory that are read, by name, and lines on the files that are not).

    Hidden files and files in hidden directories (.git) are left out silently. Links to directories
    are not followed.
    """

    # pathlib and glob would silently leave out a directory that cannot be listed
    def refuse(error):
        raise error

    found = []
    links = []
    runs = []
    if storage.remote(directory):
        names = storage.files(storage.path(directory))
        runs = [os.path.dirname(name) for name in names if os.path.basename(name) == RUN]
        found = sorted(
            f'{directory.rstrip("/")}/{name}'
            for name in names
            if '/.' not in f'/{name}'
            and not any(pathlib.PurePath(name).is_relative_to(run) for run in runs)
        )
    else:
        for at, directories, names in os.walk(directory, onerror=refuse):
            if RUN in names:
                runs.append(os.path.relpath(at, directory))
                directories.clear()  # not walked: a run may be deleting files there
                continue
            directories[:] = [name for name in directories if not name.startswith('.')]
            paths = [
                pathlib.Path(at, name)
                for name in (*directories, *names)
                if not name.startswith('.')
            ]
            found += filter(
                _is_file,
                (path for path in paths if path.exists() or files.in_directories(str(path))),
            )
            links += [path.name for path in paths if path.is_symlink() and path.is_dir()]
        found = list(map(str, sorted(found)))
    others = sorted(os.path.basename(name) for name in found if not files.in_directories(name))
    lines = _about_runs(runs)
    if links:
        lines.append(
            f'directories behind links are not read ({len(links):,}, such as {min(links)}): also '
            'name them'
        )
    if others:
        shown = ', '.join(others[:3]) + ', ...' * (len(others) > 3)
        lines.append(
            f'{len(others):,} of {len(found):,} files left out ({shown}): only these are read: '
            f'{files.READ}; a .json file only if it is named itself'
        )
    return list(filter(files.in_directories, found)), lines


def _about_runs(runs):
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


def _as_list(spec):
    """One spec or several as a list of strings."""
    specs = [spec] if isinstance(spec, (str, os.PathLike)) else spec
    return [os.fspath(one) for one in specs]
