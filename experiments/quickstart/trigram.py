"""A word trigram: the quickstart's baseline, which only counts.

The probability of the word w after the words h, with the counts c of the training text, D = 0.75:

    p(w | h) = (max(c(h w) - D, 0) + D n(h .) p(w | h without its first word)) / c(h .)

c(h .) counts the words that follow h, and n(h .) the different words. h begins as the last two
words and is shortened until it is empty. After that, p(w) = 1 / V. V counts the different words of
the text, and one more for all words that the text lacks. If the text lacks a history, c(h .) = 0,
the history is shortened at once. This is absolute discounting (Ney, Essen and Kneser, 1994): each
count gives D to the shorter history.

The counts are sorted arrays, so that 300 MB of text fit into 2 GB of memory.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.pronouns import PRONOUNS

HISTORY = 2  # words
DISCOUNT = 0.75  # the customary value: 0.5 and 0.9 change no task's accuracy by a point
WORD = re.compile(r'\w+|[^\w\s]')


class Grams(NamedTuple):
    """The different sequences of n words of a text.

    keys:   int64[k], sorted. A sequence of word numbers a, b, c is (a base + b) base + c.
    before: int64[k + 1], how many sequences of the text, repeated ones too, lie before each key.
    """

    keys: np.ndarray
    before: np.ndarray


class Counts(NamedTuple):
    """The counts of a text. ids: {word: its number, from 1}. grams: of 1, 2 and 3 words."""

    ids: dict[str, int]
    grams: list[Grams]

    @property
    def base(self) -> int:
        return len(self.ids) + 1


def words(text: str) -> list[str]:
    """Returns the lower-case words of a text. Each punctuation mark is a word."""
    return WORD.findall(text.lower())


def count(texts: Iterable[str]) -> Counts:
    """Returns the Counts of all words of the texts, each after its histories."""
    ids: dict[str, int] = {}
    numbers = []
    for text in texts:
        spoken = words(text)
        found = (ids.setdefault(word, len(ids) + 1) for word in spoken)
        numbers.append(np.fromiter(found, np.int32, len(spoken)))
    base = len(ids) + 1
    return Counts(ids, [_grams(numbers, length, base) for length in range(1, HISTORY + 2)])


def _grams(numbers, length, base):
    """Returns the Grams of `length` words, each inside one text."""
    sizes = [max(0, len(text) - length + 1) for text in numbers]
    keys = np.zeros(sum(sizes), np.int64)
    ends = np.cumsum(sizes)
    for text, size, end in zip(numbers, sizes, ends):
        of_text = keys[end - size : end]
        for place in range(length):
            of_text *= base
            of_text += text[place : place + size]
    keys.sort()
    is_new = np.ones(len(keys), bool)
    is_new[1:] = keys[1:] != keys[:-1]
    before = np.append(np.flatnonzero(is_new), len(keys))
    return Grams(keys[is_new], before)


def probability(counts: Counts, word: str, before: Sequence[str]) -> float:
    """Returns p(word | the last words of `before`)."""
    p = 1 / counts.base
    number = counts.ids.get(word, 0)  # 0 is no word's number
    for length in range(min(HISTORY, len(before)) + 1):
        history = 0
        for earlier in before[len(before) - length :]:
            history = history * counts.base + counts.ids.get(earlier, 0)
        keys, places = counts.grams[length]
        low, key, high = np.array([0, number, counts.base]) + history * counts.base
        first, found, last = np.searchsorted(keys, (low, key, high))
        total = places[last] - places[first]
        if total == 0:
            break
        seen = 0
        if number and found < last and keys[found] == key:
            seen = places[found + 1] - places[found]
        p = (max(seen - DISCOUNT, 0) + DISCOUNT * (last - first) * p) / total
    return float(p)


def scores(counts: Counts, items: Sequence[Example]) -> np.ndarray:
    """Returns the mean log-probability of each ending's words after the context, float[items,
    endings].

    The endings of `pronoun` are its two words. The model's zero-shot heuristic also compares means.
    """
    found = []
    for item in items:
        context = words(' '.join(item.texts))
        found.append([_mean(counts, context, words(ending)) for ending in item.choices or PRONOUNS])
    return np.array(found)


def _mean(counts, context, ending):
    found = []
    for place, word in enumerate(ending):
        found.append(math.log(probability(counts, word, context + ending[:place])))
    # fsum is exact: two orders of the same values are a tie. Otherwise rounding would decide it.
    return math.fsum(found) / len(ending)
