"""A word trigram: the quickstart's baseline, which only counts.

The probability of the word w after the words h, with the counts c of the training text, D = 0.75:

    p(w | h) = (max(c(h w) - D, 0) + D n(h .) p(w | h without its first word)) / c(h .)

c(h .) counts the words that follow h, and n(h .) the different words. h begins as the last two
words and is shortened until it is empty. After that, p(w) = 1 / V. V counts the different words of
the text, and one more for all words that the text lacks. If the text lacks a history, c(h .) = 0,
the history is shortened at once. This is absolute discounting (Ney, Essen and Kneser, 1994): each
count gives D to the shorter history.
"""

import collections
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


class Counts(NamedTuple):
    """The counts of a text: of each tuple of one to three words, and for each history, a tuple of
    up to two words, how many words follow it, and how many different words."""

    grams: collections.Counter[tuple[str, ...]]
    followers: collections.Counter[tuple[str, ...]]
    different: collections.Counter[tuple[str, ...]]


def words(text: str) -> list[str]:
    """Returns the lower-case words of a text. Each punctuation mark is a word."""
    return WORD.findall(text.lower())


def count(texts: Iterable[str]) -> Counts:
    """Returns the Counts of all words of the texts, each after its histories."""
    grams: collections.Counter = collections.Counter()
    for text in texts:
        spoken = words(text)
        for length in range(HISTORY + 1):
            grams.update(zip(*(spoken[place:] for place in range(length + 1))))
    followers: collections.Counter = collections.Counter()
    for gram, n in grams.items():
        followers[gram[:-1]] += n
    return Counts(grams, followers, collections.Counter(gram[:-1] for gram in grams))


def probability(counts: Counts, word: str, before: Sequence[str]) -> float:
    """Returns p(word | the last words of `before`)."""
    p = 1 / (counts.different[()] + 1)
    for length in range(min(HISTORY, len(before)) + 1):
        history = tuple(before[len(before) - length :])
        if history not in counts.followers:
            break
        seen = max(counts.grams[*history, word] - DISCOUNT, 0)
        p = (seen + DISCOUNT * counts.different[history] * p) / counts.followers[history]
    return p


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
