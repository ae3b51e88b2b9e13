"""Section 4, Tables 2 to 4: the paper's metrics, as fractions, with bootstrap intervals.

The page of `gpt1 metrics`, evaluation/score_predictions.py, lists the values of degenerate inputs.
A new metric is one entry of METRICS.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpt1_jax import rules, storage
from gpt1_jax.errors import UserError
from gpt1_jax.metrics.bootstrap import Final, interval, resampled

ABSENT = -1e9  # the score, or logit, of a choice that a row does not have
ANY_LABELS = 'labels'
TWO_LABELS = 'two labels'
VALUES = 'values'


class Metric(NamedTuple):
    """A metric that is final(sum over items of terms(gold, predicted)).

    In this form its bootstrap is a matrix product.

    terms: (gold [n], predicted [n]) -> float[n, k].
    final: sums float[..., k] -> float[...].
    takes: ANY_LABELS, TWO_LABELS (0 and 1, or one label against all others with `positive`), or
        VALUES (floats).
    """

    terms: Callable[[np.ndarray, np.ndarray], np.ndarray]
    final: Final
    takes: str


def hits(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Two numbers for each item, float[n, 2]: 1 if it is right, else 0, and always 1."""
    return np.stack([gold == predicted, np.ones(len(gold))], -1).astype(np.float64)


def counts(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Each item's cell of the confusion table, one-hot float[n, 4]: TP, FP, FN, TN.

    Labels are 0 and 1.
    """
    if not (np.isin(gold, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        raise ValueError('F1 and Matthews take the labels 0 and 1')
    cells = [(gold == g) & (predicted == p) for g, p in ((1, 1), (0, 1), (1, 0), (0, 0))]
    return np.stack(cells, -1).astype(np.float64)


def by_label(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Two numbers for each item and label, float[n, 2 L]: was the label a hit, and was it an error?

    A right item has a 1 as the hit of its label. A wrong item has a 1 as the error of its gold
    label and a 1 as the error of its predicted label.
    """
    labels = np.arange(1 + max(gold.max(), predicted.max()))
    is_gold = gold[:, None] == labels
    is_predicted = predicted[:, None] == labels
    both = np.stack([is_gold & is_predicted, is_gold ^ is_predicted], -1)
    return both.reshape(len(gold), 2 * len(labels)).astype(np.float64)


def moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each item's 1, x, y, x^2, y^2, xy: float[n, 6].

    x and y are standardized first, for precision.
    """
    x = _standardized(x)
    y = _standardized(y)
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)


def rank_moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`moments` of the ranks in the whole set. Resamples also use these ranks."""
    from scipy.stats import rankdata  # takes half a second

    return moments(rankdata(x), rankdata(y))


def ratio(sums: np.ndarray) -> np.ndarray:
    """Hits per item of sums float[..., 2]."""
    return sums[..., 0] / sums[..., 1]


def f1_of(cells: np.ndarray) -> np.ndarray:
    """F1 of confusion tables float[..., 4]."""
    tp, fp, fn, _ = np.moveaxis(cells, -1, 0)
    return 2 * tp / np.maximum(2 * tp + fp + fn, 1)  # the table has whole numbers


def macro_f1_of(sums: np.ndarray) -> np.ndarray:
    """The mean F1 of the labels that occur in gold or in predictions.

    sums: float[..., 2 L].
    """
    right = 2 * sums[..., ::2]
    whole = right + sums[..., 1::2]
    return (right / np.maximum(whole, 1)).sum(-1) / (whole > 0).sum(-1)


def matthews_of(cells: np.ndarray) -> np.ndarray:
    """Matthews correlation of confusion tables float[..., 4]."""
    tp, fp, fn, tn = np.moveaxis(cells, -1, 0)
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / np.sqrt(np.maximum(square, 1))  # 0 / 1 for an empty line


def pearson_of(sums: np.ndarray) -> np.ndarray:
    """Linear correlation from summed moments float[..., 6]. It is nan if x or y is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    square = (n * xx - x * x) * (n * yy - y * y)
    defined = square > 1e-20 * n**4
    return np.where(defined, (n * xy - x * y) / np.sqrt(np.where(defined, square, 1)), math.nan)


METRICS = {
    'accuracy': Metric(hits, ratio, ANY_LABELS),
    'f1': Metric(counts, f1_of, TWO_LABELS),
    'macro_f1': Metric(by_label, macro_f1_of, ANY_LABELS),
    'matthews': Metric(counts, matthews_of, TWO_LABELS),
    'pearson': Metric(moments, pearson_of, VALUES),
    'spearman': Metric(rank_moments, pearson_of, VALUES),
}
LABEL_METRICS = tuple(name for name, metric in METRICS.items() if metric.takes != VALUES)
VALUE_METRICS = tuple(name for name, metric in METRICS.items() if metric.takes == VALUES)


def value(name: str, gold: ArrayLike, predicted: ArrayLike, positive: int | None = None) -> float:
    """A metric of int[n] labels, or float[n] values.

    positive: for F1, the label that counts, against all others. None means label 1 of 0 and 1.
    """
    return float(METRICS[name].final(_terms(name, gold, predicted, positive).sum(0)))


def _terms(name, gold, predicted, positive=None):
    gold = np.asarray(gold)
    predicted = np.asarray(predicted)
    if positive is not None and name == 'f1':
        gold = (gold == positive).astype(int)
        predicted = (predicted == positive).astype(int)
    return METRICS[name].terms(gold, predicted)


def decisions(name: str, scores: ArrayLike) -> np.ndarray:
    """The predictions of a metric.

    For label metrics, they are the argmax of scores[n, labels], int[n]. For value metrics, they are
    the scores, float[n], of scores[n] or scores[n, 1].
    """
    scores = np.asarray(scores, np.float64)
    if METRICS[name].takes == VALUES:
        return scores.reshape(len(scores))
    return scores.argmax(-1)


def compute(
    names: Sequence[str], gold: ArrayLike, scores: ArrayLike, positive: int | None = None
) -> dict[str, float]:
    """Computes {metric name: fraction}.

    gold, scores: int[n] and float[n, labels] for label metrics. For value metrics float[n] and
        float[n] or [n, 1].
    positive: as in `value`.

    ValueError for scores that are not finite.
    """
    if not np.all(np.isfinite(np.asarray(scores, np.float64))):
        raise ValueError('scores are not finite')
    return {name: value(name, gold, decisions(name, scores), positive) for name in names}


def draws(
    name: str,
    gold: ArrayLike,
    several: Sequence[ArrayLike],
    seed: int = 0,
    positive: int | None = None,
) -> list[np.ndarray]:
    """The metric of every resample, float[RESAMPLES], for each of several models' scores.

    The models are scored on the same items and share the resamples. So the differences of these
    arrays make a paired bootstrap.
    """
    terms = [_terms(name, gold, decisions(name, scores), positive) for scores in several]
    # A model may predict labels that the others do not. Their sums are 0
    wide = max(one.shape[1] for one in terms)
    terms = [np.pad(one, ((0, 0), (0, wide - one.shape[1]))) for one in terms]
    return resampled(terms, METRICS[name].final, seed)


def bootstrap_interval(
    metric: str, gold: ArrayLike, scores: ArrayLike, positive: int | None = None
) -> tuple[float, float]:
    """(low, high): the 95% bootstrap interval of a metric.

    gold, scores, positive: as in `compute`. Resamples in which the metric is undefined are left
    out. The interval is nan if it always is.
    """
    return interval(draws(metric, gold, [scores], positive=positive)[0])


def _standardized(values):
    """Shifts values to mean 0 and scales them to the largest magnitude 1. Zeros for a constant."""
    values = np.asarray(values, np.float64)
    centred = values - values.mean()
    size = np.abs(centred).max()
    if size <= 1e-12 * np.abs(values).max():  # a constant, up to rounding of the mean
        return np.zeros_like(values)
    return centred / size


def perplexity(loss: float) -> float:
    """e^loss, the perplexity per token or word of a language model with this mean loss in nats.

    It is finite for any loss.
    """
    return math.exp(min(loss, 700))


def bits_per_byte(loss: float, bytes_per_token: float) -> float:
    """Bits per byte, from a language model's mean loss in nats per token."""
    return loss / math.log(2) / bytes_per_token


def read_predictions(path: storage.Path) -> tuple[list[str], list[int] | list[float], np.ndarray]:
    """Reads predictions.jsonl: (ids, gold, scores float[n, labels]).

    A line is {"id": ..., "gold": label index, value or null, "scores": [a number for each label or
    choice]}. Rows without gold are left out. Rows with fewer choices are padded with ABSENT. gold
    has ints, or floats if any line has a float. UserError naming file, line and cause.
    """
    rows = []
    lines = storage.read(path).removesuffix(b'\n').split(b'\n')
    for number, line in enumerate(lines, 1):
        row = storage.parse_json(line, f'{path}: line {number}')
        cause = wrong_with(row)
        if cause:
            raise UserError(f'{path}: line {number}: {cause}')
        if row['gold'] is not None:
            rows.append(row)
    if not rows:
        raise UserError(f'{path}: no row of {len(lines)} has a gold label')
    gold = [row['gold'] for row in rows]
    if any(isinstance(label, float) for label in gold):
        gold = [float(label) for label in gold]
    width = max(len(row['scores']) for row in rows)
    scores = [row['scores'] + [ABSENT] * (width - len(row['scores'])) for row in rows]
    return [row['id'] for row in rows], gold, np.array(scores, np.float64)


FIELDS = {
    'id': (lambda x: isinstance(x, (str, int)), 'a text or a whole number'),
    'gold': rules.optional(rules.number()),
    'scores': (lambda x: x and rules.several(rules.number())[0](x), 'a list of finite numbers'),
}


def wrong_with(row: Any) -> str | None:
    """Returns the reason why a JSON value is not a line of predictions.jsonl, or None."""
    if not isinstance(row, dict):
        return f'{type(row).__name__}, expected an object'
    for name, rule in FIELDS.items():
        if name not in row:
            return f'no field {name!r}'
        for line in rules.problem(name, row[name], rule):
            return line
    scores = row['scores']
    gold = row['gold']
    if isinstance(gold, int) and len(scores) > 1 and not 0 <= gold < len(scores):
        return f'gold {gold} is out of range 0..{len(scores) - 1}'
    return None


def applicable(
    gold: Sequence[int | float], scores: np.ndarray, positive: int | None = None
) -> list[str]:
    """Names of the metrics that can be computed from gold labels or values and scores.

    scores: float[n, labels]. positive: the label that F1 counts. Without it F1 needs two labels.
    """
    if scores.shape[1] == 1:
        return list(VALUE_METRICS)
    if any(isinstance(label, float) for label in gold):
        return []
    return [
        name
        for name in LABEL_METRICS
        if scores.shape[1] == 2
        or METRICS[name].takes == ANY_LABELS
        or name == 'f1'
        and positive is not None
    ]
