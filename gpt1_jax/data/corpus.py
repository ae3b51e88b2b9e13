"""Section 4.1: streams pretraining text, one document at a time, from the rows of files or TFDS, or
from the ten novels of the package. The paper's BooksCorpus is not distributed any more.

A spec names text: what files.py expands, 'tfds:NAME:SPLIT[:FIELD]', or 'novels' (README.md,
"Corpora"). Several specs are read in order. Text is UTF-8. A document is a book in the paper, and a
file or some rows of a file here.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpt1_jax.data import files, parts, readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.readers import tfds
from gpt1_jax.errors import UserError, fail

NOVELS = 'novels'
_PACKAGED = pathlib.Path(__file__).parent / 'novels.jsonl.bz2'

Spec = str | os.PathLike | Sequence[str | os.PathLike]  # one or several


@dataclasses.dataclass(frozen=True)
class Document:
    """A document, or a row that may become a part of one.

    name: its file and place, for error messages.
    text: any text, not yet cleaned.
    key:  a row's value in the column by which rows are joined.
    """

    name: str
    text: str
    key: Any = None

    @property
    def utf8(self) -> bytes:
        return self.text.encode('utf-8', 'surrogatepass')


@dataclasses.dataclass(frozen=True)
class Join:
    """Which rows of a file, or parts of rows, form a document. By default each row is a document.

    A newline token follows every document, and whole documents are held out, so rows that are
    sentences should be joined.
    key:        the column whose value the rows of a document share. These rows follow each other in
                the file.
    characters: the most characters of a document, unless a single row has more.
    between:    the text put between two rows.
    split_at:   a text between documents, such as '<|endoftext|>'. It is no part of them.
    """

    key: str | None = None
    characters: int | None = None
    between: str = ' '
    split_at: str | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.characters is not None


def joined(rows: Iterable[Document], how: Join) -> Iterator[Document]:
    """Joins the rows of one source to documents, named for their first rows.

    Memory holds one document. UserError for a document of more than LONGEST characters.
    """
    if not how:
        yield from rows
        return
    texts: list[str] = []
    length = 0
    name = ''
    key = None
    for row in rows:
        longer = length + len(how.between) + len(row.text)
        full = how.characters is not None and longer > how.characters
        if texts and (full or row.key != key):
            yield Document(name, how.between.join(texts))
            texts.clear()
        if not texts:
            name = row.name
            key = row.key
            longer = len(row.text)
        if longer > rows_lib.LONGEST:
            raise rows_lib.too_long(f'{name}: the document of joined rows that begins here')
        texts.append(row.text)
        length = longer
    if texts:
        yield Document(name, how.between.join(texts))


def divided(documents: Iterable[Document], how: Join) -> Iterator[Document]:
    """Divides documents at how.split_at, which may stand on a line or inside a line.

    Line breaks beside it, and parts of white space, are no text.
    """
    if how.split_at is None:
        yield from documents
        return
    for document in documents:
        for part in document.text.split(how.split_at):
            if not part.isspace() and part:
                yield Document(document.name, part.strip('\r\n'))
        del document


def text_digest(document: Document) -> bytes:
    """SHA-256 of a document's text in UTF-8, 32 bytes."""
    return hashlib.sha256(document.utf8).digest()


def count_words(document: Document) -> int:
    """The number of words of a document, which white space separates."""
    # str.split would hold all words in memory
    return sum(1 for _ in re.finditer(r'\S+', document.text))


def is_validation(document: Document, fraction: float) -> bool:
    """Whether a document is held out for validation, as about `fraction` of all documents are.

    Only the hash of its text decides. So the decision is the same on every machine, does not depend
    on the other documents or their order, and copies of a document land in the same split.
    """
    return int.from_bytes(text_digest(document)[:8], 'big') < fraction * 2**64


def documents(
    spec: Spec,
    field: str = 'text',
    join: Join = Join(),
    part: parts.Part | None = None,
    on_bad: Callable[[str], Any] = fail,
) -> Iterator[Document]:
    """Streams the documents of a spec, always in the same order. A file named twice is read once.

    field:  the text field of JSON lines, the text column of Parquet and tables, and the default
            field of TFDS records.
    join:   which rows, or parts of rows, form a document.
    part:   read only this part of the corpus (parts.py), which may be empty.
    on_bad: called with the message of a bad row: it cannot be read, or its field is no text.
    UserError if text cannot be read, naming the file and the byte, line or row, and if there is no
    document at all. OSError as the file system raises it.
    """
    empty = part is None
    for source, row_groups in parts.slices(expand(spec), part, whole_files=bool(join)):
        for document in divided(joined(_read(source, row_groups, field, join, on_bad), join), join):
            empty = False
            yield document
            del document  # frees its text before the next document is read
    if empty:
        raise UserError(f'corpus {", ".join(files.as_list(spec))} holds no document')


def expand(spec: Spec, split_files: bool | None = True) -> list[str]:
    """As files.expand, also of 'novels'. A directory of that name is './novels'."""
    specs = [str(_PACKAGED) if one == NOVELS else one for one in files.as_list(spec)]
    return files.expand(specs, split_files)


def _read(source, row_groups, field, join, on_bad):
    """Yields the Document of each row of a source, or of some of its row groups."""
    if files.kind(source) == 'txt':
        field = 'text'
        key = None
    else:
        key = join.key
    if match := tfds.SPEC.fullmatch(source):
        field = match[3] or field
    needed = (field,) if key is None else (field, key)
    how = rows_lib.How(tuple(dict.fromkeys(needed)), groups=row_groups, divided=join.split_at)
    for row in rows_lib.good(readers.rows(source, how), on_bad):
        try:
            document = _document(row, field, key)
        except UserError as error:
            on_bad(f'{row.where}: {error}')
            continue
        del row
        yield document
        del document


def _document(row, field, key):
    """The Document of a row. UserError if the row has no text, or lacks the key."""
    text = rows_lib.cell(row.fields, field)
    if not isinstance(text, str):
        raise UserError(f'{field} is {type(text).__name__}, must be text')
    if len(text) > rows_lib.LONGEST:
        raise rows_lib.too_long(field)
    return Document(row.where, text, key and rows_lib.cell(row.fields, key))
