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
# Characters that make up this share of the text have a token of their own; others are bytes
_COVERAGE = 0.9999
# Characters; longer words (dumps, URLs) are encoded, but the vocabulary is not trained on them
_LONGEST_WORD = 256
_BYTES = 256
# The paper's BPE joins whatever is frequent: no limit on a token's length, and none at scripts or
# digits.
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
    Characters that make up less than about a ten-thousandth of the text together are spelt as UTF-8
    bytes, as is any character not seen in training, so nothing is unknown. A corpus too small for
    that many merges gives as many as it has, and a notice on stderr. Equal counts give equal
    vocabularies. UserError for an empty corpus or sizes that are out of range.
    """
    counts = (
        words_or_texts
        if isinstance(words_or_texts, Mapping)
        else count_words(map(text_lib.Part, words_or_texts))
    )
    alphabet = _alphabet(counts)
    counts = {
        word: count
        for word, count in counts.items()
        if len(word) <= _LONGEST_WORD and alphabet.issuperset(word)
    }
    if not counts:
        raise UserError('no words to train a vocabulary on: the training documents are empty')
    size = vocabulary_size(merges, vocab_size, len(set().union(*counts)))

    import sentencepiece

    model = io.BytesIO()
    # The trainer breaks ties by their order
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f'{word}\t{count}' for word, count in by_count),
        model_writer=model,
        vocab_size=size,
        **_TRAINER,
    )
    trained = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()
    if trained < size:
        print(
            'notice: the corpus has only so many merges to learn that the vocabulary has '
            f'{trained} rows, not {size}',
            file=sys.stderr,
        )
    return Tokenizer(model.getvalue(), vocab_size=trained, newline_id=1)


def vocabulary_size(merges: int | None, vocab_size: int | None, characters: int = 1) -> int:
    """The size of a vocabulary; see `train`. characters: different ones in the text. UserError if
    it is out of range; with the default, if it is so whatever the text."""
    fixed = 2 + _BYTES + characters + 1  # tokens that are not merges
    if vocab_size is not None:
        if not fixed < vocab_size <= LARGEST_VOCABULARY:
            raise UserError(
                f'vocab_size is {vocab_size}, must be from {fixed + 1} (256 bytes, '
                f'{characters} '
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
    """How often each word occurs in parts of texts; line breaks are not counted."""
    counts: collections.Counter[str] = collections.Counter()
    for part in parts:
        for line in text_lib.lines(part.text, part.unescape_html):
            counts.update(line)
    return counts


def _alphabet(counts):
    """The characters that get a token: the most frequent ones, up to `_COVERAGE` of the text."""
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
