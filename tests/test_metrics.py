"""gpt1_jax.metrics against hand-made numbers, scikit-learn and scipy."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from gpt1_jax import metrics
from gpt1_jax.evaluation import score_predictions
from refusal import refusal

sklearn = pytest.importorskip('sklearn.metrics')

GOLD = [1, 1, 1, 0, 0, 1]
# 3 true positives, 1 false positive, 1 false negative, 1 true negative
PREDICTED = [1, 0, 1, 1, 0, 1]


@pytest.mark.parametrize('seed', range(2))
def test_metrics_agree_with_scikit_learn_and_scipy(seed):
    rng = np.random.default_rng(seed)
    gold, predicted = rng.integers(0, 2, (2, 50))
    for name, reference in (
        ('accuracy', sklearn.accuracy_score),
        ('f1', sklearn.f1_score),
        ('matthews', sklearn.matthews_corrcoef),
    ):
        found = metrics.value(name, gold, predicted)
        assert found == pytest.approx(reference(gold, predicted), abs=1e-12)
    gold = rng.integers(0, 6, 60) / 2  # with ties
    predicted = 1e6 + gold + rng.normal(size=60)  # far from zero
    for name, reference in (('pearson', stats.pearsonr), ('spearman', stats.spearmanr)):
        found = metrics.value(name, gold, predicted)
        assert found == pytest.approx(reference(gold, predicted).statistic, abs=1e-9)
    gold, predicted = rng.integers(0, 3, (2, 50))
    of_each = [metrics.value('f1', gold, predicted, label) for label in range(3)]
    assert of_each == pytest.approx(sklearn.f1_score(gold, predicted, average=None))
    gold = rng.choice([0, 2, 5], 40)  # labels that do not occur, or only as predictions
    predicted = rng.choice([0, 2, 3], 40)
    macro = sklearn.f1_score(gold, predicted, average='macro')
    assert metrics.value('macro_f1', gold, predicted) == pytest.approx(macro, abs=1e-12)


def test_macro_f1_of_models_that_predict_other_labels_share_their_resamples():
    gold = np.array([0, 1, 1, 0, 2, 1, 0, 0])
    several = np.eye(5)[[[0, 1, 0, 0, 2, 1, 1, 0], [4, 1, 1, 0, 2, 0, 0, 3]]]
    drawn = np.random.default_rng(0).integers(8, size=(9, 8))
    for scores, draws in zip(several, metrics.draws('macro_f1', gold, several), strict=True):
        predicted = scores.argmax(-1)
        expected = [sklearn.f1_score(gold[i], predicted[i], average='macro') for i in drawn]
        np.testing.assert_allclose(draws[:9], expected)


def test_degenerate_inputs_give_zero_or_nan():
    assert metrics.value('f1', [0, 0], [0, 0]) == 0
    assert metrics.value('matthews', [0, 1, 1], [1, 1, 1]) == 0
    for name in ('pearson', 'spearman'):
        assert math.isnan(metrics.value(name, [1.0, 2.0, 3.0], [1e8 + 0.1] * 3))


def test_compute_takes_the_first_of_equal_scores():
    assert metrics.compute(['accuracy'], [0, 1], [[0.5, 0.5], [0.5, 0.5]]) == {'accuracy': 0.5}


@pytest.mark.parametrize(
    'name, gold, scores, message',
    [
        ('accuracy', [0], [[math.nan, 0.0]], 'finite'),
        ('f1', [0, 1, 2], np.eye(3), 'labels 0 and 1'),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, gold, scores, message):
    with pytest.raises(ValueError, match=message):
        metrics.compute([name], gold, scores)


def test_the_interval_of_pearson_is_fisher_s():
    rng = np.random.default_rng(1)
    gold = rng.normal(size=2000)
    scores = gold + rng.normal(size=2000)
    expected = stats.pearsonr(gold, scores).confidence_interval(0.95)  # by Fisher's transformation
    found = metrics.bootstrap_interval('pearson', gold, scores)
    assert found == pytest.approx(tuple(expected), abs=0.002)


def test_pairing_narrows_the_interval_of_the_difference():
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 1000)
    worse = np.where(rng.random(1000) < 0.7, gold, 1 - gold)
    better = worse.copy()
    mended = np.flatnonzero(worse != gold)[:50]
    better[mended] = gold[mended]
    a, b = metrics.draws('accuracy', gold, [np.eye(2)[better], np.eye(2)[worse]])
    # Of a share of 0.05, not of a difference of two shares near 0.7
    half = 1.96 * math.sqrt(0.05 * 0.95 / 1000)
    assert metrics.interval(a - b) == pytest.approx((0.05 - half, 0.05 + half), abs=0.003)


def predictions_file(tmp_path, *rows):
    path = tmp_path / 'predictions.jsonl'
    path.write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
    return path


TWO_LABELS = [
    (int(gold), [1.0 - predicted, float(predicted)]) for gold, predicted in zip(GOLD, PREDICTED)
]


OF_BOTH = {'accuracy': '0.6667', 'macro_f1': '0.6250', 'matthews': '0.2500'}


@pytest.mark.parametrize(
    'rows, positive, expected',
    [
        (TWO_LABELS, None, {'f1': '0.7500', **OF_BOTH}),
        # 1 hit, 2 mistakes
        (TWO_LABELS, 0, {'f1': '0.5000', **OF_BOTH}),
        (
            [(gold, [2 * gold]) for gold in (0.5, 1.0, 3.5, 5)],
            None,
            {'pearson': '1.0000', 'spearman': '1.0000'},
        ),
    ],
)
def test_the_command_prints_every_metric_that_applies(tmp_path, rows, positive, expected):
    path = predictions_file(
        tmp_path,
        *({'id': str(i), 'gold': gold, 'scores': scores} for i, (gold, scores) in enumerate(rows)),
    )
    lines = score_predictions.run(path, positive)
    assert all(f'  n {len(rows)}  95% interval ' in line for line in lines)
    assert dict(line.split()[:2] for line in lines) == expected


GOOD = {'id': 'a', 'gold': 1, 'scores': [0.0, 1.0]}


@pytest.mark.parametrize(
    'rows, positive, cause',
    [
        ([GOOD, {'id': 'a', 'scores': [0, 1]}], None, "no field 'gold'"),
        ([GOOD, GOOD | {'gold': 2}], None, 'line 2: gold 2 is out of range 0..1'),
        (
            [GOOD, GOOD | {'scores': [math.nan, 1]}],
            None,
            'line 2: scores is [nan, 1], must be a list',
        ),
        ([GOOD | {'gold': None}], None, 'no row of 1 has a gold label'),
        ([GOOD | {'gold': 0.5}], None, 'no metric applies'),
        ([GOOD], 2, 'rows have 2 score(s)'),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path, rows, positive, cause):
    path = predictions_file(tmp_path, *rows)
    message = refusal(score_predictions.run, path, positive)
    assert str(path) in message and cause in message


def test_rows_without_gold_are_left_out_and_missing_choices_padded(tmp_path):
    path = predictions_file(
        tmp_path, GOOD | {'gold': None}, GOOD, {'id': 'b', 'gold': 2, 'scores': [0, 1, 2]}
    )
    ids, gold, scores = metrics.read_predictions(path)
    assert (ids, gold, scores.tolist()) == (['a', 'b'], [1, 2], [[0, 1, metrics.ABSENT], [0, 1, 2]])
