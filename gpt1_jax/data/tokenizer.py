"""Section 4.1: "a bytepair encoding (BPE) vocabulary with 40,000 merges", trained by us or as published.

SentencePiece is the one engine. It is given the words of `text.py` joined by spaces and marks a word's end with a
trailing '▁', where the released vocabulary writes '</w>'. A line break is one token, `newline_id`, which SentencePiece
never sees. Rows of the two vocabularies:

    published  0 <unk>; 238 characters; the same ending a word; 40,000 merges; 40477 the line break
    our own    0 <unk>; 1 the line break; 256 bytes; merges; characters and the bare end of a word

Start, delimiter and extract (Section 3.3) are no rows of either: they are numbered right after the last row.
"""
import collections
import dataclasses
import functools
import hashlib
import importlib.util
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping

from gpt1_jax import storage
from gpt1_jax.data import known as known_lib
from gpt1_jax.data import text as text_lib
from gpt1_jax.errors import UserError, about, shown

MERGES = 40_000
LARGEST_VOCABULARY = 65_535  # shards hold uint16
SPECIALS = ('<start>', '<delimiter>', '<extract>')

FORMAT = 1
MODEL_FILE, SETTINGS_FILE = 'tokenizer.model', 'tokenizer.json'
END = '▁'  # SentencePiece's space, here the end of a word
LINE_BREAK = '\n' + END
_ABSENT = '\uffff'  # a noncharacter: in no piece of any vocabulary, see Tokenizer._odd_word
# Share of the text that the characters with a row of their own make up; rarer ones are spelt in bytes.
_COVERAGE = 0.9999
_LONGEST_WORD = 256  # characters; longer ones (dumps, addresses) are encoded but teach the vocabulary nothing
_BYTES = 256
# Never given to the trainer, which gives them a meaning of its own (space, unknown, end of text).
RESERVED = {END, '▅', '\0', _ABSENT, ' ', '\t', '\n'}


def train(words_or_texts: Mapping[str, int] | Iterable[str], merges: int | None = None,
          vocab_size: int | None = None) -> 'Tokenizer':
    """Learns a vocabulary by SentencePiece's BPE from counts {word: count} (`count_words`) or from texts.

    merges:     merges to learn (default 40,000, the paper's); the vocabulary has 256 bytes, the characters, the bare
                end of a word, the line break and <unk> beside them.
    vocab_size: all rows instead.
    A character that makes up less than about a ten-thousandth of the text together with all rarer ones is spelt in
    UTF-8 bytes, as is any character never seen, so nothing is unknown.
    A corpus too small for that many merges gives as many as it has, with a notice on stderr. The same counts give the
    same vocabulary. UserError when there is nothing to learn from or the sizes cannot be.
    """
    counts = words_or_texts if isinstance(words_or_texts, Mapping) else count_words(words_or_texts)
    alphabet = _alphabet(counts)
    counts = {word: count for word, count in counts.items() if len(word) <= _LONGEST_WORD and alphabet.issuperset(word)}
    if not counts:
        raise UserError('no words to train a vocabulary on: the training documents are empty')
    alphabet = set().union(*counts)
    fixed = 2 + _BYTES + len(alphabet) + 1
    if merges is not None and vocab_size is not None:
        raise UserError(f'merges={merges} and vocab_size={vocab_size}: give one of the two')
    if vocab_size is None:
        merges = MERGES if merges is None else merges
        vocab_size = fixed + merges
        if not 1 <= merges or vocab_size > LARGEST_VOCABULARY:
            raise UserError(f'merges is {merges}, must be from 1 to {LARGEST_VOCABULARY - fixed} for this corpus')
    elif not fixed < vocab_size <= LARGEST_VOCABULARY:
        raise UserError(f'vocab_size is {vocab_size}, must be from {fixed + 1} (256 bytes, {len(alphabet)} characters, '
                        f'3 others and a merge) to {LARGEST_VOCABULARY}')
    import sentencepiece
    model = io.BytesIO()
    # Sorted, because the trainer breaks ties by what it read first.
    rows = (f'{word}\t{count}' for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=rows, model_writer=model, input_format='tsv', model_type='bpe', vocab_size=vocab_size,
        hard_vocab_limit=False, character_coverage=1.0, byte_fallback=True, normalization_rule_name='identity',
        add_dummy_prefix=True, remove_extra_whitespaces=False, treat_whitespace_as_suffix=True,
        # The paper's BPE joins whatever is frequent: no limits on a piece's length, scripts or digits.
        max_sentencepiece_length=_LONGEST_WORD, split_by_unicode_script=False, split_by_number=False,
        max_sentence_length=16 * _LONGEST_WORD, unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
        control_symbols=[LINE_BREAK], num_threads=1, minloglevel=2)
    rows = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()
    if rows < vocab_size:
        print(f'notice: the corpus has only {rows - fixed} merges to learn, not {vocab_size - fixed}: '
              f'the vocabulary has {rows} rows', file=sys.stderr)
    return Tokenizer(model.getvalue(), vocab_size=rows, newline_id=1)


def count_words(texts: Iterable[str]) -> collections.Counter:
    """How often each word stands in the texts (line breaks aside)."""
    counts = collections.Counter()
    for text in texts:
        for line in text_lib.lines(text):
            counts.update(line)
    return counts


def _alphabet(counts):
    """The characters that get a row: the most frequent ones, up to `_COVERAGE` of the text."""
    frequency = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    for character in RESERVED:
        del frequency[character]
    ranked = sorted(frequency.items(), key=lambda item: (-item[1], item[0]))
    before = itertools.accumulate((count for _, count in ranked), initial=0)
    covered = _COVERAGE * frequency.total()
    return {character for (character, _), seen in zip(ranked, before) if seen < covered}


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """Text to ids and back. Made by `train`, `published.from_published` or `Tokenizer.load`.

    vocab_size: ordinary rows, without the three specials; 40478 for the published vocabulary.
    newline_id: the token of a line break, which also ends a document.
    known: texts whose ids are looked up rather than computed.
    """
    model: bytes = dataclasses.field(repr=False)  # a serialized SentencePiece model
    vocab_size: int
    newline_id: int
    unk_id: int = 0
    known: known_lib.Known | None = dataclasses.field(default=None, repr=False, compare=False)

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
        """SHA-256, in hexadecimal digits, of the model and the settings: what makes two vocabularies the same."""
        settings = json.dumps([FORMAT, self.vocab_size, self.newline_id, self.unk_id]).encode()
        return hashlib.sha256(hashlib.sha256(self.model).digest() + settings).hexdigest()

    def encode(self, text: str, unescape_html: str | bool = 'auto') -> list[int]:
        """Text of any length -> ids, no specials. Blank text gives [].

        Published: 'Hello, world!' -> [3570, 240, 1276, 267]; a line break is `newline_id`. `unescape_html` is for parts
        of a longer text, see `text.parts`.
        """
        looked_up = self.known.get(text) if self.known is not None and unescape_html == 'auto' else None
        if looked_up is not None:
            return looked_up
        ids = []
        for words in text_lib.lines(text, unescape_html):
            if ids:
                ids.append(self.newline_id)
            joined = ' '.join(words)
            if self._odd.search(joined):
                for word in words:
                    ids.extend(self._odd_word(word) if self._odd.search(word) else self._engine.encode(word))
            else:
                ids.extend(self._engine.encode(joined))
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> lower-case text, words joined by single spaces ('hello , world !'), a line break for `newline_id`.

        Specials read <start>, <delimiter>, <extract>, an unknown character <unk> (which forgets whether it ended a
        word). UserError for an id that is none of these.
        """
        table = self.texts
        ids = [int(i) for i in ids]
        for i in ids:
            if not 0 <= i < len(table):
                raise UserError(f'id {i} is no token: this vocabulary has {self.vocab_size} and 3 specials')
        text = b''.join(table[i] for i in ids).decode('utf-8', errors='replace')
        return re.sub(' *\n', '\n', text).rstrip(' ')

    def piece(self, token: int) -> str:
        """What one token adds to a text: 'cat ' where it ends the word, 'ca' where it does not; a byte that is no whole
        character is U+FFFD."""
        return self.texts[token].decode('utf-8', errors='replace')

    def ends_word(self, token: int) -> bool:
        """Whether no later token changes what `decode` makes of the ids up to this one: it ends a word, or a line."""
        return self.texts[token].endswith((b' ', b'\n'))

    def save(self, directory: str | os.PathLike) -> None:
        """Writes tokenizer.model, what is known, and, last, tokenizer.json. Each appears complete or not at all."""
        directory = storage.path(directory)
        settings = {'format': FORMAT, 'vocab_size': self.vocab_size, 'newline_id': self.newline_id,
                    'unk_id': self.unk_id, 'fingerprint': self.fingerprint}
        settings = json.dumps(settings, indent=2).encode() + b'\n'
        with about(directory):
            storage.mkdir(directory)
            storage.write(directory / MODEL_FILE, self.model)
            if self.known is not None:
                self.known.save(directory)
            storage.write(directory / SETTINGS_FILE, settings)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> 'Tokenizer':
        """Reads what `save` wrote. UserError when a file is missing, broken, or not the other's."""
        directory = storage.path(directory)
        file = directory / SETTINGS_FILE
        try:
            model = storage.read(directory / MODEL_FILE)
            settings = json.loads(storage.read(file))
            if settings['format'] != FORMAT:
                raise UserError(f'{file}: format {settings["format"]}, this version reads {FORMAT}')
            found = cls(model, *(settings[name] for name in ('vocab_size', 'newline_id', 'unk_id')))
            fingerprint = settings['fingerprint']
        except OSError as error:
            raise UserError(f'{directory}: no tokenizer ({error.strerror}: {error.filename})') from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f'{file}: not a tokenizer\'s settings ({type(error).__name__}: {error})') from None
        ids = {'newline_id': found.newline_id, 'unk_id': found.unk_id}
        for name, value in {'vocab_size': found.vocab_size, **ids}.items():
            if type(value) is not int or not 0 <= value <= LARGEST_VOCABULARY:
                raise UserError(f'{file}: {name} is {shown(value)}, must be from 0 to {LARGEST_VOCABULARY}')
        if fingerprint != found.fingerprint:
            raise UserError(f'{directory / MODEL_FILE}: damaged, or not the model that {file} was written for')
        found = dataclasses.replace(found, known=known_lib.load(directory, fingerprint))
        if found.known is not None and importlib.util.find_spec('sentencepiece') is None:
            return found  # what is known can be read
        try:
            found.texts, found._odd  # every piece can be read
            rows = found._engine.vocab_size() - (not found.has_bytes)  # see published.py: a row that is no token
            if rows != found.vocab_size or max(ids.values()) >= rows:
                raise ValueError(f'it has {rows} rows; newline_id is {found.newline_id}, unk_id {found.unk_id}')
        except (RuntimeError, ValueError, IndexError) as error:  # what SentencePiece makes of a model that is none
            raise UserError(f'{directory / MODEL_FILE}: not the model of {file} ({error})') from None
        return found

    @functools.cached_property
    def _engine(self):
        import sentencepiece
        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    @functools.cached_property
    def _odd(self):
        """Finds a character that SentencePiece must not be given.

        Its own space always; and without byte rows any unknown character, of which it joins neighbours into one token
        (the released code has one for each) and leaves the end mark of a word's last one over.
        """
        if self.has_bytes:
            return re.compile(END)
        pieces = (self._engine.id_to_piece(i) for i in range(1, self.vocab_size))
        characters = {piece for piece in pieces if len(piece) == 1} - {END}
        return re.compile('[^ ' + re.escape(''.join(sorted(characters))) + ']')

    def _odd_word(self, word):
        """A word with characters SentencePiece must not be given: no merge reaches across them.

        Each is spelt in bytes where there are rows for them, and else is `unk_id`.
        """
        spelt = [self.unk_id]
        if self.has_bytes:  # then only END is odd
            spelt = [self._engine.piece_to_id(f'<0x{byte:02X}>') for byte in END.encode()]
        ids, position = [], 0
        tail = len(self._engine.encode(_ABSENT))
        for odd in self._odd.finditer(word):
            if position < odd.start():
                # An unknown character after it keeps the stretch from being taken for the end of a word.
                ids.extend(self._engine.encode(word[position:odd.start()] + _ABSENT)[:-tail])
            ids.extend(spelt)
            position = odd.end()
        if position < len(word):
            ids.extend(self._engine.encode(word[position:]))
        elif self._bare_end is not None:
            ids.append(self._bare_end)
        return ids

    def pieces(self) -> list[str]:
        """What each row stands for as SentencePiece writes it: the end of a word '▁', a byte '<0x41>'."""
        return [self._engine.id_to_piece(row) for row in range(self.vocab_size)]

    def scores(self) -> list[float]:
        """Of each row: of two merges, that with the higher score comes first."""
        return [self._engine.get_score(row) for row in range(self.vocab_size)]

    @functools.cached_property
    def has_bytes(self) -> bool:
        """Whether unknown characters are spelt in bytes: in a vocabulary trained here, not in the published one."""
        return self._engine.is_byte(self._engine.piece_to_id('<0x00>'))

    @functools.cached_property
    def _bare_end(self):
        """Row of a word's end by itself; the published vocabulary has none."""
        row = self._engine.piece_to_id(END)
        return row if row < self.vocab_size else None

    @functools.cached_property
    def texts(self):
        """What each id, specials included, puts into a decoded text, as UTF-8."""
        if self.known is not None:
            return self.known.texts
        texts = []
        for row in range(self.vocab_size):
            piece = self._engine.id_to_piece(row)
            if self._engine.is_byte(row):
                texts.append(bytes([int(piece[3:5], 16)]))
            else:
                texts.append(b'\n' if row == self.newline_id else piece.replace(END, ' ').encode())
        return texts + [f'{special} '.encode() for special in SPECIALS]
