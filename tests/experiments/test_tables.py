"""Tables 2 to 5, the gains and the claims, from made-up predictions: against figures worked out by
hand, and whole against tests/fixtures/tables.md, which was read line by line."""

import dataclasses
import itertools
import json
import math
import os
import pathlib

import numpy as np
import pytest
from gpt1_jax.configs import experiments as experiments_config

from experiments import tables
from experiments.lib import bootstrap, run_list, runner
from experiments.lib.run_list import Run
from experiments.paper import claims, figure2_layers, numbers, scores, table5
from gpt1_jax.errors import UserError
from gpt1_jax.metrics.bootstrap import Estimate, mean
from outcomes import HARD, Made
from tiny import ROOT

GOLDEN = ROOT / 'tests' / 'fixtures' / 'tables.md'
LAYERS = {-1: 'no_pretraining', 0: 'layers_0', 1: 'layers_1', 2: 'full'}


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / 'runs')


@pytest.fixture
def config(tmp_path):
    config = experiments_config.get_config()
    config.pretrained = 'gpt'
    config.lstm = 'lstm'
    config.data = 'data'
    config.seeds_small = (0,)
    config.grid, config.out = {'optimizer': {'peak_rate': (1e-4, 1e-3)}}, str(tmp_path)
    return config


def test_tables_gains_and_claims_are_those_of_the_golden_file(made, config, monkeypatch):
    """SST-2 and MNLI with two seeds, RTE with one, Table 5's grid on each; SNLI and Story Cloze on
    test, a baseline, zero-shot curves, a set that is left out. UPDATE=1 writes the file."""
    monkeypatch.setattr(figure2_layers, 'conditions', lambda config: LAYERS)
    monkeypatch.setattr(figure2_layers, 'depth', lambda config: max(LAYERS))
    config.lstm = None
    config.finetune.batch.size = 8
    config.tasks.rte = {'train': {'epochs': 7}}
    rights = {
        'sst2': {'full': 800, 'no_pretraining': 600, 'no_aux': 790},
        'mnli': {
            'full': 700,
            'no_pretraining': 400,
            'no_aux': 750,
            'layers_0': 500,
            'layers_1': 700,
        },
    }
    for seed, (task, conditions) in itertools.product((0, 1), rights.items()):
        for condition, right in conditions.items():
            made.add(task, condition, seed, right + 20 * seed * (task == 'sst2'), n=HARD)
    made.add('mnli', 'full', 0, 650, n=HARD - 1, split='dev_mismatched', value=650 / (HARD - 1))
    made.add('mnli', 'layers_0', 0, 600, n=HARD, split='train')
    for condition, right in (('full', 560), ('no_pretraining', 550), ('no_aux', 560)):
        made.add('rte', condition, 0, right, n=HARD, selections=('final',))
    made.add('rte', 'full', 0, 580, n=HARD, selections=('best',))
    for task, best in (('sst2', 810), ('mnli', 690), ('rte', 540)):
        for condition, rights in (('full', (best, best - 100)), ('no_pretraining', (400, 500))):
            for rate, right in zip(('0.0001', '0.001'), rights):
                made.add(task, f'{condition}@peak_rate={rate}', 0, right, n=HARD)
    made.add('snli', 'full', 0, 8, n=20, split='test')
    made.add('story_cloze', 'full', 0, 7, split='test')
    made.zero_shot('sst2', 'full', {10: 500, 100: 550, 1000: 600})
    made.zero_shot('sst2', 'lstm', {10: 500, 100: 700, 1000: 500})
    made.zero_shot(
        'cola', 'full', {10: 440, 100: 560, 1000: 600}, metric='matthews', threshold=-0.125
    )
    made.outcomes.append(Run('qnli-full-0', 'qnli', 'full', 0, 'finetune', None, status='left out'))
    row = {'task': 'rte', 'split': 'dev', 'group': None, 'metric': 'accuracy', 'n': HARD}
    values = {'constant': 0.53, 'words': 0.58}
    rows = [row | {'baseline': name, 'value': value} for name, value in values.items()]
    (pathlib.Path(config.out) / scores.BASELINES_FILE).write_text(json.dumps({'rows': rows}))
    found = (
        '\n'.join(
            line
            for name, part in tables.PARTS.items()
            if name != 'figure_blimp'
            for line in part.lines(config, made.outcomes)
        )
        + '\n'
    )
    if os.environ.get('UPDATE'):
        GOLDEN.write_text(found, encoding='utf-8')
    assert found.splitlines() == GOLDEN.read_text(encoding='utf-8').splitlines()


def test_the_papers_nine_values_give_its_glue_score_and_its_columns_the_averages_of_table_5():
    found = {task: [figure.paper for figure in figures] for task, figures in numbers.GLUE.items()}
    assert len(found) == 9 and round(numbers.glue_score(found), 1) == numbers.GLUE_SCORE == 72.8
    assert numbers.glue_score({'a': [10.0, 20.0], 'b': [45.0]}) == 30.0
    # The LSTM's give 69.16, printed as 69.1; full's 74.65 as 74.7
    for condition, columns in numbers.TABLE5.items():
        assert np.mean(list(columns.values())) == pytest.approx(
            numbers.TABLE5_AVERAGE[condition], abs=0.065
        )


def test_the_rows_of_a_set_with_two_metrics_count_once_in_the_glue_score(made):
    for task, metric, n in (('mrpc', 'f1', 10), ('mrpc', 'accuracy', 10), ('sst2', 'accuracy', 20)):
        made.add(task, 'full', 0, 6, n=n, metric=metric)
    row, _ = tables.glue_line(made.outcomes)
    # The mean of 60 (both metrics) and 30
    assert row[tables.HEADER.index('n')] == '30' and row[3] == '45.0'


def test_several_seeds_give_median_range_and_joint_interval(made):
    for seed, right in enumerate((700, 500, 600)):
        made.add('sst2', 'full', seed, right, n=HARD)
    found = scores.find(made.outcomes, numbers.SST2)
    assert found.value == pytest.approx(0.6) and found.range == (0.5, 0.7)
    assert [*found.by_seed] == [0, 1, 2]
    # Each seed's right items are nested, so the median is the 600 items' share
    low, high = found.interval()
    assert low == pytest.approx(0.6 - 1.96 * math.sqrt(0.24 / HARD), abs=0.006)
    assert high == pytest.approx(0.6 + 1.96 * math.sqrt(0.24 / HARD), abs=0.006)


def test_a_difference_is_paired_over_items_and_over_the_seeds_that_both_have(made):
    for seed in (0, 1):
        made.add('sst2', 'full', seed, 600, n=HARD)
    made.add('sst2', 'no_aux', 0, 590, n=HARD)
    one = scores.difference(made.outcomes, (numbers.SST2,), 'full', 'no_aux')
    assert one.value == pytest.approx(0.01) and [*one.by_seed] == [0]
    low, high = one.interval()  # ten items differ: 10 -+ 1.96 sqrt(10) of 1,000
    assert 0.003 <= low <= 0.006 and 0.014 <= high <= 0.018


def test_a_difference_needs_the_same_items_split_and_seed_and_a_score_its_own_predictions(made):
    def difference(of, b):
        return scores.difference(made.outcomes, (of,), 'full', b)

    made.add('sst2', 'full', 0, 6)
    made.add('sst2', 'no_aux', 0, 6, n=12)
    with pytest.raises(UserError, match='not about the same items'):
        difference(numbers.SST2, 'no_aux')
    made.add('rte', 'full', 0, 6, value=0.9)
    with pytest.raises(UserError, match='something else was written there'):
        scores.find(made.outcomes, numbers.RTE)
    made.add('snli', 'full', 0, 8, n=20, split='test')
    made.add('snli', 'no_pretraining', 0, 5)  # stopped before it had scored test
    assert difference(numbers.TABLE2[2], 'no_pretraining') is None
    made.add('qnli', 'full', 1, 5)
    made.add('qnli', 'no_aux', 0, 5)
    assert difference(numbers.QNLI, 'no_aux') is None


def test_means_of_several_sets_are_resampled_apart(made):
    made.add('sst2', 'full', 0, 500, n=HARD)
    made.add('qnli', 'full', 0, 500, n=HARD - 1, value=500 / (HARD - 1))
    a, b = (scores.shown(made.outcomes, figure)[0] for figure in (numbers.SST2, numbers.QNLI))
    assert abs(np.corrcoef(a.draws, b.draws)[0, 1]) < 0.1
    low, high = mean([a, b]).interval()
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / HARD / 2), rel=0.1)


def test_a_group_is_of_its_own_rows(tmp_path):
    path = tmp_path / 'race.jsonl'
    rows = [
        {'id': f'{group}/1.txt/{i}', 'gold': 0, 'scores': [1.0, 0.0] if right else [0.0, 1.0]}
        for group, rights in (('middle', (1, 1, 1, 0)), ('high', (0, 1)))
        for i, right in enumerate(rights)
    ]
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    row = {'metric': 'accuracy', 'seed': 0, 'predictions': str(path)}
    assert bootstrap.of_rows([row | {'group': 'middle', 'value': 0.75, 'n': 4}]).value == 0.75
    assert bootstrap.of_rows([row | {'group': None, 'value': 4 / 6, 'n': 6}]).n == 6


def test_table_5_plans_every_condition_and_one_grid_for_both(config):
    wanted = table5.specs(config)
    by = {one.condition: one.config for one in wanted}
    settings = [
        f'{condition}@peak_rate={rate}'
        for condition in ('full', 'no_pretraining')
        for rate in ('0.0001', '0.001')
    ]
    assert len(wanted) == 8 * 8
    assert by.keys() == {'full', 'no_pretraining', 'no_aux', 'lstm', *settings}
    at_rate = by['no_pretraining@peak_rate=0.001']
    assert (at_rate.optimizer.peak_rate, at_rate.n_transfer, at_rate.init_from) == (1e-3, -1, 'gpt')


def test_parts_share_their_runs_and_a_failed_one_is_named_when_all_is_written(
    made, config, monkeypatch
):
    made.add('rte', 'full', 0, 7)
    planned = []

    def carry_out(config, runs, dry_run):
        planned.extend(runs)
        return made.outcomes + [
            dataclasses.replace(run, status='failed', error='no luck')
            for run in runs
            if run.task == 'mnli'
        ]

    monkeypatch.setattr(run_list, 'check', lambda config: None)
    monkeypatch.setattr(runner, 'carry_out', carry_out)
    with pytest.raises(UserError, match='^1 of 2 runs failed: mnli-full-0$'):
        tables.run(config, ['table2', 'table4'])
    assert len({one.name for one in planned}) == len(planned) > 9
    text = (pathlib.Path(config.out) / 'table2.md').read_text()
    assert '| RTE | accuracy | 56.0 | 70.0 |' in text and 'FAILED: mnli-full-0: no luck' in text
    assert 'RTE' not in (pathlib.Path(config.out) / 'table4.md').read_text().split('\n\n')[1]


def estimate(value, low, high, seeds=()):
    draws = np.linspace(low, high, 2001)
    by_seed = {i: (one, draws) for i, one in enumerate(seeds or (value, value))}
    return Estimate(value, draws, 10, by_seed, 'x')


UP = (0.1, 0.01, 0.2)
DOWN = (-0.1, -0.2, -0.01)
OPEN = (0.1, -0.1, 0.2)


@pytest.mark.parametrize(
    'measured, fields, expected',
    [
        ([UP], {}, 'holds'),
        ([DOWN], {}, 'does not hold'),
        ([OPEN], {}, 'undecided'),
        ([UP, UP], {}, 'holds'),
        ([UP, OPEN], {}, 'undecided'),
        ([UP, DOWN], {}, 'does not hold'),
        ([], {}, 'n/a'),
        # Each seed must agree
        ([(*UP, (0.2, -0.01))], {}, 'undecided'),
        ([(*DOWN, (-0.2, 0.01))], {}, 'undecided'),
        ([(*UP, (0.1,))], {}, 'holds (1 seed)'),
        ([UP], {'wanted': 3}, 'undecided (1 of 3 there)'),
        ([DOWN], {'wanted': 3}, 'does not hold (1 of 3 there)'),
        ([DOWN], {'wanted': 8, 'averaged': 8}, 'does not hold'),
        ([DOWN], {'wanted': 8, 'averaged': 3}, 'undecided (3 of 8 there)'),
        ([UP], {'wanted': 8, 'averaged': 8}, 'holds'),
        ([UP], {'wanted': 8, 'averaged': 1}, 'undecided (1 of 8 there)'),
    ],
)
def test_a_verdict_is_read_off_the_intervals_and_the_seeds(measured, fields, expected):
    found = {i: estimate(*one) for i, one in enumerate(measured)}
    assert (
        claims.verdict(claims.Claim('', '', found, '', **{'wanted': len(found)} | fields))
        == expected
    )


def test_many_differences_need_bonferronis_level_to_fail():
    draws = np.concatenate([np.full(1980, -0.1), np.full(20, 0.1)])  # 1% above 0
    one = Estimate(-0.1, draws, 10, {0: (-0.1, draws), 1: (-0.1, draws)}, 'x')
    for others, expected in ((0, claims.FAILS), (8, claims.UNDECIDED)):
        found = dict(enumerate([one, *[estimate(*UP)] * others]))
        assert claims.verdict(claims.Claim('', '', found, '', len(found))) == expected
