"""A cache of the ids of known texts beside a tokenizer, for machines without spaCy, ftfy and SentencePiece.

Such a machine can encode the texts in the cache and no others. `load_tokenizer` finds the cache by itself:

    recorder = token_cache.Recorder(tokenizer)    # encodes as the tokenizer does, and remembers
    ...                                           # encode whatever a job will need
    recorder.save(DIR)                            # writes DIR/known.npz
    tokenizer = token_cache.load_tokenizer(DIR)
"""
import dataclasses
import functools
import hashlib
import io
import os

import numpy as np

from gpt1_jax import storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, about

FILE = 'known.npz'


@dataclasses.dataclass(frozen=True, eq=False)
class Cache:
    """The contents of a cache file.

    hashes:       uint64[n], ascending: the first 8 bytes of the SHA-256 of each text.
    starts, ids:  int[n + 1], uint16[total]: the ids of text i are ids[starts[i]:starts[i + 1]].
    ends, pieces: int[vocabulary], uint8[total]: token i reads pieces[ends[i - 1]:ends[i]] in UTF-8 (Tokenizer.texts).
    file:         the file itself, to be copied along with the tokenizer.
    """
    hashes: np.ndarray
    starts: np.ndarray
    ids: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray
    file: bytes

    def get(self, text: str) -> list[int] | None:
        """The ids of a text, or None if it is not in the cache."""
        wanted = _hash(text)
        i = int(np.searchsorted(self.hashes, wanted))
        if i == len(self.hashes) or self.hashes[i] != wanted:
            return None
        return self.ids[self.starts[i]:self.starts[i + 1]].tolist()

    @functools.cached_property
    def texts(self) -> list[bytes]:
        """As Tokenizer.texts."""
        starts = [0, *self.ends[:-1]]
        return [self.pieces[start:end].tobytes() for start, end in zip(starts, self.ends)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CachedTokenizer(Tokenizer):
    """A Tokenizer that looks texts up in a cache first, and decodes without SentencePiece."""
    cache: Cache = dataclasses.field(repr=False, compare=False)

    def encode(self, text: str, unescape_html: str | bool = 'auto') -> list[int]:
        """As Tokenizer.encode. ImportError without spaCy, ftfy or SentencePiece if the text is not in the cache."""
        cached = self.cache.get(text) if unescape_html == 'auto' else None
        if cached is not None:
            return cached
        return super().encode(text, unescape_html)

    @functools.cached_property
    def texts(self) -> list[bytes]:
        return self.cache.texts

    def save(self, directory: str | os.PathLike) -> None:
        """As Tokenizer.save, with the cache before the other files."""
        directory = storage.path(directory)
        with about(directory):
            storage.mkdir(directory)
            storage.write(directory / FILE, self.cache.file)
        super().save(directory)


def load_tokenizer(directory: str | os.PathLike) -> Tokenizer:
    """The tokenizer that was saved in a directory, a CachedTokenizer if there is a cache beside it.

    UserError if a file is missing or damaged, or the cache was made with another tokenizer.
    """
    tokenizer = Tokenizer.load(directory)
    file = storage.path(directory) / FILE
    if not file.exists():
        return tokenizer
    cache, made_with = _load_cache(file)
    if made_with != tokenizer.fingerprint:
        raise UserError(f'{file}: made with another tokenizer: delete it')
    return CachedTokenizer(tokenizer.model, tokenizer.vocab_size, tokenizer.newline_id, tokenizer.unk_id, cache=cache)


def load_tokenizer_of(path: str | os.PathLike) -> Tokenizer:
    """The tokenizer of a run, or of a directory that holds one itself. UserError as of `load_tokenizer`."""
    directory = storage.path(path)
    with about(directory):  # a name that can be none
        if (directory / 'tokenizer').is_dir():  # a run's directory
            directory = directory / 'tokenizer'
    return load_tokenizer(directory)


def _load_cache(path):
    """(Cache, fingerprint of the tokenizer it was made with). UserError if it is damaged."""
    try:
        file = storage.read(path)
        with np.load(io.BytesIO(file), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        made_with = str(arrays.pop('tokenizer'))
        return Cache(**arrays, file=file), made_with
    except Exception as error:  # zipfile, zlib and numpy raise many classes for a damaged file
        raise UserError(f'{path}: damaged ({type(error).__name__}: {error}): delete it') from None


class Recorder:
    """Stands in for a Tokenizer and remembers every text that it encodes, with its ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids = {}

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def encode(self, text: str) -> list[int]:
        if text not in self._ids:
            self._ids[text] = self._tokenizer.encode(text)
        return list(self._ids[text])

    def save(self, directory: str | os.PathLike) -> None:
        """Writes DIRECTORY/known.npz. UserError if it cannot be written."""
        path = storage.path(directory) / FILE
        hashes = np.array([_hash(text) for text in self._ids], np.uint64)
        order = np.argsort(hashes)
        lists = list(self._ids.values())
        lists = [lists[i] for i in order]
        pieces = self._tokenizer.texts
        file = io.BytesIO()
        np.savez_compressed(
            file, tokenizer=self._tokenizer.fingerprint, hashes=hashes[order],
            starts=np.cumsum([0, *map(len, lists)]),
            ids=np.array([i for ids in lists for i in ids], np.uint16),
            pieces=np.frombuffer(b''.join(pieces), np.uint8), ends=np.cumsum([len(piece) for piece in pieces]))
        with about(path):
            storage.write(path, file.getvalue())


def _hash(text):
    digest = hashlib.sha256(text.encode('utf-8', 'surrogatepass')).digest()
    return np.uint64(int.from_bytes(digest[:8], 'big'))
