"""Section 4.1: pretraining text from files or TFDS, or ten novels of the package. BooksCorpus, the paper's, is not
distributed any more.

A source is written as a spec; a list of specs is read in order:

    books                     a directory: every file in it whose extension files.py lists, at any depth, by name
    book.txt                  one document; .train, .dev and .test are also text
    part.jsonl   part.json    one document a line: a JSON object with a text field
    part.parquet              one document a row: a text column
    book.txt.gz               text and JSON lines may be compressed: .gz, .bz2, .zst, .lz4
    'books/**/*.txt'          a pattern; its files by name
    gs://BUCKET/...           each of these in an object store (storage.py)
    tfds:NAME:SPLIT[:FIELD]   a prepared TFDS data set that `tfds.data_source` can read, one document a record
    novels                    the novels of the package (data/README.md), unless there is a file of this name

Text is UTF-8. Documents are streamed: one is in memory at a time. Rows that are less than a document can be joined
(document.py).
"""
import glob
import os
import pathlib
import re
from collections.abc import Iterator, Sequence

from gpt1_jax import storage
from gpt1_jax.data import files, parts, records
from gpt1_jax.data.document import Document, Join, joined
from gpt1_jax.errors import UserError

NOVELS = 'novels'
_PACKAGED = pathlib.Path(__file__).parent / 'novels.jsonl.bz2'
TFDS = 'tfds:'
NAMED = f'{files.READ}; a .json file only if it is named itself'  # for messages

Spec = str | os.PathLike | Sequence[str | os.PathLike]  # one or several


def documents(spec: Spec, field: str = 'text', join: Join = Join(), part: parts.Part | None = None,
              ) -> Iterator[Document]:
    """Streams the documents of a spec (see above), always in the same order; a file named twice is read once.

    field: the text field of JSON lines, the text column of Parquet, and the default field of TFDS records.
    join: which rows form a document. part: only this part of the corpus (parts.py), which may be empty.
    UserError naming the file, and the byte, line or row, for what cannot be read, and for no documents at all.
    """
    empty = part is None
    for source, row_groups in parts.slices(sources(spec), part, whole_files=bool(join)):
        for document in _read(source, row_groups, field, join):
            empty = False
            yield document
            del document  # frees its text before the next document is read
    if empty:
        raise UserError(f'corpus {", ".join(_as_list(spec))} holds no document')


def _read(source, row_groups, field, join):
    """The documents of a source, or of some of its row groups."""
    kind = files.kind(source)
    if not is_file(source):
        yield from joined(records.tfds(source, field, join.key), join)
    elif kind == files.PARQUET:
        yield from joined(records.parquet(source, field, join.key, row_groups), join)
    elif kind == files.JSON_LINES:
        yield from joined(records.json_lines(source, field, join.key), join)
    else:
        # Not opened in text mode: ftfy deals with carriage returns and other oddities later.
        with files.opened(source) as file:
            text = records.decoded(file.read(), source, 0)
        yield Document(source, text)


def sources(spec: Spec) -> list[str]:
    """The files of a spec, in order, each once; `tfds:...` stays as it is. UserError as above."""
    specs = _as_list(spec)
    if not specs:
        raise UserError('corpus: no file, directory or other source given')
    return list(dict.fromkeys(source for one in specs for source in _expand(one)))


def is_file(source: str) -> bool:
    """Whether a source is a file, rather than a TFDS data set."""
    return not source.startswith(TFDS)


def left_out(spec: Spec) -> list[str]:
    """A line for each directory with files that are not read: those with other extensions, and those behind links to
    directories. Hidden files are left out silently."""
    lines = []
    for one in _as_list(spec):
        if not is_file(one) or storage.remote(one) or not os.path.isdir(one):
            continue
        found, links = _below(one)
        if links:
            lines.append(f'{one}: {_not_followed(links)}')
        others = [os.path.basename(name) for name in found if not files.in_directories(name)]
        if others:
            shown = ', '.join(sorted(others)[:3]) + ', ...' * (len(others) > 3)
            lines.append(f'{one}: {len(others):,} of {len(found):,} files left out ({shown}): only these are read: '
                         f'{NAMED}')
    return lines


def _expand(spec):
    """The sources of one spec."""
    if not spec:
        raise UserError('corpus: an empty name')
    if not is_file(spec):
        return [spec]
    if re.match(r'[a-z][a-z0-9]+://', spec):
        return _expand_remote(spec)
    path = pathlib.Path(spec)
    if path.is_dir():
        return _text_files(spec, *_below(spec))
    if path.is_file():
        found = [spec]
    elif glob.has_magic(spec):
        found = sorted(match for match in glob.glob(spec, recursive=True) if os.path.isfile(match))
    elif path.exists():
        raise UserError(f'{spec}: is neither a file nor a directory; a pipe is not read, because text is read several '
                        'times')
    else:
        found = [str(_PACKAGED)] * (spec == NOVELS)
    return [os.path.normpath(file) for file in _known(spec, found)]


def _expand_remote(spec):
    """The objects of one spec in an object store."""
    if not storage.remote(spec):
        raise UserError(f'{spec}: text is read from local files and from {storage.SCHEME}BUCKET/...: copy it to one of '
                        'these first')
    path = storage.path(spec)
    if glob.has_magic(spec):  # as on a local disk, * begins no hidden name
        found = [name for name in storage.glob(spec) if '/.' not in name or '/.' in spec]
    elif storage.is_object(path):
        found = [spec]
    elif path.is_dir():
        names = [name for name in storage.files(path) if '/.' not in f'/{name}']
        return _text_files(spec, sorted(f'{spec.rstrip("/")}/{name}' for name in names))
    else:
        found = []
    return _known(spec, found)


def _known(spec, found):
    """Files that were named themselves or by a pattern. UserError for none, and for an extension that is unknown."""
    if not found:
        raise UserError(f'{spec}: no file matches this pattern' if glob.has_magic(spec) else
                        f'{spec}: no such file or directory')
    for file in found:
        if files.kind(file) is None:
            raise UserError(f'{file}: unknown extension, must be one of these: {files.READ}')
    return found


def _text_files(directory, names, links=()):
    """Those of a directory's files that are read. UserError if there is none."""
    found = [name for name in names if files.in_directories(name)]
    if not found:
        others = sorted({os.path.splitext(name)[1] or os.path.basename(name) for name in names})
        instead = _not_followed(links) if links else f'only {", ".join(others[:5])}' if others else 'it is empty'
        raise UserError(f'{directory}: no text file in this directory, {instead}; these are read: {NAMED}')
    return found


def _below(directory):
    """(files, links to directories) below a directory, by name. Hidden ones are left out, as is what is in hidden
    directories (.git), and links are not followed.

    OSError where a directory cannot be listed: pathlib and glob leave its files out silently."""
    def refuse(error):
        raise error
    found, links = [], []
    for at, directories, names in os.walk(directory, onerror=refuse):
        directories[:] = [name for name in directories if not name.startswith('.')]
        paths = [pathlib.Path(at, name) for name in (*directories, *names) if not name.startswith('.')]
        found += [path for path in paths if path.is_file()]
        links += [path for path in paths if path.is_symlink() and path.is_dir()]
    return [str(path) for path in sorted(found)], sorted(links)


def _not_followed(links):
    return f'directories behind links are not read ({len(links):,}, such as {links[0].name}): also name them'


def _as_list(spec):
    """A spec or several as a list of strings."""
    specs = [spec] if isinstance(spec, (str, os.PathLike)) else spec
    return [os.fspath(one) for one in specs]
