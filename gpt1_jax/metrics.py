"""Section 4, Tables 2 to 4: the figures of the paper, each a fraction, with intervals from resampled items.

    python -m gpt1_jax.metrics runs/cola/predictions_dev.jsonl

recomputes every figure that applies to a run's predictions.
Degenerate inputs have one answer each: no items, or a correlation with a constant, gives nan; F1 without a single
positive in gold and predictions, and Matthews with an empty row or column, give 0 (as scikit-learn does).
"""
import argparse
import functools
import json
import math
import sys
from collections.abc import Callable, Sequence

import numpy as np

from gpt1_jax.errors import UserError, shown

ABSENT = -1e9      # the score of a choice that a row does not have
CHUNK = 2_000_000  # resampled items held in memory at a time


def accuracy(gold, predicted):
    """Share of int[n] labels predicted right."""
    gold, predicted = same_length(gold, predicted)
    return float(np.mean(gold == predicted)) if len(gold) else math.nan


def f1(gold, predicted, positive=None):
    """Harmonic mean of precision and recall of one label, from int[n] labels.

    positive: that label, against all others; None: label 1 of two.
    """
    gold, predicted = same_length(gold, predicted)
    if positive is not None:
        gold, predicted = (gold == positive).astype(int), (predicted == positive).astype(int)
    return float(f1_of(counts(gold, predicted).sum(0)))


def matthews(gold, predicted):
    """Matthews correlation of int[n] labels: from -1 to 1, 0 for a guess. Of two labels, 0 and 1."""
    return float(matthews_of(counts(gold, predicted).sum(0)))


def pearson(gold, predicted):
    """Linear correlation of float[n] values."""
    gold, predicted = same_length(gold, predicted)
    return float(pearson_of(moments(gold, predicted).sum(0)))


def spearman(gold, predicted):
    """Correlation of ranks of float[n] values; ties share their mean rank."""
    gold, predicted = same_length(gold, predicted)
    return pearson(ranks(gold), ranks(predicted))


LABEL_METRICS = {'accuracy': accuracy, 'f1': f1, 'matthews': matthews}
VALUE_METRICS = {'pearson': pearson, 'spearman': spearman}


def predictions(name: str, scores):
    """What a metric compares with gold: int[n], the best of float[n, labels] (the first of equals), or float[n]."""
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


def compute(names: Sequence[str], gold, scores, positive: int | None = None) -> dict[str, float]:
    """{metric name: fraction}.

    gold: int[n] labels with scores float[n, labels] for accuracy, f1, matthews; float[n] with scores float[n] or [n, 1]
    for pearson, spearman. positive: the label that F1 counts, where it is not 1 of two. ValueError for an unknown
    name, a shape that doesn't fit, or scores that are not finite.
    """
    if not np.all(np.isfinite(np.asarray(scores, np.float64))):
        raise ValueError('scores are not finite')
    known = {**LABEL_METRICS, **VALUE_METRICS, 'f1': functools.partial(f1, positive=positive)}
    return {name: known[name](gold, predicted) for name in names for predicted in [predictions(name, scores)]}


def bootstrap_interval(metric: str, gold, scores, n_resamples: int = 2000, seed: int = 0) -> tuple[float, float]:
    """(low, high): the 95% percentile interval of a metric when items are drawn again with replacement.

    gold, scores as in `compute`. A resample whose metric is undefined (a constant) doesn't count; nan without any.
    """
    terms, final = terms_of(metric, gold, predictions(metric, scores))
    return percentiles(resampled([terms], final, n_resamples, seed)[0])


def paired_bootstrap(metric: str, gold, scores_a, scores_b, n_resamples: int = 2000, seed: int = 0,
                     ) -> tuple[float, float, float]:
    """(difference, low, high) of metric(a) - metric(b) over the same items, each resample drawing one set for both."""
    a, final = terms_of(metric, gold, predictions(metric, scores_a))
    b, _ = terms_of(metric, gold, predictions(metric, scores_b))
    values = resampled([a, b], final, n_resamples, seed)
    difference = (compute([metric], gold, scores_a)[metric] - compute([metric], gold, scores_b)[metric])
    return (difference, *percentiles(values[0] - values[1]))


def terms_of(metric: str, gold, predicted) -> tuple[np.ndarray, Callable]:
    """A metric as `final(sum over items of terms)`: (terms float[n, k], final: float[..., k] -> float[...]).

    Every metric here is a function of such sums (hits; a confusion table; moments), so a resample is one product
    of how often each item was drawn with the terms. Spearman's ranks are those of the whole set.
    """
    gold, predicted = same_length(gold, predicted)
    if metric == 'accuracy':
        hits = (gold == predicted).astype(np.float64)
        return np.stack([hits, np.ones_like(hits)], -1), ratio
    if metric in ('f1', 'matthews'):
        return counts(gold, predicted), f1_of if metric == 'f1' else matthews_of
    if metric == 'spearman':
        gold, predicted = ranks(gold), ranks(predicted)
    return moments(gold, predicted), pearson_of


def resampled(terms: list[np.ndarray], final: Callable, n_resamples: int, seed: int) -> list[np.ndarray]:
    """For each of several term arrays [n, k] over the same items: final(...) of every resample, float[n_resamples]."""
    n = len(terms[0])
    if n == 0:
        return [np.full(n_resamples, math.nan) for _ in terms]
    rng = np.random.default_rng(seed)
    together = np.concatenate(terms, -1)
    sums = []
    size = max(1, CHUNK // n)
    for start in range(0, n_resamples, size):
        rows = min(size, n_resamples - start)
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        sums.append(times @ together)
    return [final(part) for part in np.split(np.concatenate(sums), len(terms), axis=-1)]


def percentiles(values) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    if not len(values):
        return math.nan, math.nan
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def counts(gold, predicted):
    """One-hot cells of the confusion table, float[n, 4]: true and false positive, false and true negative."""
    gold, predicted = same_length(gold, predicted)
    if not (np.isin(gold, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        raise ValueError('F1 and Matthews take the labels 0 and 1')
    cells = [(gold == g) & (predicted == p) for g, p in ((1, 1), (0, 1), (1, 0), (0, 0))]
    return np.stack(cells, -1).astype(np.float64)


def ratio(sums):
    return sums[..., 0] / sums[..., 1]


def f1_of(cells):
    tp, fp, fn, tn = np.moveaxis(cells, -1, 0)
    whole = 2 * tp + fp + fn
    value = np.where(whole > 0, 2 * tp / np.maximum(whole, 1), 0.0)
    return np.where(whole + tn > 0, value, math.nan)


def matthews_of(cells):
    tp, fp, fn, tn = np.moveaxis(cells, -1, 0)
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    value = np.where(square > 0, (tp * tn - fp * fn) / np.sqrt(np.maximum(square, 1)), 0.0)
    return np.where(tp + fp + fn + tn > 0, value, math.nan)


def moments(x, y):
    """float[n, 6]: 1, x, y, x^2, y^2, xy of x and y shifted to mean 0 and scaled to largest size 1, for precision."""
    x, y = (standard(np.asarray(values, np.float64)) for values in (x, y))
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)


def standard(values):
    if not len(values):
        return values
    centred = values - values.mean()
    size = np.abs(centred).max()
    # Rounding in the mean must not pass for variation: a constant becomes exact zeros.
    return centred / size if size > 1e-12 * np.abs(values).max() else np.zeros_like(values)


def pearson_of(sums):
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    square = (n * xx - x * x) * (n * yy - y * y)
    defined = square > 1e-20 * np.maximum(n, 1) ** 4
    return np.where(defined, (n * xy - x * y) / np.sqrt(np.where(defined, square, 1)), math.nan)


def ranks(values):
    """Ranks from 1, equals sharing their mean: float[n]."""
    _, inverse, sizes = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[inverse]


def same_length(gold, predicted):
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.ndim != 1 or gold.shape != predicted.shape:
        raise ValueError(f'gold has shape {gold.shape}, predictions {predicted.shape}; both are one value an item')
    return gold, predicted


def read_predictions(path) -> tuple[list[str], list, np.ndarray]:
    """(ids, gold, scores float[n, labels]) of predictions.jsonl, rows without gold left out.

    A row is {"id": ..., "gold": label index, value or null, "scores": [one a label or choice]}; rows may differ in
    their choices: ABSENT stands for those they lack. gold is a list of ints, or of floats where any row's is one.
    UserError naming file, line and cause.
    """
    ids, gold, scores = [], [], []
    width = None
    try:
        with open(path, encoding='utf-8') as file:
            lines = list(file)  # lines end at line feeds alone: an id may hold other separators
    except OSError as error:
        raise UserError(f'{path}: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: not UTF-8 at byte {error.start}') from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f'{path}: line {number}: not JSON ({error.msg} at column {error.colno})') from None
        except (ValueError, RecursionError) as error:  # of a number or a nesting beyond what Python reads
            raise UserError(f'{path}: line {number}: not JSON ({error})') from None
        cause = wrong_with(row)
        if cause is None and width and (len(row['scores']) == 1) != (width == 1):
            cause = f'{len(row["scores"])} score(s), the line before has {width}'
        if cause:
            raise UserError(f'{path}: line {number}: {cause}')
        width = len(row['scores'])
        if row['gold'] is not None:
            ids.append(row['id'])
            gold.append(row['gold'])
            scores.append(row['scores'])
    if not lines:
        raise UserError(f'{path}: empty')
    if not gold:
        raise UserError(f'{path}: no row of {len(lines)} has a gold label')
    if any(isinstance(value, float) for value in gold):
        gold = [float(value) for value in gold]
    width = max(map(len, scores))
    return ids, gold, np.array([row + [ABSENT] * (width - len(row)) for row in scores], np.float64)


def wrong_with(row) -> str | None:
    """What is wrong with a row of predictions.jsonl, or None."""
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


def applicable(gold, scores) -> list[str]:
    """Names of the metrics that such golds and scores allow."""
    if any(isinstance(value, float) for value in gold) or scores.shape[1] == 1:
        return list(VALUE_METRICS) if scores.shape[1] == 1 else []
    return list(LABEL_METRICS) if scores.shape[1] == 2 else ['accuracy']


def main(arguments: Sequence[str]) -> int:
    """Print each figure of a predictions file, one a line; the exit status."""
    parser = argparse.ArgumentParser(prog='python -m gpt1_jax.metrics', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('predictions', help="a run's predictions_SPLIT.jsonl")
    path = parser.parse_args(arguments).predictions
    try:
        _, gold, scores = read_predictions(path)
        names = applicable(gold, scores)
        if not names:
            raise UserError(f'{path}: gold is not whole numbers but a row has {scores.shape[1]} scores, '
                            'so no metric applies')
    except UserError as error:
        print(f'error: {error}', file=sys.stderr)
        return 1
    for name, value in compute(names, gold, scores).items():
        low, high = bootstrap_interval(name, gold, scores)
        print(f'{name:<9} {value:.4f}  n {len(gold)}  95% interval {low:.4f} to {high:.4f}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
