"""Baselines of the quickstart that see words and not their order. Scores: float[items, labels]."""
import collections
import math
import re
from collections.abc import Sequence

import numpy as np

from gpt1_jax.data.tasks.example import Example

WORD = re.compile(r'\w+')


def words(text: str) -> list[str]:
    """The lower-case words of a text, without punctuation."""
    return WORD.findall(text.lower())


def naive_bayes(train: Sequence[Example], items: Sequence[Example]) -> np.ndarray:
    """The label of a text: multinomial naive Bayes with add-one smoothing, labels being equally frequent."""
    counts = [collections.Counter() for _ in range(1 + max(item.label for item in train))]
    for item in train:
        counts[item.label].update(words(item.texts[0]))
    rows = len(set().union(*counts))
    return np.array([[sum(math.log((count[word] + 1) / (count.total() + rows)) for word in words(item.texts[0]))
                      for count in counts] for item in items])


def overlap(train: Sequence[Example], items: Sequence[Example]) -> np.ndarray:
    """Multiple choice: the cosine of the words of context and choice, weighted by their inverse document frequency."""
    texts = [set(words(text)) for item in train for text in (*item.texts, *item.choices)]
    counts = collections.Counter(word for text in texts for word in text)

    def norm(some):
        return math.sqrt(math.fsum(math.log(len(texts) / max(counts[word], 1)) ** 2 for word in some))

    def cosine(a, b):
        return norm(a & b) ** 2 / (norm(a) * norm(b))
    return np.array([[cosine(set(words(' '.join(item.texts))), set(words(choice))) for choice in item.choices]
                     for item in items])
