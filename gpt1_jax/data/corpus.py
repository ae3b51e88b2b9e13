"""Section 4.1: where pretraining text comes from. The paper's BooksCorpus is not to be had; any text is.

A spec says where, a list of specs is read in its order:

    books                     a directory: every .txt, .txt.gz, .jsonl and .jsonl.gz in it, at any depth, by name
    book.txt   book.txt.gz    one document
    part.jsonl(.gz)           one document a line: a JSON object with a text field
    'books/**/*.txt'          a pattern, by name
    tfds:NAME:SPLIT[:FIELD]   a prepared TFDS data set that `tfds.data_source` can read, one document a record
    documentation             the documentation installed with Python (see documentation.py)

Text is UTF-8. Documents stream: one is in memory at a time.
"""
import dataclasses
import difflib
import glob
import gzip
import hashlib
import json
import os
import pathlib
import re
import zlib
from collections.abc import Iterator, Sequence

from gpt1_jax.errors import UserError, about

EXTENSIONS = ('.txt', '.txt.gz', '.jsonl', '.jsonl.gz')
DOCUMENTATION = 'documentation'
TFDS = 'tfds:'


@dataclasses.dataclass(frozen=True)
class Document:
    """name: where it stands, for messages: a path, path:line, or the source's own name."""
    name: str
    text: str


def documents(spec: str | Sequence[str], field: str = 'text') -> Iterator[Document]:
    """Streams the documents of a spec (see above), always in the same order; a file named twice is read once.

    field: the text field of JSON lines, and of TFDS records whose spec names none.
    UserError for a missing file, a pattern or directory with nothing in it, an unknown extension, text that is not
    UTF-8 (file and byte), broken JSON or a record without the field (file and line), and when there is no document.
    """
    found = False
    for source in sources(spec):
        for document in _read(source, field):
            found = True
            yield document
    if not found:
        raise UserError(f'corpus {_shown(spec)} holds no document')


def sources(spec: str | Sequence[str]) -> list[str]:
    """A spec's files, in order, each once; `tfds:...` and `documentation` stand for themselves. UserError as above."""
    specs = [spec] if isinstance(spec, (str, os.PathLike)) else list(spec)
    if not specs:
        raise UserError('corpus: no file, directory or other source given')
    return list(dict.fromkeys(source for one in specs for source in _expand(os.fspath(one))))


def is_file(source: str) -> bool:
    """Whether a source is a file, and not a name with a meaning of its own."""
    return source != DOCUMENTATION and not source.startswith(TFDS)


def is_validation(document: Document, fraction: float) -> bool:
    """Whether a document is among the about `fraction` of all that are held out, whole, for validation.

    Decided by a hash of its text alone: the same on every machine, in any order, among any other documents; copies of
    a document land on one side.
    """
    digest = hashlib.sha256(document.text.encode('utf-8', 'surrogatepass')).digest()
    return int.from_bytes(digest[:8], 'big') < fraction * 2 ** 64


def _expand(spec):
    """One spec -> its sources."""
    if not spec:
        raise UserError('corpus: an empty name')
    if not is_file(spec):
        return [spec]
    path = pathlib.Path(spec)
    with about(path):  # a name that can be none
        is_dir = path.is_dir()
    if is_dir:
        everything = sorted(p for p in path.rglob('*') if p.is_file())
        files = [str(p) for p in everything if p.name.endswith(EXTENSIONS)]
        if not files:
            others = ', '.join(sorted({p.suffix or p.name for p in everything})[:5])
            raise UserError(f'{spec}: no {", ".join(EXTENSIONS)} file in this directory'
                            + (f', only {others}' if others else ', it is empty'))
        return files
    if path.is_file():
        files = [spec]
    elif glob.has_magic(spec):
        files = sorted(p for p in glob.glob(spec, recursive=True) if os.path.isfile(p))
        if not files:
            raise UserError(f'{spec}: no file matches this pattern')
    else:
        raise UserError(f'{spec}: no such file or directory')
    for file in files:
        if not file.endswith(EXTENSIONS):
            raise UserError(f'{file}: unknown kind of file, can read {", ".join(EXTENSIONS)}')
    return [os.path.normpath(file) for file in files]


def _read(source, field):
    """One source -> its documents."""
    if source == DOCUMENTATION:
        from gpt1_jax.data import documentation
        yield from documentation.documents()
    elif source.startswith(TFDS):
        yield from _read_tfds(source, field)
    elif source.endswith(('.txt', '.txt.gz')):
        # Carriage returns and whatever else is odd are left to ftfy.
        yield Document(source, _decoded(b''.join(_lines(source)), source, 0))
    else:
        start = 0
        for number, line in enumerate(_lines(source), 1):
            if line.strip():
                yield Document(f'{source}:{number}', _record_text(_decoded(line, source, start), source, number, field))
            start += len(line)


def _lines(path):
    """The lines of a file, as bytes, uncompressed."""
    try:
        with (gzip.open(path) if path.endswith('.gz') else open(path, 'rb')) as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f'{path}: cannot be read ({error})') from None


def _decoded(data, path, start):
    try:
        text = data.decode('utf-8')
        return text if start else text.removeprefix('\ufeff')  # a byte-order mark is no text
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: not UTF-8 at byte {start + error.start} ({data[error.start]:#04x})') from None


def _record_text(line, path, number, field):
    """A JSON line -> its text."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f'{path}: line {number} is not JSON ({error})') from None
    if not isinstance(record, dict):
        raise UserError(f'{path}: line {number} is {type(record).__name__}, must be an object with field {field!r}')
    return _field(record, field, f'{path}: line {number}')


def _field(record, field, where):
    """A record's text, or a UserError that helps."""
    if field not in record:
        near = difflib.get_close_matches(field, map(str, record), n=1)
        raise UserError(f'{where} has no field {field!r}, only {", ".join(map(repr, list(record)[:10])) or "none"}'
                        + (f'; did you mean {near[0]!r}?' if near else ''))
    text = record[field]
    if isinstance(text, bytes):
        text = _decoded(text, where, 0)
    if not isinstance(text, str):
        raise UserError(f'{where}: field {field!r} is {type(text).__name__}, must be text')
    return text


def _read_tfds(spec, field):
    """tfds:NAME:SPLIT[:FIELD]; NAME may hold a config and a version, as in tfds:wiki40b/en:1.3.0:train."""
    match = re.fullmatch(r'tfds:([^:]+(?::\d+\.\d+\.\d+)?):([^:\[]+(?:\[[^\]]*\])?)(?::([^:]+))?', spec)
    if not match:
        raise UserError(f'{spec}: must be tfds:NAME:SPLIT or tfds:NAME:SPLIT:FIELD')
    name, split, field = match[1], match[2], match[3] or field
    try:
        import tensorflow_datasets as tfds
        records = tfds.data_source(name, split=split)
    except Exception as error:  # whatever it raises, the cause is this spec or this machine's data
        reason = ' '.join(f'{type(error).__name__}: {error}'.split())
        raise UserError(f'{spec}: TFDS cannot open it ({reason[:300]})') from None
    for number in range(len(records)):
        # By index: a data source that is short of records then says so instead of ending early.
        yield Document(f'{spec}:{number}', _field(records[number], field, f'{spec}: record {number}'))


def _shown(spec):
    return ', '.join(map(str, [spec] if isinstance(spec, (str, os.PathLike)) else spec))
