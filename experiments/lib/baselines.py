"""Baselines of a labelled set that need no fine-tuning, by scikit-learn (extra `baselines`).

Each takes the Task, the training and the evaluated Examples, and returns scores float[n, labels], or values [n, 1], as
a fine-tuned model does. None where it does not apply to the task.

    constant   the one answer that has the highest metric: all entailment, all paraphrases, the first ending
    overlap    how many words the texts share: Jaccard, containment, both again weighted by rarity, and the lengths
    words      unigrams and bigrams, of each text of a pair or of each choice; for several texts beside `overlap`
    probe      mean hidden states of a frozen model: u; of a pair u - v and u * v; of a choice all three

The last three are a linear model: logistic regression, or ridge regression where the label is a number. Of the
strengths of regularisation, and of the probe's layers, the best on a held-out fifth of the training rows is taken.
"""
import collections
import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import MaxAbsScaler

from gpt1_jax import metrics
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tokens import permutation
from gpt1_jax.evaluation import task_metrics

STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression, 1 / alpha of the ridge
LEAST_ROWS = 20  # with a fifth of which to choose the strength; below it is 1
WORD = re.compile(r'\w+')


def constant(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> np.ndarray | None:
    """The label whose prediction for every example has the highest metric on the training rows; None for numbers."""
    if task.score is not None:
        return None
    n = len(train[0].choices) or len(task.labels)
    value = [_metric(task, train, np.tile(np.eye(n)[label], (len(train), 1))) for label in range(n)]
    return np.tile(np.eye(n)[int(np.argmax(value))], (len(examples), 1))


def overlap(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> np.ndarray | None:
    """Shared words; None for single texts."""
    if len(pairs(train[0])[0]) < 2:
        return None
    weights = rarity(train)
    return fitted(task, train, examples, lambda rows: shared_words(_all_pairs(rows), weights))[0]


def words(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> np.ndarray:
    """Unigrams and bigrams, and for several texts the features of `overlap`."""
    several = len(pairs(train[0])[0]) > 1
    weights = rarity(train)
    last = CountVectorizer(ngram_range=(1, 2), token_pattern=r'(?u)\b\w+\b', binary=True)
    last.fit(texts[-1] for texts in _all_pairs(train))

    def features(rows):
        texts = _all_pairs(rows)
        counts = last.transform(pair[-1] for pair in texts)
        return scipy.sparse.hstack([counts, shared_words(texts, weights)]).tocsr() if several else counts
    return fitted(task, train, examples, features)[0]


def probe(task: Task, train: Sequence[Example], examples: Sequence[Example],
          states: Callable[[Sequence[str]], Mapping[int, np.ndarray]]) -> tuple[np.ndarray, int]:
    """(scores, layer). states: texts -> {layer: float[n, D]}, the mean hidden state of each text."""
    texts = list(dict.fromkeys(text for row in (*train, *examples) for pair in pairs(row) for text in pair))
    place = {text: i for i, text in enumerate(texts)}
    best = None
    for layer, found in states(texts).items():
        def features(rows, found=found):
            sides = [found[[place[pair[side]] for pair in _all_pairs(rows)]]
                     for side in range(len(pairs(rows[0])[0]))]
            if len(sides) == 1:
                return sides[0]
            u, v = sides
            return np.concatenate([np.abs(u - v) if task.head == 'similarity' else u - v, u * v], -1)
        scores, value = fitted(task, train, examples, features)
        if best is None or value > best[2]:
            best = scores, layer, value
    return best[:2]


def pairs(example: Example) -> list[tuple[str, ...]]:
    """The texts that one score is about: (text,), (a, b), or for each choice (context, choice)."""
    if example.choices:
        return [(' '.join(example.texts), choice) for choice in example.choices]
    return [example.texts]


def _all_pairs(rows):
    return [pair for row in rows for pair in pairs(row)]


def tokens(text: str) -> list[str]:
    """The lower-case words of a text."""
    return WORD.findall(text.lower())


def rarity(train: Sequence[Example]) -> collections.defaultdict[str, float]:
    """{word: logarithm of texts / texts with the word} in the training rows; of other words that of a single text."""
    texts = [set(tokens(text)) for pair in _all_pairs(train) for text in pair]
    counts = collections.Counter(word for text in texts for word in text)
    unknown = math.log(len(texts) + 1)
    return collections.defaultdict(lambda: unknown, {word: math.log((len(texts) + 1) / n)
                                                     for word, n in counts.items()})


def shared_words(texts: Sequence[tuple[str, ...]], weights: Mapping[str, float]) -> np.ndarray:
    """float[n, 8] of pairs of texts: Jaccard, the share of either one's words that the other has, the same three with
    weighted words, and the logarithms of both lengths."""
    rows = []
    for a, b in texts:
        a, b = set(tokens(a)), set(tokens(b))
        row = []
        for weight in (lambda _: 1.0, weights.__getitem__):
            both, of_a, of_b = (math.fsum(map(weight, some)) for some in (a & b, a, b))
            row += [both / max(of_a + of_b - both, 1e-9), both / max(of_a, 1e-9), both / max(of_b, 1e-9)]
        rows.append([*row, math.log1p(len(a)), math.log1p(len(b))])
    return np.array(rows)


def fitted(task: Task, train: Sequence[Example], examples: Sequence[Example],
           features: Callable) -> tuple[np.ndarray, float]:
    """(scores, metric on the held-out fifth) of a linear model. features: rows -> matrix, a row for each of their
    `pairs`."""
    order = permutation(0, 0, len(train))
    held_out, rest = ([train[i] for i in part] for part in np.split(order, [len(train) // 5]))
    scale = MaxAbsScaler()
    matrices = {name: scale.fit_transform(features(rest)) if name == 'rest' else scale.transform(features(rows))
                for name, rows in (('rest', rest), ('held_out', held_out), ('train', train), ('examples', examples))}
    values = {}
    for strength in STRENGTHS if len(train) >= LEAST_ROWS else (1.0,):
        scores = _scores(task, rest, matrices['rest'], held_out, matrices['held_out'], strength)
        value = _metric(task, held_out, scores) if held_out else 0.0
        values[strength] = -1.0 if math.isnan(value) else value
    strength = max(values, key=values.get)
    return _scores(task, train, matrices['train'], examples, matrices['examples'], strength), values[strength]


def _metric(task, rows, scores):
    """The task's first metric."""
    return task_metrics.compute(task, [row.label for row in rows], scores)[task.metrics[0]]


def _scores(task, train, matrix, examples, wanted, strength):
    """Fit on the training rows' matrix and score the examples, whose matrix is `wanted`."""
    if task.score is not None:
        return Ridge(alpha=1 / strength).fit(matrix, [row.label for row in train]).predict(wanted)[:, None]
    if task.head == 'choice':
        right = [i == row.label for row in train for i in range(len(row.choices))]
        flat = LogisticRegression(C=strength, max_iter=1000).fit(matrix, right).decision_function(wanted)
        parts = np.split(flat, np.cumsum([len(row.choices) for row in examples])[:-1])
        scores = np.full((len(parts), max(map(len, parts))), metrics.ABSENT)
        for row, part in zip(scores, parts):
            row[:len(part)] = part
        return scores
    scores = np.full((len(examples), len(task.labels)), metrics.ABSENT)
    labels = sorted({row.label for row in train})
    scores[:, labels] = 0.0
    if len(labels) > 1:
        model = LogisticRegression(C=strength, max_iter=1000).fit(matrix, [row.label for row in train])
        scores[:, labels] = np.log(np.maximum(model.predict_proba(wanted), np.finfo(float).tiny))
    return scores
