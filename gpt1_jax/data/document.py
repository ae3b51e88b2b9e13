"""Section 4.1: a document, the unit of pretraining text: a book in the paper, a file or a record here."""
import dataclasses
import hashlib
import re


@dataclasses.dataclass(frozen=True)
class Document:
    """name: a path, path:line or the source's own name, for error messages. text: any text, not yet cleaned."""
    name: str
    text: str


def text_digest(document: Document) -> bytes:
    """SHA-256 of a document's text in UTF-8, 32 bytes."""
    return hashlib.sha256(_utf8(document)).digest()


def size(document: Document) -> int:
    """Bytes of a document's text in UTF-8."""
    return len(document.text) if document.text.isascii() else len(_utf8(document))


def _utf8(document):
    return document.text.encode('utf-8', 'surrogatepass')


def count_words(document: Document) -> int:
    """How many words a document has, as white space separates them."""
    return sum(1 for _ in re.finditer(r'\S+', document.text))  # str.split would hold all words in memory


def is_validation(document: Document, fraction: float) -> bool:
    """Whether a document belongs to the validation split, where about `fraction` of all documents are held out.

    Decided by the hash of its text alone: the decision is the same on every machine and does not depend on the other
    documents or their order, and copies of a document land in the same split.
    """
    return int.from_bytes(text_digest(document)[:8], 'big') < fraction * 2 ** 64
