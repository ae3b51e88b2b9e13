"""The documents of each split of a prepared directory, and a description of them that changes when the text does."""
import dataclasses
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import corpus as corpus_lib
from gpt1_jax.data import files as files_lib
from gpt1_jax.data import held_out, parts
from gpt1_jax.data.document import Document, count_words, is_validation, text_digest
from gpt1_jax.data.document import size as document_size
from gpt1_jax.data.joining import Join
from gpt1_jax.errors import UserError

Source = str | Sequence[str] | Iterable[Document]  # one spec or several (corpus.py), or the documents themselves
Stream = Callable[[], Iterator[Document]]  # streams documents from the start
Splits = dict[str, Stream]

SENTENCE = 200  # characters; documents that are shorter on average may be single sentences
MANY = 100  # documents; an average of fewer means little


def splits(corpus: Source, valid: Source | float, field: str = 'text', join: Join = Join(),
           part: parts.Part | None = None) -> tuple[Splits, dict[str, str], Stream | None]:
    """The splits 'train' and 'valid'; what they are made from, {'corpus', 'valid': description}; and, if validation
    text was named, the function that streams all of it, for `survey`.

    valid: text, or the fraction of the corpus' documents to hold out. join: which rows form a document. part: the part
    of the corpus to read; validation text that is named belongs to part 0.
    UserError if valid names text of the corpus, and for a part of anything but files.
    """
    if valid is None or isinstance(valid, str) and not valid.strip():
        raise UserError('valid: name validation text, or a fraction of the documents to hold out, such as 0.01')
    fraction = fraction_of(valid)
    sources, corpus_is = _resolved(corpus, field)
    if part is not None and (isinstance(sources, tuple) or not all(map(corpus_lib.is_file, sources))):
        raise UserError(f'--part={part}: only files can be divided, not TFDS data')
    read = functools.partial(_documents, field=field, join=join)
    extra = {'join': str(join)} if join else {}
    if part is not None:
        extra['part'] = str(part)
    if fraction is not None:
        whole = functools.partial(read, sources, part=part)
        # Found out when the text is first read, which a finished directory does not need.
        end = functools.cache(lambda: None if part is not None else _end_of_training(whole(), fraction))
        found: Splits = {split: functools.partial(_held, whole, fraction, end, split == 'valid')
                         for split in ('train', 'valid')}
        return found, {'corpus': corpus_is, 'valid': f'{fraction} of the documents', **extra}, None
    valid_sources, valid_is = _resolved(valid, field)
    held_out.refuse_same_sources(sources, valid_sources)
    named = functools.partial(read, valid_sources)
    found = {'train': functools.partial(read, sources, part=part),
             'valid': named if part is None or part.index == 0 else lambda: iter(())}
    return found, {'corpus': corpus_is, 'valid': valid_is, **extra}, named


def fraction_of(valid: Any) -> float | None:
    """0.1 or '0.1' -> 0.1; None for anything that is not a number. UserError unless it is between 0 and 1."""
    try:
        fraction = float(valid)
    except (TypeError, ValueError):
        return None
    if not 0 < fraction < 1:
        raise UserError(f'valid is {valid}: as a fraction of the documents it must lie between 0 and 1')
    return fraction


def _held(documents, fraction, end, held):
    """Streams the documents that are held out, or those that are not; of too few documents parts of the text instead.

    end: as _end_of_training.
    """
    if end() is not None:
        yield from _cut(documents(), end(), held)
        return
    for document in documents():
        if is_validation(document, fraction) == held:
            yield document
        del document  # frees its text before the next document is read


def _end_of_training(documents, fraction):
    """None where some documents are held out and some are not, which reads documents until that is so. Else the number
    of characters before the last `fraction` of the text, which is held out then, with a notice."""
    found = set()
    number = total = 0
    for document in documents:
        number += 1
        total += len(document.text)
        found.add(is_validation(document, fraction))
        if len(found) == 2:
            return None
        del document
    end = total - max(1, round(fraction * total))
    if end < 1:
        raise UserError(f'valid={fraction} holds out all of {total} characters: name validation text, or choose a '
                        'smaller fraction')
    share = 'all' if found == {True} else 'none'
    print(f"notice: valid={fraction} holds out {share} of the corpus' {number} documents: the end of the text is held "
          'out instead', file=sys.stderr, flush=True)
    return end


def _cut(documents, end, held):
    """Streams the text from character `end` on, or what comes before it, cut between two lines or words."""
    for document in documents:
        text = document.text
        cut = min(max(end, 0), len(text))
        if 0 < cut < len(text):
            cut = text.rfind('\n', 0, cut) + 1 or text.rfind(' ', 0, cut) + 1 or cut
        end -= len(text)
        part = text[cut:] if held else text[:cut]
        if part:
            yield Document(document.name, part)


def sample(documents: Iterable[Document], characters: int, total: int) -> Iterator[Document]:
    """Documents chosen by the hash of their text, with at most `characters` characters together; the last may be cut.

    total: the characters of all documents; no more than `characters` of them are all chosen. UserError if none is.
    """
    left = characters
    for document in documents:
        # Not the bytes that decide whether it is held out, or the choice would depend on that.
        if total <= characters or int.from_bytes(text_digest(document)[8:16], 'big') < characters / total * 2 ** 64:
            yield Document(document.name, document.text[:left])
            left -= len(document.text)
            if left <= 0:
                return
        del document  # frees its text before the next document is read
    if left == characters:
        raise UserError(f'tokenizer.characters is {characters}: it chooses none of the documents, which have {total} '
                        'characters: give more')


def _resolved(source, field):
    """(sources, or the tuple of Documents; a description that changes when the text does) of a Source."""
    if isinstance(source, (str, os.PathLike)):
        return _described(source, field)
    source = tuple(source)
    if source and all(isinstance(item, Document) for item in source):
        return source, f'{len(source)} documents, SHA-256 {_digest(source)}'
    if not all(isinstance(item, (str, os.PathLike)) for item in source):
        raise UserError('corpus, valid: must be names of files or other sources, or Documents, not a mixture')
    return _described(source, field)


def _digest(documents):
    digest = hashlib.sha256()
    for document in documents:
        digest.update(f'{len(document.text)} '.encode() + document.text.encode('utf-8', 'surrogatepass'))
    return digest.hexdigest()


def _described(spec, field):
    """(sources, description) of a spec. Prints which files of its directories are left out."""
    sources = corpus_lib.sources(spec)
    for line in corpus_lib.left_out(spec):
        print(line, file=sys.stderr, flush=True)
    # Names and sizes of files, which are cheap to look up; encode.py hashes the contents shard by shard.
    files = [(os.path.basename(source), storage.size(source)) for source in sources if corpus_lib.is_file(source)]
    described = [source for source in sources if not corpus_lib.is_file(source)]
    if files:
        total = sum(size for _, size in files)
        digest = storage.json_digest(files)[:16]
        described.append(f'{len(files)} files of {total} bytes, names and sizes {digest}')
        if any(files_lib.kind(name) != files_lib.TEXT for name, _ in files):
            described.append(f'field {field!r}')
    return sources, ', '.join(described)


def _documents(source, field, join, part=None):
    return iter(source) if isinstance(source, tuple) else corpus_lib.documents(source, field, join, part)


@dataclasses.dataclass(frozen=True)
class Survey:
    """The size of a split. bytes: of UTF-8."""
    documents: int
    characters: int
    bytes: int
    words: int


def survey(splits: Splits, named: Stream | None) -> dict[str, Survey]:
    """{split: Survey} of what `splits` returned. Reads all text once, so that unreadable files are found before hours
    are spent on encoding. Prints a notice if the documents seem to be sentences. UserError if named validation text is
    also in the training text.
    """
    if named is None:
        found = {split: _survey(documents()) for split, documents in splits.items()}
    else:
        texts: dict[bytes, str] = {}
        valid = _survey(held_out.remember(named(), texts))
        train = _survey(held_out.refuse(splits['train'](), texts))
        found = {'train': train, 'valid': valid if splits['valid'] is named else Survey(0, 0, 0, 0)}
    _notice_sentences(found['train'])
    return found


def _survey(documents):
    count = characters = size = words = 0
    for document in documents:
        count += 1
        characters += len(document.text)
        size += document_size(document)
        words += count_words(document)
        del document  # frees its text before the next document is read
    return Survey(count, characters, size, words)


def _notice_sentences(train):
    if train.documents >= MANY and train.characters < SENTENCE * train.documents:
        print(f'notice: the {train.documents:,} training documents have {train.characters / train.documents:.0f} '
              'characters on average. If a row is only a sentence, a newline token follows each, and held-out '
              'sentences come from texts that are trained on: join rows with join_by=COLUMN or join_characters=N',
              file=sys.stderr, flush=True)
