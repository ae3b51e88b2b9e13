"""Section 4.1: "a bytepair encoding (BPE) vocabulary with 40,000 merges": text to token ids and
back.

A vocabulary is either learned here (bpe_training.py) or the published one (published.py).
SentencePiece applies both. SentencePiece gets the words of `text.py` joined by spaces, and marks
the end of a word with a trailing '▁'; the released vocabulary writes '</w>'. A line break is one
token, `newline_id`, and is never given to SentencePiece. The ids in order, from 0:

    published  <unk>, 238 characters, the same characters at the end of a word, 40,000 merges,
               the line break (40477)
    learned    <unk>, the line break (1), 256 bytes, merges, characters, the end of a word by itself

Neither vocabulary has the special tokens start, delimiter and extract (Section 3.3). Their ids
follow the last ordinary id.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable

from gpt1_jax import storage
from gpt1_jax.data import text as text_lib
from gpt1_jax.errors import UserError, shown

LARGEST_VOCABULARY = 65_535  # token shards are uint16
SPECIALS = ('<start>', '<delimiter>', '<extract>')  # how `decode` writes them

FORMAT = 1
MODEL_FILE = 'tokenizer.model'
SETTINGS_FILE = 'tokenizer.json'
END = '▁'  # SentencePiece's space, here the end of a word
LINE_BREAK = '\n' + END
_ABSENT = '\uffff'  # a noncharacter, which no vocabulary contains: see Tokenizer._encode_odd_word
# The trainer never gets these: to it they mean something else (space, unknown, end of text).
RESERVED = {END, '▅', '\0', _ABSENT, ' ', '\t', '\n'}


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """Converts text to ids and back. Made by bpe_training, published, or `Tokenizer.load`.

    model:      a serialized SentencePiece model.
    vocab_size: the number of ordinary tokens, without the three special tokens. 40478 for the
                published vocabulary.
    newline_id: the token of a line break, which also ends a document.
    """

    model: bytes = dataclasses.field(repr=False)
    vocab_size: int
    newline_id: int
    unk_id = 0  # of every tokenizer

    @property
    def start_id(self) -> int:
        return self.vocab_size

    @property
    def delimiter_id(self) -> int:
        return self.vocab_size + 1

    @property
    def extract_id(self) -> int:
        return self.vocab_size + 2

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the model and the settings, in hexadecimal digits.

        Tokenizers with the same fingerprint are the same.
        """
        settings = json.dumps([FORMAT, self.vocab_size, self.newline_id, 0]).encode()
        return hashlib.sha256(hashlib.sha256(self.model).digest() + settings).hexdigest()

    def encode(self, text: str, unescape_html: str | bool = 'auto') -> list[int]:
        """Returns the ids of a text of any length, without special tokens.

        A line break becomes `newline_id`. Blank text gives []. With the published vocabulary
        'Hello, world!' -> [3570, 240, 1276, 267]. unescape_html: for parts of a longer text, see
        `text.parts`.
        """
        ids: list[int] = []
        for line in text_lib.cleaned(text, unescape_html):
            if ids:
                ids.append(self.newline_id)
            found = list(map(self._ids_of, line))
            if None in found:
                found = [self._ids_of_words(text_lib.whole_line(line))]
            ids += itertools.chain.from_iterable(found)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids, in lower case: 'hello , world !'.

        Single spaces separate words, and line breaks are kept. Special tokens read <start>,
        <delimiter> and <extract>. An unknown character reads <unk>, and a space after it is lost.
        UserError for an id outside the vocabulary.
        """
        table = self.texts
        ids = [int(i) for i in ids]
        for i in ids:
            if not 0 <= i < len(table):
                raise UserError(
                    f'id {i} is no token: this vocabulary has {self.vocab_size} and 3 specials'
                )
        text = b''.join(table[i] for i in ids).decode('utf-8', errors='replace')
        return re.sub(' *\n', '\n', text).rstrip(' ')

    def piece(self, token: int) -> str:
        """The text of one token: 'cat ' if the token ends a word, 'ca' if it does not.

        A single byte of a longer character gives U+FFFD.
        """
        return self.texts[token].decode('utf-8', errors='replace')

    def ends_word(self, token: int) -> bool:
        """Whether a token ends a word or a line.

        Later tokens do not change how `decode` writes the ids up to such a token.
        """
        return self.texts[token].endswith((b' ', b'\n'))

    def save(self, directory: str | os.PathLike) -> None:
        """Writes tokenizer.model and, last, tokenizer.json, each atomically."""
        root = storage.path(directory)
        settings = {
            'format': FORMAT,
            'vocab_size': self.vocab_size,
            'newline_id': self.newline_id,
            'fingerprint': self.fingerprint,
        }
        storage.mkdir(root)
        storage.write(root / MODEL_FILE, self.model)
        storage.write_json(root / SETTINGS_FILE, settings)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> 'Tokenizer':
        """Reads a saved tokenizer from a directory, or from its subdirectory tokenizer/.

        A run's directory has such a subdirectory. UserError if a file is missing or damaged, or if
        the two files do not belong together.
        """
        root = storage.path(directory)
        if (root / 'tokenizer').is_dir():
            root = root / 'tokenizer'
        file = root / SETTINGS_FILE
        try:
            model = storage.read(root / MODEL_FILE)
        except OSError as error:
            raise UserError(f'{root}: no tokenizer ({error.strerror}: {error.filename})') from None
        settings = storage.read_json(file)
        if not isinstance(settings, dict) or settings.get('format') != FORMAT:
            raise UserError(
                f"{file}: not a tokenizer's settings of format {FORMAT} ({shown(settings)})"
            )
        loaded = cls(model, settings.get('vocab_size', 0), settings.get('newline_id', 0))
        if settings.get('fingerprint') != loaded.fingerprint:
            raise UserError(
                f'{root / MODEL_FILE}: damaged, or not the model that {file} was written for'
            )
        return loaded

    def __reduce__(self):  # for other processes, without what is kept here
        return Tokenizer, (self.model, self.vocab_size, self.newline_id)

    @functools.cached_property
    def _ids_of(self):
        """The function that gives the ids of what stands between two spaces, see text.words."""

        def ids_of(spaced):
            words = text_lib.words(spaced)
            return words and self._ids_of_words(words)

        return text_lib.kept(ids_of)

    def _ids_of_words(self, words):
        """The ids of words. BPE merges nothing across two of them."""
        ids = []
        for word in words:
            encode = self._encode_odd_word if self._odd.search(word) else self._engine.encode
            ids += encode(word)
        return tuple(ids)

    @functools.cached_property
    def _engine(self):
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    @functools.cached_property
    def _odd(self):
        """Finds a character that SentencePiece must not be given.

        SentencePiece must not get its own space '▁' and, if the vocabulary has no bytes, unknown
        characters. SentencePiece would give neighbouring unknown characters a single token; the
        released code gives each a token. The end of a word after an unknown character would also
        become a token by itself.
        """
        if self.has_bytes:
            return re.compile(END)
        characters = {piece for piece in self.pieces()[1:] if len(piece) == 1} - {END}
        return re.compile('[^ ' + re.escape(''.join(sorted(characters))) + ']')

    def _encode_odd_word(self, word):
        """The ids of a word that contains odd characters.

        Odd characters become bytes or `unk_id`, and no merge crosses them.
        """
        spelt = [self.unk_id]
        if self.has_bytes:  # then only END is odd
            spelt = [self._engine.piece_to_id(f'<0x{byte:02X}>') for byte in END.encode()]
        ids = []
        position = 0
        tail = len(self._engine.encode(_ABSENT))
        for odd in self._odd.finditer(word):
            if position < odd.start():
                # With an unknown character behind it, SentencePiece does not take this stretch for
                # the end of a word.
                ids.extend(self._engine.encode(word[position : odd.start()] + _ABSENT)[:-tail])
            ids.extend(spelt)
            position = odd.end()
        if position < len(word):
            ids.extend(self._engine.encode(word[position:]))
        # The published vocabulary has no token for the end of a word
        elif self._engine.piece_to_id(END) < self.vocab_size:
            ids.append(self._engine.piece_to_id(END))
        return ids

    def pieces(self) -> list[str]:
        """Each ordinary token as SentencePiece writes it.

        The end of a word is '▁', a byte is '<0x41>'.
        """
        return [self._engine.id_to_piece(row) for row in range(self.vocab_size)]

    def scores(self) -> list[float]:
        """The SentencePiece score of each ordinary token.

        Merges are applied in the order of descending scores.
        """
        return [self._engine.get_score(row) for row in range(self.vocab_size)]

    @functools.cached_property
    def has_bytes(self) -> bool:
        """Whether unknown characters become bytes.

        True for vocabularies trained here, False for the published vocabulary.
        """
        return self._engine.is_byte(self._engine.piece_to_id('<0x00>'))

    @functools.cached_property
    def texts(self) -> list[bytes]:
        """The text of each id in UTF-8, special tokens included."""
        texts = []
        for row, piece in enumerate(self.pieces()):
            if self._engine.is_byte(row):
                texts.append(bytes([int(piece[3:5], 16)]))
            else:
                texts.append(b'\n' if row == self.newline_id else piece.replace(END, ' ').encode())
        return texts + [f'{special} '.encode() for special in SPECIALS]
