"""Texts that were encoded before, kept beside a tokenizer: a machine without spaCy, ftfy and SentencePiece reads their
ids, and no other text's.

    recorder = known.Recorder(tokenizer)    # encodes as the tokenizer does
    ...                                     # whatever a job will encode
    recorder.save(DIR)                      # DIR/known.npz, which Tokenizer.load(DIR) finds
"""
import dataclasses
import functools
import hashlib
import io

import numpy as np

from gpt1_jax import storage
from gpt1_jax.errors import UserError, about

FILE = 'known.npz'


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """hashes: uint64[n], ascending, of n texts. ids: uint16[all of their ids], text i's from starts[i] to starts[i+1].
    pieces: uint8, what each id stands for in UTF-8 (Tokenizer.decode), piece i from ends[i-1] to ends[i]. file: all of
    this as it is kept, for the tokenizer's copies in other directories.
    """
    hashes: np.ndarray
    starts: np.ndarray
    ids: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray
    file: bytes

    def save(self, directory):
        """Write DIRECTORY/known.npz."""
        storage.write(storage.path(directory) / FILE, self.file)

    def get(self, text: str) -> list[int] | None:
        """The ids of a text, or None."""
        wanted = _hash(text)
        i = int(np.searchsorted(self.hashes, wanted))
        if i == len(self.hashes) or self.hashes[i] != wanted:
            return None
        return self.ids[self.starts[i]:self.starts[i + 1]].tolist()

    @functools.cached_property
    def texts(self) -> list[bytes]:
        """What each id puts into a decoded text, specials included."""
        return [self.pieces[start:end].tobytes() for start, end in zip([0, *self.ends[:-1]], self.ends)]


class Recorder:
    """A stand-in for a Tokenizer that remembers every text it encodes."""

    def __init__(self, tokenizer):
        self._tokenizer, self._found = tokenizer, {}

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def encode(self, text):
        if text not in self._found:
            self._found[text] = self._tokenizer.encode(text)
        return list(self._found[text])

    def save(self, directory):
        """Write DIRECTORY/known.npz."""
        hashes = np.array([_hash(text) for text in self._found], np.uint64)
        if len(np.unique(hashes)) != len(hashes):  # one in 30 million jobs of a million texts
            raise UserError(f'{directory}: two texts have the same hash: leave one of them out')
        order, ids, pieces = np.argsort(hashes), list(self._found.values()), self._tokenizer.texts
        ids = [ids[i] for i in order]
        made = io.BytesIO()
        np.savez_compressed(
            made, tokenizer=self._tokenizer.fingerprint, hashes=hashes[order],
            starts=np.cumsum([0, *map(len, ids)]), ids=np.array([i for one in ids for i in one], np.uint16),
            pieces=np.frombuffer(b''.join(pieces), np.uint8), ends=np.cumsum(list(map(len, pieces))))
        path = storage.path(directory) / FILE
        with about(path):
            storage.write(path, made.getvalue())


def load(directory, fingerprint: str) -> Known | None:
    """What `Recorder.save` left beside the tokenizer with this fingerprint; None where there is nothing.

    UserError where it was made with another tokenizer, or is damaged.
    """
    path = storage.path(directory) / FILE
    if not path.exists():
        return None
    try:
        file = storage.read(path)
        with np.load(io.BytesIO(file), allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
        made_with = str(found.pop('tokenizer'))
        known = Known(**found, file=file)
        if (len(known.starts) != len(known.hashes) + 1 or known.starts[-1] != len(known.ids)
                or known.ends[-1] != len(known.pieces)):
            raise ValueError('its arrays do not fit each other')
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds for a damaged file
        raise UserError(f'{path}: damaged ({type(error).__name__}: {error}): delete it') from None
    if made_with != fingerprint:
        raise UserError(f'{path}: made with another tokenizer: delete it')
    return known


def _hash(text):
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode('utf-8', 'surrogatepass')).digest()[:8], 'big'))
