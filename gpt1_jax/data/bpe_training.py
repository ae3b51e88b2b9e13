"""Section 4.1: learns a BPE vocabulary from the training documents, with SentencePiece."""

import collections
import io
import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gpt1_jax.data import text as text_lib
from gpt1_jax.data.tokenizer import LARGEST_VOCABULARY, LINE_BREAK, RESERVED, Tokenizer
from gpt1_jax.errors import UserError

MERGES = 40_000
# The most frequent characters, which make up this share of the text, get a token; others are bytes
_COVERAGE = 0.9999
# Characters. Longer words (dumps, URLs) are encoded, but the vocabulary is not trained on them
_LONGEST_WORD = 256
_BYTES = 256
# The paper's BPE joins whatever is frequent. It has no limit on a token's length, and does not stop
# at scripts or digits.
_TRAINER: dict[str, Any] = {
    'input_format': 'tsv',
    'model_type': 'bpe',
    'hard_vocab_limit': False,
    'character_coverage': 1.0,
    'byte_fallback': True,
    'normalization_rule_name': 'identity',
    'add_dummy_prefix': True,
    'remove_extra_whitespaces': False,
    'treat_whitespace_as_suffix': True,
    'max_sentencepiece_length': _LONGEST_WORD,
    'split_by_unicode_script': False,
    'split_by_number': False,
    'max_sentence_length': 16 * _LONGEST_WORD,
    'unk_id': 0,
    'bos_id': -1,
    'eos_id': -1,
    'pad_id': -1,
    'control_symbols': [LINE_BREAK],
    'num_threads': 1,
    'minloglevel': 2,
}


def train(
    words_or_texts: Mapping[str, int] | Iterable[str],
    merges: int | None = None,
    vocab_size: int | None = None,
) -> 'Tokenizer':
    """Learns a BPE vocabulary with SentencePiece from word counts (`count_words`) or from texts.

    merges:     merges to learn (default 40,000, the paper's). The vocabulary also has 256 bytes,
                the characters, the end of a word, the line break and <unk>.
    vocab_size: the number of all of these, instead of merges.
    The rarest characters, which together make up less than about a ten-thousandth of the text, are
    spelt as UTF-8 bytes. So is any character not seen in training, so nothing is unknown. If the
    other characters do not all fit, only the most frequent get a token, in at most half of
    vocab_size, and a notice says so. If the corpus has fewer merges than asked for, all are
    learned, with a notice on stderr. Equal counts give equal vocabularies. UserError for an empty
    corpus or sizes that are out of range.
    """
    room = _most_characters(merges, vocab_size)
    counts = (
        words_or_texts
        if isinstance(words_or_texts, Mapping)
        else count_words(map(text_lib.Part, words_or_texts))
    )
    ranked = _alphabet(counts)
    if len(ranked) > room:
        tokenizer, size = _of_frequent_characters(counts, ranked, merges, vocab_size, room)
    else:
        tokenizer, size = _learned(counts, ranked, merges, vocab_size)
    if tokenizer.vocab_size < size:
        print(
            'notice: the corpus has only so many merges to learn that the vocabulary has '
            f'{tokenizer.vocab_size} rows, not {size}',
            file=sys.stderr,
        )
    return tokenizer


def _learned(counts, characters, merges, vocab_size, **options):
    """(a Tokenizer learned from the words of these characters only, the size that was asked for).

    options: further options of the trainer. required_chars get a token even if no word has them.
    """
    alphabet = set(characters)
    counts = {
        word: count
        for word, count in counts.items()
        if len(word) <= _LONGEST_WORD and alphabet.issuperset(word)
    }
    if not counts:
        raise UserError('no words to train a vocabulary on: the training documents are empty')
    size = vocabulary_size(
        merges, vocab_size, len(set(options.get('required_chars', '')).union(*counts))
    )

    import sentencepiece

    model = io.BytesIO()
    # The trainer breaks ties by the order of the words
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f'{word}\t{count}' for word, count in by_count),
        model_writer=model,
        vocab_size=size,
        **_TRAINER,
        **options,
    )
    trained = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()
    return Tokenizer(model.getvalue(), vocab_size=trained, newline_id=1), size


def _of_frequent_characters(counts, ranked, merges, vocab_size, room):
    """As `_learned`, but only the most frequent characters get a token, `room` at most.

    They get at most half of vocab_size, or more if the text has too few merges to fill the rest.
    """
    n = room if vocab_size is None else max(1, room // 2)
    size = n + 1
    tokenizer = None
    while tokenizer is None or tokenizer.vocab_size < size and n < room:
        if tokenizer is not None:
            n = min(room, n + size - tokenizer.vocab_size)
        frequent = ''.join(ranked[:n])
        endings = _endings(counts, set(frequent)) or {frequent[0]: 1}
        tokenizer, size = _learned(endings, frequent, merges, vocab_size, required_chars=frequent)
    print(
        f'notice: of {len(ranked):,} characters only the {n:,} most frequent have a token each, '
        'the others are spelt as bytes: a larger vocabulary has room for more',
        file=sys.stderr,
    )
    return tokenizer, size


def _most_characters(merges, vocab_size):
    """The most characters that leave room for the merges, or for one merge in vocab_size rows.

    UserError as in `vocabulary_size`.
    """
    least = vocabulary_size(merges, vocab_size)  # with one character
    if vocab_size is None:
        return LARGEST_VOCABULARY - least + 1
    return vocab_size - vocabulary_size(1, None) + 1


def _endings(counts, alphabet):
    """Counts the end of each word after its last character that is not in the alphabet.

    BPE merges no bytes, so it sees only this end of a word.
    """
    endings = collections.Counter()
    for word, count in counts.items():
        start = max((i + 1 for i, char in enumerate(word) if char not in alphabet), default=0)
        if word[start:]:
            endings[word[start:]] += count
    return endings


def vocabulary_size(merges: int | None, vocab_size: int | None, characters: int = 1) -> int:
    """The size of a vocabulary, see `train`. UserError if the size is out of range.

    characters: the number of different characters in the text. The default, 1, finds sizes that are
    out of range for any text.
    """
    fixed = 2 + _BYTES + characters + 1  # tokens that are not merges
    if vocab_size is not None:
        if not fixed < vocab_size <= LARGEST_VOCABULARY:
            raise UserError(
                f'vocab_size is {vocab_size}, must be from {fixed + 1} (256 bytes, {characters} '
                f'characters, 3 others and a merge) to {LARGEST_VOCABULARY}'
            )
        return vocab_size
    merges = MERGES if merges is None else merges
    if not 1 <= merges <= LARGEST_VOCABULARY - fixed:
        raise UserError(
            f'merges is {merges}, must be from 1 to {LARGEST_VOCABULARY - fixed} for this corpus'
        )
    return fixed + merges


def count_words(parts: Iterable[text_lib.Part]) -> collections.Counter[str]:
    """Counts how often each word occurs in parts of texts. Line breaks are not counted."""
    counts: collections.Counter[str] = collections.Counter()
    for part in parts:
        for line in text_lib.lines(part.text, part.unescape_html):
            counts.update(line)
    return counts


def _alphabet(counts):
    """The characters that get a token, up to `_COVERAGE` of the text, most frequent first."""
    frequency = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    for character in RESERVED:
        del frequency[character]
    ranked = sorted(frequency.items(), key=lambda item: (-item[1], item[0]))
    before = itertools.accumulate((count for _, count in ranked), initial=0)
    covered = _COVERAGE * frequency.total()
    return [character for (character, _), seen in zip(ranked, before) if seen < covered]
