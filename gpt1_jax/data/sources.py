"""Streams the documents of each split of a prepared directory, and describes them. The description
changes when the text does."""

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gpt1_jax import storage
from gpt1_jax.data import corpus as corpus_lib
from gpt1_jax.data import files as files_lib
from gpt1_jax.data import parts
from gpt1_jax.data.corpus import Document, Join, count_words, is_validation, text_digest
from gpt1_jax.data.rows import BadRows
from gpt1_jax.errors import UserError

# One spec or several (corpus.py), or the documents themselves
Source = str | Sequence[str] | Iterable[Document]
Stream = Callable[[], Iterator[Document]]  # streams documents from the start
Splits = dict[str, Stream]

SENTENCE = 200  # characters. Documents that are shorter on average may be single sentences
MANY = 100  # documents. An average of fewer means little
# What stands between documents in published files
MARKERS = ('<|endoftext|>', '<|end_of_text|>', '</s>', '<eos>')
NEAR = 1000  # characters that a cut may always move back, to the end of a line or word
# Characters. Shorter documents (a dedication, a table of contents) may be equal by chance
LONG = 1000


def splits(
    corpus: Source,
    valid: Source | float,
    field: str = 'text',
    join: Join = Join(),
    part: parts.Part | None = None,
    split_files: bool | None = None,
    skip_bad: bool = False,
) -> tuple[Splits, dict[str, str], Stream | None]:
    """(the splits 'train' and 'valid', their description, a stream of named validation text).

    The description is {'corpus', 'valid': text}. The stream, for `survey`, gives all of the named
    validation text, and is None if a fraction is held out.
    valid:       text, or the fraction of the corpus' documents to hold out.
    join:        which rows form a document.
    part:        the part of the corpus to read. Named validation text belongs to part 0.
    split_files: what to do with files whose names say validation data, see corpus.expand.
    skip_bad:    whether to leave out bad rows, and count them once they have been read.
    UserError if valid names text of the corpus, or if the part is not of files.
    """
    if valid is None or isinstance(valid, str) and not valid.strip():
        raise UserError(
            'valid: name validation text, or a fraction of the documents to hold out, such as 0.01'
        )
    fraction = fraction_of(valid)
    sources, corpus_is = _resolved(corpus, field, split_files)
    if part is not None and (
        isinstance(sources, tuple) or not all(map(files_lib.is_file, sources))
    ):
        raise UserError(f'--part={part}: only files can be divided, not TFDS data')
    read = functools.partial(_documents, field=field, join=join, skip_bad=skip_bad)
    whole = functools.partial(read, sources, part=part)
    found: Splits
    named = None
    if fraction is not None:
        valid_is = f'{fraction} of the documents'
        # Cached, and found only when the text is first read: a finished directory does not need it
        end = functools.cache(
            lambda: None if part is not None else _end_of_training(whole(), fraction)
        )
        found = {
            split: functools.partial(_held, whole, fraction, end, split == 'valid')
            for split in ('train', 'valid')
        }
    else:
        valid_sources, valid_is = _resolved(valid, field)
        for both in set(sources) & set(valid_sources):
            raise UserError(
                f'{getattr(both, "name", both)} is both in corpus and in valid: validation text '
                'must not be trained on'
            )
        named = functools.partial(read, valid_sources)
        found = {
            'train': whole,
            'valid': named if part is None or part.index == 0 else lambda: iter(()),
        }
    inputs = {'corpus': corpus_is, 'valid': valid_is}
    if join != Join():
        inputs['join'] = str(join)
    if part is not None:
        inputs['part'] = str(part)
    return found, inputs, named


def fraction_of(valid: Any) -> float | None:
    """0.1 or '0.1' -> 0.1. None for anything that is not a number.

    UserError for a number that is not between 0 and 1.
    """
    try:
        fraction = float(valid)
    except (TypeError, ValueError):
        return None
    if not 0 < fraction < 1:
        raise UserError(
            f'valid is {valid}: as a fraction of the documents it must lie between 0 and 1'
        )
    return fraction


def _held(documents, fraction, end, held):
    """Streams the documents that are held out, or the other documents.

    If there are too few documents, the text is cut instead. end: a function that returns the result
    of `_end_of_training`.
    """
    if end() is not None:
        yield from _cut(documents(), end(), held)
        return
    for document in documents():
        if is_validation(document, fraction) == held:
            yield document
        del document  # frees its text before the next document is read


def _end_of_training(documents, fraction):
    """None if some documents are held out and some are not.

    Reads documents until this is known. Otherwise the last `fraction` of the text is held out, with
    a notice, and the result is the number of characters before it.
    """
    found: set[bool] = set()
    names: dict[bytes, str] = {}  # digest of a text: its first document
    copy = ''
    number = total = 0
    for document in documents:
        number += 1
        total += len(document.text)
        if document.text.strip():  # blank documents are in no split's tokens
            digest = text_digest(document)
            name = document.name or f'document {number}'
            if digest in names:
                copy = copy or f'{names[digest]} and {name}'
            names.setdefault(digest, name)
            found.add(is_validation(document, fraction))
        if len(found) == 2:
            return None
        del document
    if copy:  # the end of one copy may be held out, and the other copy trained on
        raise UserError(
            f'valid={fraction}: some of the {number} documents have the same text ({copy}), so '
            'what is held out may also be trained on: remove the copies, or name validation text'
        )
    end = total - max(1, round(fraction * total))
    if end < 1:
        raise UserError(
            f'valid={fraction} holds out all of {total} characters: give more text, or name '
            'validation text'
        )
    say(
        f'notice: valid={fraction} holds out {"all" if found == {True} else "none"} of the '
        f"corpus' {number} "
        'documents: the end of the text is held out instead'
    )
    return end


def _cut(documents, end, held):
    """Streams the text from character `end` on, or the text before it.

    The cut is between two lines or words.
    """
    for document in documents:
        text = document.text
        cut = min(max(end, 0), len(text))
        if 0 < cut < len(text):
            # In a long text, moving the cut back at most doubles the part that is held out
            near = max(0, cut - max(len(text) - cut, NEAR))
            cut = text.rfind('\n', near, cut) + 1 or text.rfind(' ', near, cut) + 1 or cut
        end -= len(text)
        part = text[cut:] if held else text[:cut]
        if part:
            yield Document(document.name, part)


def sample(documents: Iterable[Document], characters: int, total: int) -> Iterator[Document]:
    """Chooses documents by the hash of their text, with at most `characters` characters together.

    The last document may be cut. total: the characters of all documents. If there are at most
    `characters`, all documents are chosen. UserError if no document is chosen.
    """
    left = characters
    for document in documents:
        # Other bytes of the hash decide whether it is held out, so the choice does not depend on it
        if (
            total <= characters
            or int.from_bytes(text_digest(document)[8:16], 'big') < characters / total * 2**64
        ):
            yield Document(document.name, document.text[:left])
            left -= len(document.text)
            if left <= 0:
                return
        del document  # frees its text before the next document is read
    if left == characters:
        raise UserError(
            f'tokenizer.characters is {characters}: it chooses none of the documents, which have '
            f'{total} characters: give more'
        )


def _resolved(source, field, split_files=True):
    """(sources, or the tuple of Documents, and a description that changes when the text does)."""
    if not isinstance(source, (str, os.PathLike)):
        source = tuple(source)
        if source and all(isinstance(item, Document) for item in source):
            digest = hashlib.sha256()
            for document in source:
                digest.update(f'{len(document.text)} '.encode() + document.utf8)
            return source, f'{len(source)} documents, SHA-256 {digest.hexdigest()}'
    sources = corpus_lib.expand(source, split_files)
    # Names and sizes of files are cheap to look up. encode.py hashes the contents shard by shard.
    files = [
        (os.path.basename(source), storage.size(source))
        for source in sources
        if files_lib.is_file(source)
    ]
    described = [source for source in sources if not files_lib.is_file(source)]
    if files:
        total = sum(size for _, size in files)
        described.append(
            f'{len(files)} files of {total} bytes, names and sizes '
            f'{storage.json_digest(files)[:16]}'
        )
        if any(files_lib.kind(name) != 'txt' for name, _ in files):
            described.append(f'field {field!r}')
    return sources, ', '.join(described)


def _documents(source, field, join, part=None, skip_bad=False):
    if isinstance(source, tuple):
        yield from source
        return
    bad = BadRows(skip_bad, 'skip_bad=True')
    try:
        yield from corpus_lib.documents(source, field, join, part, bad)
    except UserError as error:
        about = f'; {bad}' if bad.count else ''
        raise UserError(f'{error}{about}') from None
    if bad.count:
        files_lib.say_once(str(bad))


class Survey(NamedTuple):
    """The size of a split. bytes: in UTF-8."""

    documents: int
    characters: int
    bytes: int
    words: int
    marker: str = ''  # a text that may stand between documents


def survey(
    splits: Splits, named: Stream | None, part: parts.Part | None = None
) -> dict[str, Survey]:
    """{split: Survey} for the result of `splits`.

    Reads all text once, so that unreadable files are found before hours are spent on encoding.
    Prints a notice if the documents seem to be sentences. UserError if a long document of named
    validation text, or all of that text, is also in the training text; other copies give a warning.
    UserError if a split has no word, which only a part's split may have.
    """
    held_out: dict[bytes, str] = {}  # digest of a validation text: its name
    shared = set()

    def remember(document):
        held_out[text_digest(document)] = document.name

    def refuse(document):
        digest = text_digest(document) if held_out else b''
        if digest in held_out:
            if len(document.text) >= LONG:
                raise UserError(
                    f'{document.name} has the same text as {held_out[digest]}, which is held out: '
                    'validation text must not be trained on'
                )
            shared.add(digest)

    valid = _survey(
        splits['valid']() if named is None else named(),
        remember if named else lambda document: None,
    )
    if not valid.words and (named or part is None):
        raise UserError(f'valid: {valid.documents} documents and no word in them')
    train = _survey(splits['train'](), refuse)
    if not train.words and part is None:
        raise UserError(f'train: {train.documents} documents and no word in them')
    if shared and len(shared) == len(held_out):
        raise UserError(
            f'all {len(shared)} texts of valid are also in corpus: validation text must not be '
            'trained on'
        )
    if shared:
        say(
            f'warning: {len(shared):,} of {len(held_out):,} different validation texts, all short, '
            'are also training documents'
        )
    if train.documents >= MANY and train.characters < SENTENCE * train.documents:
        say(
            f'notice: the {train.documents:,} training documents have '
            f'{train.characters / train.documents:.0f} characters on average. If a row is only a '
            'sentence, a newline token follows each, and held-out sentences come from texts that '
            'are trained on: join rows with join_by=COLUMN or join_characters=N'
        )
    if train.marker:
        say(
            f'notice: the text has {train.marker!r}, which is trained on as text. If it stands '
            f"between documents: split_at='{train.marker}'"
        )
    return {
        'train': train,
        'valid': valid if named in (None, splits['valid']) else Survey(0, 0, 0, 0),
    }


def _survey(documents, note):
    count = characters = size = words = 0
    marker = ''
    for document in documents:
        note(document)
        marker = marker or next((each for each in MARKERS if each in document.text), '')
        count += 1
        characters += len(document.text)
        size += len(document.utf8)
        words += count_words(document)
        del document  # frees its text before the next document is read
    return Survey(count, characters, size, words, marker)


def as_surveyed(documents: Iterable[Document], split: str, survey: Survey) -> Iterator[Document]:
    """Streams the documents of a split, and compares their counts with the survey.

    UserError after the last document if the counts differ: the survey's bytes and words would not
    belong to the text of the tokens.
    """
    count = characters = 0
    for document in documents:
        count += 1
        characters += len(document.text)
        yield document
        del document  # frees its text before the next document is read
    if (count, characters) != (survey.documents, survey.characters):
        raise UserError(
            f'{split}: the text changed while it was read, from {survey.characters:,} characters '
            f'in {survey.documents:,} documents to {characters:,} in {count:,}: once it is '
            'complete, start again in another directory, or delete this one'
        )


def say(line: str) -> None:
    """Print a notice at once."""
    print(line, file=sys.stderr, flush=True)
