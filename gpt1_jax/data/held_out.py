"""Checks that validation text is not trained on: no document may be in both splits."""
import sys
from collections.abc import Iterable, Iterator, Sequence

from gpt1_jax.data.document import Document, text_digest
from gpt1_jax.errors import UserError

# Characters. Shorter documents (a dedication, a table of contents) may be equal by chance: they only give a warning.
LONG = 1000


def refuse_same_sources(corpus: Sequence[Document] | Sequence[str], valid: Sequence[Document] | Sequence[str]) -> None:
    """UserError if corpus and valid, each a sequence of Documents or of sources (corpus.py), name the same one. Copies
    under other names are found when the text is read: see `refuse`."""
    for both in set(corpus) & set(valid):
        name = both.name if isinstance(both, Document) else both
        raise UserError(f'{name} is both in corpus and in valid: validation text must not be trained on')


def remember(documents: Iterable[Document], held_out: dict[bytes, str]) -> Iterator[Document]:
    """Passes validation documents through and adds them to held_out, {digest of the text: name}, for `refuse`."""
    for document in documents:
        held_out[text_digest(document)] = document.name
        yield document
        del document  # frees its text before the next document is read


def refuse(documents: Iterable[Document], held_out: dict[bytes, str]) -> Iterator[Document]:
    """Passes training documents through unless they are held out.

    UserError at a long document that is held out, or at the end if every held-out text is also a training document.
    Otherwise warns on stderr how many short ones are in both.
    """
    shared = set()
    for document in documents:
        digest = text_digest(document)
        if digest in held_out:
            if len(document.text) >= LONG:
                raise UserError(f'{document.name} has the same text as {held_out[digest]}, which is held out: '
                                'validation text must not be trained on')
            shared.add(digest)
        yield document
        del document  # frees its text before the next document is read
    if shared and len(shared) == len(held_out):
        raise UserError(f'all {len(shared)} texts of valid are also in corpus: validation text must not be trained on')
    if shared:
        print(f'warning: {len(shared):,} of {len(held_out):,} different validation texts, all short, are also '
              'training documents', file=sys.stderr, flush=True)
