"""Section 4, Tables 2 to 4: the paper's metrics, as fractions, with bootstrap intervals.

`python -m gpt1_jax.metrics FILE` computes those of a predictions file.
Degenerate inputs: no items, or a correlation with a constant, gives nan. F1 without positives in gold and predictions,
and Matthews with an empty row or column, give 0, as in scikit-learn.
"""
import functools
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpt1_jax import storage
from gpt1_jax.errors import UserError, about, shown
from gpt1_jax.metrics.bootstrap import Final, percentiles, resampled

ABSENT = -1e9  # the score of a choice that a row does not have


def accuracy(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Share of correct predictions among int[n] labels."""
    gold, predicted = same_length(gold, predicted)
    return float(np.mean(gold == predicted)) if len(gold) else math.nan


def f1(gold: ArrayLike, predicted: ArrayLike, positive: int | None = None) -> float:
    """Harmonic mean of precision and recall for one label, from int[n] labels.

    positive: the label that counts, against all others; None: label 1 of 0 and 1.
    """
    gold, predicted = same_length(gold, predicted)
    if positive is not None:
        gold, predicted = (gold == positive).astype(int), (predicted == positive).astype(int)
    return float(f1_of(counts(gold, predicted).sum(0)))


def matthews(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Matthews correlation of int[n] labels 0 and 1: from -1 to 1, about 0 for guesses."""
    return float(matthews_of(counts(gold, predicted).sum(0)))


def pearson(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Linear correlation of float[n] values."""
    gold, predicted = same_length(gold, predicted)
    return float(pearson_of(moments(gold, predicted).sum(0)))


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Linear correlation of the ranks of float[n] values; ties share their mean rank."""
    return pearson(ranks(gold), ranks(predicted))


LABEL_METRICS = {'accuracy': accuracy, 'f1': f1, 'matthews': matthews}
VALUE_METRICS = {'pearson': pearson, 'spearman': spearman}


def decisions(name: str, scores: ArrayLike) -> np.ndarray:
    """What a metric compares with gold: int[n], the argmax of float[n, labels], for label metrics; else float[n].
    ValueError for an unknown metric or scores of another shape."""
    scores = np.asarray(scores, np.float64)
    if name in LABEL_METRICS:
        if scores.ndim != 2 or scores.shape[1] < 2:
            raise ValueError(f'{name} takes scores[n, labels] of two labels or more, got shape {scores.shape}')
        return scores.argmax(-1)
    if name not in VALUE_METRICS:
        raise ValueError(f'unknown metric {name!r} (there are {", ".join([*LABEL_METRICS, *VALUE_METRICS])})')
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim != 1:
        raise ValueError(f'{name} takes scores[n] or scores[n, 1], got shape {scores.shape}')
    return scores


def compute(names: Sequence[str], gold: ArrayLike, scores: ArrayLike, positive: int | None = None) -> dict[str, float]:
    """{metric name: fraction}.

    gold, scores: for label metrics int[n] and float[n, labels]; for value metrics float[n] and float[n] or [n, 1].
    positive: the label that F1 counts; None: label 1 of two. ValueError for an unknown name, shapes that do not fit,
    or scores that are not finite.
    """
    if not np.all(np.isfinite(np.asarray(scores, np.float64))):
        raise ValueError('scores are not finite')
    known = {**LABEL_METRICS, **VALUE_METRICS, 'f1': functools.partial(f1, positive=positive)}
    predicted = {name: decisions(name, scores) for name in names}  # ValueError for an unknown name
    return {name: known[name](gold, predicted[name]) for name in names}


def bootstrap_interval(metric: str, gold: ArrayLike, scores: ArrayLike, n_resamples: int = 2000,
                       seed: int = 0, positive: int | None = None) -> tuple[float, float]:
    """(low, high): the 95% bootstrap interval of a metric.

    gold, scores, positive: as in `compute`. Resamples in which the metric is undefined are left out; nan if it always
    is.
    """
    predicted = decisions(metric, scores)
    if metric == 'f1' and positive is not None:
        gold, predicted = ((np.asarray(labels) == positive).astype(int) for labels in (gold, predicted))
    terms, final = terms_of(metric, gold, predicted)
    return percentiles(resampled([terms], final, n_resamples, seed)[0])


def paired_bootstrap(metric: str, gold: ArrayLike, scores_a: ArrayLike, scores_b: ArrayLike, n_resamples: int = 2000,
                     seed: int = 0) -> tuple[float, float, float]:
    """(difference, low, high) of metric(a) - metric(b): a resample draws the same items for both."""
    a, final = terms_of(metric, gold, decisions(metric, scores_a))
    b, _ = terms_of(metric, gold, decisions(metric, scores_b))
    values = resampled([a, b], final, n_resamples, seed)
    difference = (compute([metric], gold, scores_a)[metric] - compute([metric], gold, scores_b)[metric])
    return (difference, *percentiles(values[0] - values[1]))


def terms_of(metric: str, gold: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, Final]:
    """(terms float[n, k], final), with metric = final(sum over items of terms), for the bootstrap.

    Every metric here is a function of such sums: of hits, of the cells of a confusion table, or of moments. Spearman's
    ranks are those of the whole set, not of a resample.
    """
    gold, predicted = same_length(gold, predicted)
    if metric == 'accuracy':
        hits = (gold == predicted).astype(np.float64)
        return np.stack([hits, np.ones_like(hits)], -1), ratio
    if metric in ('f1', 'matthews'):
        final = f1_of if metric == 'f1' else matthews_of
        return counts(gold, predicted), final
    if metric == 'spearman':
        return moments(ranks(gold), ranks(predicted)), pearson_of
    return moments(gold, predicted), pearson_of


def counts(gold: ArrayLike, predicted: ArrayLike) -> np.ndarray:
    """Each item's cell of the confusion table, one-hot float[n, 4]: TP, FP, FN, TN. Labels are 0 and 1."""
    gold, predicted = same_length(gold, predicted)
    if not (np.isin(gold, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        raise ValueError('F1 and Matthews take the labels 0 and 1')
    cells = [(gold == g) & (predicted == p) for g, p in ((1, 1), (0, 1), (1, 0), (0, 0))]
    return np.stack(cells, -1).astype(np.float64)


def ratio(sums: np.ndarray) -> np.ndarray:
    """Hits per item of sums float[..., 2]."""
    return sums[..., 0] / sums[..., 1]


def f1_of(cells: np.ndarray) -> np.ndarray:
    """F1 of confusion tables float[..., 4]."""
    tp, fp, fn, tn = np.moveaxis(cells, -1, 0)
    whole = 2 * tp + fp + fn
    value = np.where(whole > 0, 2 * tp / np.maximum(whole, 1), 0.0)
    return np.where(whole + tn > 0, value, math.nan)


def matthews_of(cells: np.ndarray) -> np.ndarray:
    """Matthews correlation of confusion tables float[..., 4]."""
    tp, fp, fn, tn = np.moveaxis(cells, -1, 0)
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    value = np.where(square > 0, (tp * tn - fp * fn) / np.sqrt(np.maximum(square, 1)), 0.0)
    return np.where(tp + fp + fn + tn > 0, value, math.nan)


def moments(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Each item's 1, x, y, x^2, y^2, xy: float[n, 6]. x and y are standardized first, for precision."""
    x, y = standardized(x), standardized(y)
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)


def standardized(values: ArrayLike) -> np.ndarray:
    """Values shifted to mean 0 and scaled to the largest magnitude 1; zeros for a constant."""
    values = np.asarray(values, np.float64)
    if not len(values):
        return values
    centred = values - values.mean()
    size = np.abs(centred).max()
    if size <= 1e-12 * np.abs(values).max():  # a constant, but for rounding in the mean
        return np.zeros_like(values)
    return centred / size


def pearson_of(sums: np.ndarray) -> np.ndarray:
    """Linear correlation from summed moments float[..., 6]; nan if x or y is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    square = (n * xx - x * x) * (n * yy - y * y)
    defined = square > 1e-20 * np.maximum(n, 1) ** 4
    return np.where(defined, (n * xy - x * y) / np.sqrt(np.where(defined, square, 1)), math.nan)


def ranks(values: ArrayLike) -> np.ndarray:
    """Ranks from 1 of n values; ties share their mean rank: float[n]."""
    _, inverse, sizes = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[inverse]


def same_length(gold: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays [n]. ValueError unless they have one value for each item."""
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.ndim != 1 or gold.shape != predicted.shape:
        raise ValueError(f'gold has shape {gold.shape}, predictions {predicted.shape}; both are one value an item')
    return gold, predicted


def read_predictions(path: str | os.PathLike) -> tuple[list[str], list[int] | list[float], np.ndarray]:
    """(ids, gold, scores float[n, labels]) of predictions.jsonl, without the rows that have no gold.

    A line is {"id": ..., "gold": label index, value or null, "scores": [one for each label or choice]}. Rows with
    fewer choices are padded with ABSENT. gold has ints, or floats if any line has one.
    UserError naming file, line and cause.
    """
    ids, gold, scores = [], [], []
    try:
        with about(path):
            text = storage.read(path).decode('utf-8')
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: not UTF-8 at byte {error.start}') from None
    if not text:
        raise UserError(f'{path}: empty')
    lines = text.removesuffix('\n').split('\n')  # not splitlines: an id may contain other line separators
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f'{path}: line {number}: not JSON ({error})') from None
        cause = wrong_with(row)
        if cause:
            raise UserError(f'{path}: line {number}: {cause}')
        if row['gold'] is not None:
            ids.append(row['id'])
            gold.append(row['gold'])
            scores.append(row['scores'])
    if not gold:
        raise UserError(f'{path}: no row of {len(lines)} has a gold label')
    if any(isinstance(value, float) for value in gold):
        gold = [float(value) for value in gold]
    width = max(map(len, scores))
    return ids, gold, np.array([row + [ABSENT] * (width - len(row)) for row in scores], np.float64)


def wrong_with(row: Any) -> str | None:
    """What is wrong with the JSON value of a line of predictions.jsonl, or None."""
    def is_number(value):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max

    if not isinstance(row, dict):
        return f'{type(row).__name__}, expected an object'
    for name in ('id', 'gold', 'scores'):
        if name not in row:
            return f'no field {name!r}'
    scores, gold = row['scores'], row['gold']
    if not isinstance(row['id'], (str, int)):
        return f'id {shown(row["id"])} is neither text nor a whole number'
    if not isinstance(scores, list) or not scores or not all(map(is_number, scores)):
        return 'scores is not a list of finite numbers'
    if gold is not None and not is_number(gold):
        return f'gold {shown(gold)} is neither a number nor null'
    if isinstance(gold, int) and len(scores) > 1 and not 0 <= gold < len(scores):
        return f'gold {gold} is out of range 0..{len(scores) - 1}'
    return None


def applicable(gold: Sequence[int | float], scores: np.ndarray) -> list[str]:
    """Names of the metrics that can be computed from gold values and scores float[n, labels]."""
    if any(isinstance(value, float) for value in gold) or scores.shape[1] == 1:
        return list(VALUE_METRICS) if scores.shape[1] == 1 else []
    if scores.shape[1] == 2:
        return list(LABEL_METRICS)
    return ['accuracy']
