"""Section 4.1: the document, the unit of pretraining text. A document is a book in the paper, and a
file or some rows of a file here."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gpt1_jax.data import rows as rows_lib


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

    def __str__(self) -> str:
        by = [f'by {self.key!r}'] * (self.key is not None)
        by += [f'up to {self.characters} characters'] * (self.characters is not None)
        joined = [f'rows joined {" and ".join(by)} with {self.between!r}'] * bool(by)
        split = [f'split at {self.split_at!r}'] * (self.split_at is not None)
        return ', '.join(joined + split)


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
