"""Section 4.1: rows joined to documents, where a row is less than one: a sentence, a paragraph, a page.

A newline token follows every document, and whole documents are held out. Of the Hub's `bookcorpus`, a sentence a row,
9% of the tokens would be newlines, and held-out sentences would be from books that are trained on.
"""
import dataclasses
from collections.abc import Iterable, Iterator

from gpt1_jax.data.document import Document
from gpt1_jax.data.records import Row


@dataclasses.dataclass(frozen=True)
class Join:
    """Which rows of a file form a document. By default each row is one.

    key:        the column whose value the rows of a document share; they follow each other in the file.
    characters: at most so many to a document, unless a single row has more.
    between:    what is put between two rows.
    """
    key: str | None = None
    characters: int | None = None
    between: str = ' '

    def __bool__(self) -> bool:
        return self.key is not None or self.characters is not None

    def __str__(self) -> str:
        by = []
        if self.key is not None:
            by.append(f'by {self.key!r}')
        if self.characters is not None:
            by.append(f'up to {self.characters} characters')
        return f'rows joined {" and ".join(by)} with {self.between!r}'


def documents(rows: Iterable[Row], how: Join) -> Iterator[Document]:
    """The documents of one source's rows, named for their first rows. Memory holds one document."""
    if not how:
        for row in rows:
            yield Document(row.name, row.text)
            del row  # frees its text before the next row is read
        return
    texts: list[str] = []
    length, name, key = 0, '', None
    for row in rows:
        longer = length + len(how.between) + len(row.text)
        full = how.characters is not None and longer > how.characters
        if texts and (full or row.key != key):
            yield Document(name, how.between.join(texts))
            texts.clear()
        if not texts:
            name, key, longer = row.name, row.key, len(row.text)
        texts.append(row.text)
        length = longer
    if texts:
        yield Document(name, how.between.join(texts))
