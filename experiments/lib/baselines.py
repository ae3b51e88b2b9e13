"""Baselines of a labelled set that need no fine-tuning, by scikit-learn (extra `baselines`).

Each takes the Task, the training Examples and the evaluated Examples. It returns scores float[n,
labels], or values [n, 1], as a fine-tuned model does, or None if it does not apply to the task.

    constant   the answer that has the highest metric if it is always given: all entailment, all
               paraphrases, the first ending
    overlap    the words that the texts share: Jaccard, containment, both again weighted by rarity,
               and the lengths
    words      unigrams and bigrams. For a pair: of each text apart, or only of the second text. For
               choices: of each choice. For several texts, also the features of `overlap`
    probe      mean hidden states of a frozen model: u. For a pair: u - v (|u - v| for similarity)
               and u * v
    joined     only for pairs: the mean hidden state over the second text, read after the first as
               in fine-tuning. For similarity, the sum over both orders
    likelihood the frozen model's log-probability of a text, in sum and per token, and its length.
               For a pair: of each text by itself, and after the other text

All but the first are a linear model: logistic regression, or ridge regression if the label is a
number. A held-out fifth of the training rows chooses the strength of regularisation, the probe's
layer, and the n-grams of one text or both.
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
from gpt1_jax.data.windows import permutation
from gpt1_jax.evaluation import task_metrics

STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # C of the logistic regression, 1 / alpha of the ridge
WORD = re.compile(r'\w+')


def constant(
    task: Task, train: Sequence[Example], examples: Sequence[Example]
) -> np.ndarray | None:
    """Predicts the same label for every example, the best by the metric on the training rows. None
    for numbers."""
    if task.score is not None:
        return None
    n = len(train[0].choices) or len(task.labels)
    value = [_metric(task, train, np.tile(np.eye(n)[label], (len(train), 1))) for label in range(n)]
    return np.tile(np.eye(n)[int(np.argmax(value))], (len(examples), 1))


def overlap(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> np.ndarray | None:
    """Scores by shared words. None for single texts."""
    if len(pairs(train[0])[0]) < 2:
        return None
    weights = rarity(train)
    return fitted(task, train, examples, lambda rows: shared_words(_all_pairs(rows), weights))[0]


def words(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> np.ndarray:
    """Scores by unigrams and bigrams, and for several texts also by the features of `overlap`."""
    several = len(pairs(train[0])[0]) > 1
    weights = rarity(train)
    found = []
    # All choices have the same context, so its words do not distinguish the right choice.
    for sides in ((-1,), (0, 1)) if several and not train[0].choices else ((-1,),):
        counters = [
            CountVectorizer(ngram_range=(1, 2), token_pattern=r'(?u)\b\w+\b', binary=True).fit(
                pair[side] for pair in _all_pairs(train)
            )
            for side in sides
        ]

        def features(rows, sides=sides, counters=counters):
            texts = _all_pairs(rows)
            parts = [
                counter.transform(pair[side] for pair in texts)
                for side, counter in zip(sides, counters)
            ]
            return scipy.sparse.hstack(
                [*parts, shared_words(texts, weights)] if several else parts
            ).tocsr()

        found.append(fitted(task, train, examples, features))
    return max(found, key=lambda pair: pair[1])[0]


def probe(
    task: Task,
    train: Sequence[Example],
    examples: Sequence[Example],
    states: Callable[[Sequence[tuple[str, ...]]], Mapping[int, np.ndarray]],
    joined: bool = False,
) -> tuple[np.ndarray | None, int]:
    """Returns (scores, layer) of a linear model of hidden states.

    joined: with the states of `joined`, or (None, 0) for single texts. states: sequences of texts,
    each text read after the texts before it -> {layer: float[n, D]}, the mean hidden state over the
    last text of each sequence.
    """
    several = len(pairs(train[0])[0]) > 1
    both_orders = task.head == 'similarity'
    if joined and not several:
        return None, 0

    def read(pair):
        if joined:
            return [pair, pair[::-1]] if both_orders else [pair]
        return [(text,) for text in pair]

    sequences, places = _distinct(train, examples, read)
    best = None
    for layer, found in states(sequences).items():

        def features(rows, found=found):
            sides = found[places(rows)]
            if joined or not several:
                return sides.sum(axis=1)
            u, v = np.moveaxis(sides, 1, 0)
            return np.concatenate([np.abs(u - v) if both_orders else u - v, u * v], -1)

        scores, value = fitted(task, train, examples, features)
        if best is None or value > best[2]:
            best = scores, layer, value
    return best[:2]


def likelihood(
    task: Task,
    train: Sequence[Example],
    examples: Sequence[Example],
    log_probs: Callable[[Sequence[tuple[str, ...]]], np.ndarray],
) -> np.ndarray:
    """Scores by log-probabilities of texts.

    log_probs: sequences of texts -> float[n, 2], for the last text of each sequence: its
    log-probability given the texts before it, and its number of tokens.
    """

    def read(pair):
        return [*((text,) for text in pair), *([pair[::-1], pair] if len(pair) > 1 else [])]

    sequences, places = _distinct(train, examples, read)
    found = log_probs(sequences)

    def features(rows):
        sums, n = np.moveaxis(found[places(rows)], -1, 0)
        n = np.maximum(n, 1)
        lengths = n[:, : len(pairs(rows[0])[0])]
        return np.concatenate([sums, sums / n, np.log(lengths)], -1)

    return fitted(task, train, examples, features)[0]


def _distinct(train, examples, read):
    """Returns (the distinct sequences that `read` lists for all pairs, a function for their places:
    rows -> int[pairs, listed])."""
    place = {}
    for pair in _all_pairs([*train, *examples]):
        for each in read(pair):
            place.setdefault(each, len(place))
    return list(place), lambda rows: np.array(
        [[place[each] for each in read(pair)] for pair in _all_pairs(rows)]
    )


def pairs(example: Example) -> list[tuple[str, ...]]:
    """Returns the texts of each score: (text,), (a, b), or for each choice (context, choice)."""
    if example.choices:
        return [(' '.join(example.texts), choice) for choice in example.choices]
    return [example.texts]


def _all_pairs(rows):
    return [pair for row in rows for pair in pairs(row)]


def tokens(text: str) -> list[str]:
    """Returns the lower-case words of a text."""
    return WORD.findall(text.lower())


def rarity(train: Sequence[Example]) -> collections.defaultdict[str, float]:
    """Returns {word: logarithm of texts / texts with the word} in the training rows. Other words
    count as if a single text had them."""
    texts = [set(tokens(text)) for pair in _all_pairs(train) for text in pair]
    counts = collections.Counter(word for text in texts for word in text)
    unknown = math.log(len(texts) + 1)
    return collections.defaultdict(
        lambda: unknown, {word: math.log((len(texts) + 1) / n) for word, n in counts.items()}
    )


def shared_words(texts: Sequence[tuple[str, ...]], weights: Mapping[str, float]) -> np.ndarray:
    """Returns float[n, 8] of pairs of texts: Jaccard, the share of each text's words that the other
    has, the same three with weighted words, and the logarithms of both lengths."""
    rows = []
    for a, b in texts:
        a = set(tokens(a))
        b = set(tokens(b))
        row = []
        for weight in (lambda _: 1.0, weights.__getitem__):
            both, of_a, of_b = (math.fsum(map(weight, some)) for some in (a & b, a, b))
            row += [
                both / max(of_a + of_b - both, 1e-9),
                both / max(of_a, 1e-9),
                both / max(of_b, 1e-9),
            ]
        rows.append([*row, math.log1p(len(a)), math.log1p(len(b))])
    return np.array(rows)


def fitted(
    task: Task, train: Sequence[Example], examples: Sequence[Example], features: Callable
) -> tuple[np.ndarray, float]:
    """Returns (scores, metric on the held-out fifth) of a linear model. features: rows -> matrix,
    with a row for each of their `pairs`."""
    order = permutation(0, 0, len(train))
    held_out, rest = ([train[i] for i in part] for part in np.split(order, [len(train) // 5]))
    scale = MaxAbsScaler()
    of_rest = scale.fit_transform(features(rest))
    of_held_out, of_train, of_examples = (
        scale.transform(features(rows)) for rows in (held_out, train, examples)
    )
    values = {}
    for strength in STRENGTHS:
        scores = _scores(task, rest, of_rest, held_out, of_held_out, strength)
        value = _metric(task, held_out, scores)
        values[strength] = -1.0 if math.isnan(value) else value
    best = max(values, key=values.get)
    return _scores(task, train, of_train, examples, of_examples, best), values[best]


def _metric(task, rows, scores):
    """Returns the task's first metric."""
    return task_metrics.compute(task, [row.label for row in rows], scores)[task.metrics[0]]


def _scores(task, train, matrix, examples, wanted, strength):
    """Fits on the training rows' matrix, and scores the examples, whose matrix is `wanted`."""
    if task.score is not None:
        return (
            Ridge(alpha=1 / strength)
            .fit(matrix, [row.label for row in train])
            .predict(wanted)[:, None]
        )
    if task.head == 'choice':
        right = [i == row.label for row in train for i in range(len(row.choices))]
        model = LogisticRegression(C=strength, max_iter=1000).fit(matrix, right)
        return model.decision_function(wanted).reshape(len(examples), -1)
    scores = np.full((len(examples), len(task.labels)), metrics.ABSENT)
    labels = sorted({row.label for row in train})
    scores[:, labels] = 0.0
    if len(labels) > 1:
        model = LogisticRegression(C=strength, max_iter=1000).fit(
            matrix, [row.label for row in train]
        )
        scores[:, labels] = np.log(np.maximum(model.predict_proba(wanted), np.finfo(float).tiny))
    return scores
