"""What a derived task gives away without a model: the majority class and the words that its texts share.

Each returns scores float[n, labels] for the examples, as a model's predictions are: the higher one is the answer.
"""
import collections
import math
from collections.abc import Iterable, Sequence

import numpy as np

from gpt1_jax.data.overlap import words
from gpt1_jax.data.tasks.example import Example


def majority(train: Sequence[Example], examples: Sequence[Example], n_labels: int = 2) -> np.ndarray:
    """The share of each label in the training examples, the same for every example."""
    counts = np.bincount([example.label for example in train], minlength=n_labels)
    return np.tile(counts / counts.sum(), (len(examples), 1))


def rarity(train: Iterable[Example]) -> dict[str, float]:
    """{word: log(number of training texts / number that hold the word)}; '' stands for a word that none holds."""
    texts = [set(words(text)) for example in train for text in (*example.texts, *example.choices)]
    counts = collections.Counter(word for text in texts for word in text)
    return {'': math.log(len(texts)), **{word: math.log(len(texts) / count) for word, count in counts.items()}}


def shared(a: str, b: str, weights: dict[str, float]) -> float:
    """Weighted share of the words of two texts that both have, from 0 to 1: the cosine of their word sets."""
    first, second = set(words(a)), set(words(b))

    def size(some):
        return sum(weights.get(word, weights['']) ** 2 for word in some)

    whole = math.sqrt(size(first) * size(second))
    return size(first & second) / whole if whole else 0.0


def word_overlap_choice(train: Sequence[Example], examples: Sequence[Example]) -> np.ndarray:
    """Multiple choice: each choice's score is the words it shares with the context, rare words counting more."""
    weights = rarity(train)
    return np.array([[shared(' '.join(example.texts), choice, weights) for choice in example.choices]
                     for example in examples])


def word_overlap_class(train: Sequence[Example], examples: Sequence[Example], n_labels: int) -> np.ndarray:
    """Classification: the label whose training texts hold more of the text's words, rare words counting more."""
    weights = rarity(train)
    share = [collections.Counter() for _ in range(n_labels)]
    sizes = np.bincount([example.label for example in train], minlength=n_labels)
    for example in train:
        share[example.label].update(set(words(example.texts[0])))

    def score(text, label):
        return sum(weights.get(word, 0.0) * share[label][word] / max(sum(s[word] for s in share), 1) for word in text)

    return np.array([[score(set(words(example.texts[0])), label) * sizes.sum() / max(sizes[label], 1)
                      for label in range(n_labels)] for example in examples])
