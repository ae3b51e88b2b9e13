"""gpt1_jax.metrics against hand-made numbers, scikit-learn and scipy."""
import json
import math

import numpy as np
import pytest

from gpt1_jax import metrics
from gpt1_jax.metrics import __main__ as predictions_program

GOLD = np.array([1, 1, 1, 0, 0, 1])
PREDICTED = np.array([1, 0, 1, 1, 0, 1])  # 3 true positives, 1 false positive, 1 false negative, 1 true negative


def one_hot(labels):
    return np.eye(2)[labels]


def test_tied_values_share_their_mean_rank():
    assert metrics.ranks([5.0, 1.0, 5.0, 7.0]).tolist() == [2.5, 1.0, 2.5, 4.0]


@pytest.mark.parametrize('seed', range(5))
def test_label_metrics_agree_with_scikit_learn(seed):
    reference = pytest.importorskip('sklearn.metrics')
    rng = np.random.default_rng(seed)
    gold, predicted = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    assert metrics.accuracy(gold, predicted) == pytest.approx(reference.accuracy_score(gold, predicted), abs=1e-12)
    assert metrics.f1(gold, predicted) == pytest.approx(reference.f1_score(gold, predicted), abs=1e-12)
    assert metrics.matthews(gold, predicted) == pytest.approx(reference.matthews_corrcoef(gold, predicted), abs=1e-12)


@pytest.mark.parametrize('seed', range(5))
def test_correlations_agree_with_scipy(seed):
    reference = pytest.importorskip('scipy.stats')
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 6, 60) / 2  # with ties
    predicted = 1e6 + gold + rng.normal(size=60)  # far from zero
    assert metrics.pearson(gold, predicted) == pytest.approx(reference.pearsonr(gold, predicted).statistic, abs=1e-9)
    assert metrics.spearman(gold, predicted) == pytest.approx(reference.spearmanr(gold, predicted).statistic, abs=1e-9)


@pytest.mark.parametrize('constant', [3.0, 0.1, 1e8 + 0.1])
def test_correlation_with_a_constant_is_nan(constant):
    assert math.isnan(metrics.pearson([1.0, 2.0, 3.0], [constant] * 3))
    assert math.isnan(metrics.spearman([1.0, 2.0, 3.0], [constant] * 3))


def test_degenerate_inputs():
    for metric in (metrics.accuracy, metrics.f1, metrics.matthews, metrics.pearson, metrics.spearman):
        assert math.isnan(metric([], []))
    assert metrics.f1([0, 0], [0, 0]) == 0 and metrics.matthews([0, 1, 1], [1, 1, 1]) == 0


@pytest.mark.parametrize('call, message', [
    (lambda: metrics.accuracy([0, 1], [0, 1, 1]), 'shape'),
    (lambda: metrics.f1([0, 1, 2], [0, 1, 1]), 'labels 0 and 1'),
    (lambda: metrics.compute(['bleu'], [0], [[1.0, 0.0]]), 'unknown metric'),
    (lambda: metrics.compute(['accuracy'], [0], [[math.nan, 0.0]]), 'finite')])
def test_what_cannot_be_computed_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_compute_takes_the_first_of_equal_scores_and_values_as_one_column():
    assert metrics.compute(['accuracy'], [0, 1], [[0.5, 0.5], [0.5, 0.5]]) == {'accuracy': 0.5}
    found = metrics.compute(['pearson', 'spearman'], [1.0, 2.0, 4.0], [[2.0], [4.0], [8.0]])
    assert found == pytest.approx({'pearson': 1.0, 'spearman': 1.0})


def test_interval_of_accuracy_is_the_binomial_one():
    gold = np.ones(1000, int)
    scores = one_hot(np.r_[np.ones(700, int), np.zeros(300, int)])
    low, high = metrics.bootstrap_interval('accuracy', gold, scores)
    half = 1.96 * math.sqrt(0.7 * 0.3 / 1000)
    assert low == pytest.approx(0.7 - half, abs=0.004)
    assert high == pytest.approx(0.7 + half, abs=0.004)


def test_interval_of_pearson_agrees_with_fishers():
    rng = np.random.default_rng(1)
    gold = rng.normal(size=2000)
    scores = gold + rng.normal(size=2000)
    low, high = metrics.bootstrap_interval('pearson', gold, scores)
    centre = math.atanh(metrics.pearson(gold, scores))
    assert low == pytest.approx(math.tanh(centre - 1.96 / math.sqrt(1997)), abs=0.006)
    assert high == pytest.approx(math.tanh(centre + 1.96 / math.sqrt(1997)), abs=0.006)


@pytest.mark.parametrize('metric', ['f1', 'matthews'])
def test_resampled_tables_give_what_resampled_items_give(metric):
    reference = pytest.importorskip('sklearn.metrics')
    function = {'f1': reference.f1_score, 'matthews': reference.matthews_corrcoef}[metric]
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 2, 200)
    predicted = np.where(rng.random(200) < 0.8, gold, 1 - gold)
    values = []
    for _ in range(1000):
        drawn = rng.integers(200, size=200)
        values.append(function(gold[drawn], predicted[drawn]))
    low, high = metrics.bootstrap_interval(metric, gold, one_hot(predicted))
    assert (low, high) == pytest.approx(tuple(np.percentile(values, [2.5, 97.5])), abs=0.02)


def test_pairing_narrows_the_difference_of_alike_runs():
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 1000)
    worse = np.where(rng.random(1000) < 0.7, gold, 1 - gold)
    better = worse.copy()
    better[np.flatnonzero(worse != gold)[:50]] = gold[np.flatnonzero(worse != gold)[:50]]
    difference, low, high = metrics.paired_bootstrap('accuracy', gold, one_hot(better), one_hot(worse))
    assert difference == pytest.approx(0.05)
    half = 1.96 * math.sqrt(0.05 * 0.95 / 1000)  # of a share of 0.05, not of a difference of two shares near 0.7
    assert (low, high) == pytest.approx((0.05 - half, 0.05 + half), abs=0.003)


def predictions_file(tmp_path, *rows):
    path = tmp_path / 'predictions.jsonl'
    path.write_text(''.join((row if isinstance(row, str) else json.dumps(row)) + '\n' for row in rows))
    return str(path)


def test_command_prints_every_metric_of_two_labels(tmp_path, capsys):
    path = predictions_file(tmp_path, *({'id': str(i), 'gold': int(g), 'scores': [1.0 - p, float(p)]}
                                        for i, (g, p) in enumerate(zip(GOLD, PREDICTED))))
    assert predictions_program.main([path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines] == [['accuracy', '0.6667', 'n', '6'], ['f1', '0.7500', 'n', '6'],
                                                    ['matthews', '0.2500', 'n', '6']]
    assert all('95% interval' in line for line in lines)
    assert predictions_program.main([path, '--positive=0']) == 0  # 1 hit, 2 mistakes
    assert capsys.readouterr().out.splitlines()[1].startswith('f1        0.5000  n 6  95% interval 0.0000 to ')


def test_three_labels_have_accuracy_alone(tmp_path, capsys):
    path = predictions_file(tmp_path, *({'id': str(gold), 'gold': gold, 'scores': [0, 1, 2]} for gold in (2, 0)))
    assert predictions_program.main([path]) == 0
    assert capsys.readouterr().out.split()[:2] == ['accuracy', '0.5000']
    assert predictions_program.main([path, '--positive=2']) == 0  # 1 hit, 1 mistake
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [['accuracy', '0.5000'],
                                                                                   ['f1', '0.6667']]
    assert predictions_program.main([path, '--positive=3']) == 1
    assert capsys.readouterr().err == f'error: --positive=3: is no label of {path}, whose rows have 3 score(s)\n'


def test_rows_without_gold_are_left_out(tmp_path):
    golds = {'a': None, 'b': 1}
    path = predictions_file(tmp_path, *({'id': name, 'gold': golds[name], 'scores': [0, 1]} for name in golds))
    ids, gold, scores = metrics.read_predictions(path)
    assert (ids, gold, scores.tolist()) == (['b'], [1], [[0.0, 1.0]])


GOOD = {'id': 'a', 'gold': 1, 'scores': [0.0, 1.0]}


@pytest.mark.parametrize('row, cause', [
    ('{"id": "a"', 'line 2: not JSON'), ([1], 'line 2: list, expected an object'),
    ({'id': 'a', 'scores': [0, 1]}, "line 2: no field 'gold'"),
    ({'id': 'a', 'gold': 2, 'scores': [0, 1]}, 'out of range 0..1'),
    ({'id': 'a', 'gold': 'x', 'scores': [0, 1]}, "gold 'x' is neither"),
    ({'id': 'a', 'gold': 1, 'scores': []}, 'finite numbers'),
    ('{"id": "a", "gold": 1, "scores": [NaN, 1]}', 'finite numbers')])
def test_a_bad_row_is_one_line_naming_file_and_line(tmp_path, capsys, row, cause):
    path = predictions_file(tmp_path, GOOD, row)
    assert predictions_program.main([path]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f'error: {path}: line 2: ') and cause in message and message.count('\n') == 1


def test_rows_may_differ_in_their_number_of_choices(tmp_path):
    path = tmp_path / 'p.jsonl'
    path.write_text('{"id": "a", "gold": 1, "scores": [0, 1]}\n{"id": "b", "gold": 2, "scores": [0, 1, 2]}\n')
    _, gold, scores = metrics.read_predictions(path)
    assert scores.shape == (2, 3) and metrics.compute(['accuracy'], gold, scores) == {'accuracy': 1}


def test_f1_of_a_named_label_is_scikit_learn_s_against_all_others():
    reference = pytest.importorskip('sklearn.metrics')
    gold, predicted = [0, 2, 1, 2, 0, 2], [0, 2, 2, 1, 2, 2]
    for label in range(3):
        expected = reference.f1_score(gold, predicted, labels=[label], average=None)[0]
        assert metrics.f1(gold, predicted, label) == pytest.approx(expected)
