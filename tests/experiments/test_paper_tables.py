"""experiments.lib.bootstrap, tables, paper and the tables' programs: text against figures worked out by hand."""
import json
import math

import numpy as np
import pytest
from gpt1_jax.configs import experiments as experiments_config

from experiments import table5_ablations
from experiments import tables as tables_2_to_4
from experiments.lib import bootstrap, paper, run_list, runner, tables
from gpt1_jax.errors import UserError
from outcomes import HARD, Made

pytestmark = pytest.mark.full


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / 'runs')


def test_the_papers_nine_values_give_its_glue_score():
    found = {task: [figure.paper for figure in figures] for task, figures in paper.GLUE.items()}
    assert len(found) == 9 and round(paper.glue_score(found), 1) == paper.GLUE_SCORE == 72.8
    assert paper.glue_score({'a': [10.0, 20.0], 'b': [45.0]}) == 30.0


def test_a_missing_figure_is_missing_from_both_averages():
    figures = [figure for several in paper.GLUE.values() for figure in several]
    found = {figure: None for figure in figures} | {paper.COLA: 0.5, paper.MNLI: 0.7}
    ours, theirs, missing = paper.shared_glue(found)
    assert ours == {'CoLA': [0.5], 'MNLI': [0.7]} and theirs == {'CoLA': [45.4], 'MNLI': [82.1]}
    assert 'MNLI mismatched' in missing and 'MRPC (f1)' in missing and 'WNLI' in missing and 'CoLA' not in missing


@pytest.mark.parametrize('condition', paper.TABLE5)
def test_the_printed_averages_of_table_5_are_the_means_of_its_columns(condition):
    # The LSTM's columns give 69.16, printed as 69.1; full's 74.65 as 74.7.
    assert np.mean(paper.TABLE5[condition]) == pytest.approx(paper.TABLE5_AVERAGE[condition], abs=0.065)


def test_several_seeds_give_median_range_and_joint_interval(made):
    for seed, right in enumerate((700, 500, 600)):
        made.add('sst2', 'full', seed, right, n=HARD)
    found = tables.find(made.outcomes, 'sst2', 'full', 'accuracy', 'dev', 'final')
    assert found.value == pytest.approx(0.6) and found.range == (0.5, 0.7) and found.seeds == (0, 1, 2)
    low, high = found.interval()  # each seed's right items are nested, so the median is the 600 items' share
    assert low == pytest.approx(0.6 - 1.96 * math.sqrt(.24 / HARD), abs=0.006)
    assert high == pytest.approx(0.6 + 1.96 * math.sqrt(.24 / HARD), abs=0.006)


def test_a_difference_is_paired_over_items_and_over_the_seeds_that_both_have(made):
    for seed in (0, 1):
        made.add('sst2', 'full', seed, 600, n=HARD)
    made.add('sst2', 'no_aux', 0, 590, n=HARD)
    one = tables.difference(made.outcomes, (paper.SST2,), 'full', 'no_aux')
    assert one.value == pytest.approx(0.01) and one.seeds == (0,)
    low, high = one.interval()  # ten items differ: 10 -+ 1.96 sqrt(10) of 1,000
    assert 0.003 <= low <= 0.006 and 0.014 <= high <= 0.018


def test_a_difference_of_other_items_or_a_file_of_something_else_is_refused(made):
    made.add('sst2', 'full', 0, 6)
    made.add('sst2', 'no_aux', 0, 6, n=12)
    with pytest.raises(UserError, match='not about the same items'):
        tables.difference(made.outcomes, (paper.SST2,), 'full', 'no_aux')
    made.add('rte', 'full', 0, 6, value=0.9)
    with pytest.raises(UserError, match='something else was written there'):
        tables.find(made.outcomes, 'rte', 'full', 'accuracy', 'dev', 'final')


def test_means_of_several_sets_are_resampled_apart(made):
    made.add('sst2', 'full', 0, 500, n=HARD)
    made.add('qnli', 'full', 0, 500, n=HARD - 1, value=500 / (HARD - 1))
    a, b = (tables.shown(made.outcomes, figure)[0] for figure in (paper.SST2, paper.QNLI))
    assert abs(np.corrcoef(a.draws, b.draws)[0, 1]) < 0.1
    low, high = bootstrap.mean([a, b]).interval()
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(.25 / HARD / 2), rel=0.1)


def test_a_group_is_of_its_own_rows(made, tmp_path):
    path = tmp_path / 'race.jsonl'
    rows = [{'id': f'{group}/1.txt/{i}', 'gold': 0, 'scores': [1.0, 0.0] if right else [0.0, 1.0]}
            for group, rights in (('middle', (1, 1, 1, 0)), ('high', (0, 1))) for i, right in enumerate(rights)]
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    row = {'metric': 'accuracy', 'seed': 0, 'predictions': str(path)}
    assert bootstrap.of_rows([row | {'group': 'middle', 'value': 0.75, 'n': 4}]).value == 0.75
    assert bootstrap.of_rows([row | {'group': None, 'value': 4 / 6, 'n': 6}]).n == 6


def test_a_public_test_split_is_reported_with_the_parameters_best_on_dev(made):
    snli = paper.TABLE2[2]
    made.add('snli', 'full', 0, 5)
    assert tables_2_to_4.line(made.outcomes, snli)[9:] == ['dev', 'final', '50.0']
    made.add('snli', 'full', 0, 8, n=20, split='test')
    line = tables_2_to_4.line(made.outcomes, snli)
    assert line[:4] == ['SNLI', 'accuracy', '89.9', '40.0'] and line[7:] == ['1', '20', 'test', 'best', '']


def test_scores_on_other_splits_have_no_difference(made):
    """One run was stopped before it had scored test."""
    made.add('snli', 'full', 0, 8, n=20, split='test')
    made.add('snli', 'no_pretraining', 0, 5)
    assert tables.difference(made.outcomes, (paper.TABLE2[2],), 'full', 'no_pretraining') is None
    made.add('sst2', 'full', 1, 5)
    made.add('sst2', 'no_aux', 0, 5)  # nor have those of other seeds
    assert tables.difference(made.outcomes, (paper.SST2,), 'full', 'no_aux') is None


def test_glue_is_on_dev_with_the_last_parameters_and_an_optimistic_column(made):
    made.add('rte', 'full', 0, 5, selections=('final',))
    made.add('rte', 'full', 0, 7, selections=('best',))
    line = tables_2_to_4.line(made.outcomes, paper.RTE)
    assert line[:4] == ['RTE', 'accuracy', '56.0', '50.0'] and line[7:] == ['1', '10', 'dev', 'final', '70.0']
    assert tables_2_to_4.line(made.outcomes, paper.QNLI)[:5] == ['QNLI', 'accuracy', '88.1', 'n/a', '']  # no data


def test_the_glue_row_is_averaged_over_what_is_there_and_says_so(made):
    made.add('rte', 'full', 0, 5)
    made.add('mnli', 'full', 0, 7)
    made.add('mnli', 'full', 0, 9, split='dev_mismatched')
    row, about = tables_2_to_4.glue_line(made.outcomes)
    assert row[:4] == ['GLUE', 'mean', f'{(56 + 81.75) / 2:.1f}', '65.0']  # (50 + (70 + 90) / 2) / 2
    assert 'Missing here: CoLA, SST-2, MRPC (f1), MRPC (accuracy)' in about and '2 tasks' in about and '72.8' in about


@pytest.fixture
def config():
    config = experiments_config.get_config()
    config.pretrained, config.lstm, config.data, config.seeds_small = 'gpt', 'lstm', 'data', (0,)
    config.grid = {'optimizer': {'peak_rate': (1e-4, 1e-3)}}
    return config


def test_a_model_that_was_imported_by_its_name_is_named_without_this_machine_s_cache(config, monkeypatch, tmp_path):
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path))
    config.pretrained = str(tmp_path / 'packaged' / 'novels-c824239fb9b9')
    assert tables.pretrained(config) == 'Pretrained: packaged/novels-c824239fb9b9; LSTM: lstm.'
    config.pretrained, config.lstm = 'runs/gpt1', None
    assert tables.pretrained(config) == 'Pretrained: runs/gpt1.'


@pytest.mark.parametrize('number, task, split, others, theirs', [
    (2, 'rte', 'dev', {'mnli', 'snli', 'qnli', 'scitail'}, (82.1, 81.4, 89.9, 88.3, 88.1, 56.0)),
    (3, 'story_cloze', 'test', {'race'}, (86.5, 62.9, 57.4, 59.0))])
def test_tables_2_and_3_have_every_figure_of_the_paper_s_beside_ours(
        number, task, split, others, theirs, made, config, monkeypatch, tmp_path):
    made.add(task, 'full', 0, 7, split=split)
    planned, config.out = [], str(tmp_path / 'out')
    monkeypatch.setattr(run_list, 'check', lambda config: None)
    monkeypatch.setattr(runner, 'carry_out', lambda config, wanted, dry_run: planned.extend(wanted) or made.outcomes)
    lines = [line for line in tables_2_to_4.run(config, numbers=[number]) if line.startswith('| ')][2:]
    rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
    assert tuple(float(row[2]) for row in rows) == theirs
    assert [(row[2], row[3]) for row in rows if row[3] != 'n/a'] == [('56.0' if task == 'rte' else '86.5', '70.0')]
    assert {one.task for one in planned} == {task, *others} and {one.condition for one in planned} == {'full'}


def test_table_5_plans_every_condition_and_one_grid_for_both(config):
    wanted = table5_ablations.specs(config)
    conditions = {one.condition for one in wanted}
    assert conditions == {'full', 'no_pretraining', 'no_aux', 'lstm', *(
        f'{c}@peak_rate={rate}' for c in ('full', 'no_pretraining') for rate in ('0.0001', '0.001'))}
    assert len(wanted) == 8 * 8
    by = {one.name: one.config for one in wanted}
    assert by['rte-no_pretraining-0'].n_transfer == -1 and by['rte-no_pretraining-0'].init_from == 'gpt'
    assert by['rte-no_aux-0'].lm_weight == 0 and by['rte-lstm-0'].init_from == 'lstm'
    assert by['rte-no_pretraining@peak_rate=0.001-0'].optimizer.peak_rate == 1e-3
    assert by['rte-no_pretraining@peak_rate=0.001-0'].n_transfer == -1


def row_of(lines, label):
    (line,) = [line for line in lines if line.startswith(f'| {label} |')][:1]
    return [cell.strip() for cell in line.split('|')[2:-1]]


@pytest.fixture
def ablated(made, config):
    """SST-2, RTE and MNLI (matched alone): full 8, 6, 7 of 10; no pretraining 5 of 10 each, 6 at the higher rate."""
    for task, right in (('sst2', 8), ('rte', 6), ('mnli', 7)):
        made.add(task, 'full', 0, right)
        made.add(task, 'no_aux', 0, right)
        made.add(task, 'no_pretraining', 0, 5)
        for rate, scratch in (('0.0001', 5), ('0.001', 6)):
            made.add(task, f'no_pretraining@peak_rate={rate}', 0, scratch)
            made.add(task, f'full@peak_rate={rate}', 0, right if rate == '0.0001' else 3)
    return table5_ablations.lines(config, made.outcomes)


def test_table_5_averages_ours_and_the_papers_over_the_shared_columns(ablated):
    assert '| Avg | SST2 (acc) | MNLI (acc) | RTE (acc) |' in ablated[4]
    assert row_of(ablated, 'full, ours') == ['70.0', '80.0', '70.0', '60.0']
    assert row_of(ablated, 'full, paper (test)') == [f'{(91.3 + 81.8 + 56) / 3:.1f}', '91.3', '81.8', '56.0']
    assert row_of(ablated, 'LSTM, ours') == ['n/a', 'n/a', 'n/a', 'n/a']
    text = '\n'.join(ablated)
    assert 'Missing here: CoLA (mc), MRPC (F1), STSB (pc), QQP (F1), QNLI (acc)' in text
    assert 'Missing within a column: MNLI mismatched' in text


def test_table_5_has_both_at_the_best_of_the_same_grid(ablated):
    best = 'no pretraining, ours, best of the grid (peak_rate=0.001)'
    assert row_of(ablated, best) == ['60.0', '60.0', '60.0', '60.0']
    assert row_of(ablated, 'full, ours, best of the grid (peak_rate=0.0001)')[0] == '70.0'
    assert row_of(ablated, 'no pretraining, ours')[0] == '50.0'


def test_table_5_has_differences_with_intervals_and_every_score_with_seeds_items_split_and_parameters(ablated):
    found = row_of(ablated, 'full − no pretraining, ours')
    assert [cell.split(' ')[0] for cell in found] == ['+20.0', '+30.0', '+20.0', '+10.0']
    assert row_of(ablated, 'full − no auxiliary LM, ours')[1] == '+0.0 (+0.0 to +0.0)'
    paper_row = row_of(ablated, 'full − no pretraining, paper (test)')
    assert paper_row == [f'{(7.3 + 6.1 + 2.2) / 3:+.1f}', '+7.3', '+6.1', '+2.2']
    best = row_of(ablated, 'full − no pretraining, ours, each at its best of the grid')
    assert best[0].startswith('+10.0')
    found = [line for line in ablated if line.startswith('| no pretraining at peak_rate=0.001 | MNLI matched')]
    assert len(found) == 1 and '| 60.0 |' in found[0] and found[0].endswith('| 1 | 10 | dev | final | 60.0 |')


def test_table_5_has_no_best_of_a_grid_with_one_point(made, config):
    config.grid = {'optimizer': {'peak_rate': (1e-4,)}}
    for condition in ('full', 'full@peak_rate=0.0001', 'no_pretraining', 'no_pretraining@peak_rate=0.0001'):
        made.add('sst2', condition, 0, 5)
    text = '\n'.join(table5_ablations.lines(config, made.outcomes))
    assert 'full, ours |' in text and 'of the grid' not in text and 'The grid' not in text


def test_the_baselines_are_beside_ours_in_every_table(made, config, tmp_path):
    config.out = str(tmp_path)
    rows = [{'task': task, 'split': 'dev', 'group': None, 'metric': 'accuracy', 'baseline': name, 'value': value}
            for task, values in (('sst2', (0.5, 0.75)), ('rte', (0.53, 0.58)))
            for name, value in zip(('constant', 'words'), values)]
    (tmp_path / tables.BASELINES_FILE).write_text(json.dumps({'rows': rows}))
    for task, right in (('sst2', 8), ('rte', 5)):
        made.add(task, 'full', 0, right)
    found = {paper.RTE: '58.0 (n-grams); ours is below', paper.SST2: '75.0 (n-grams)'}
    for number, score in ((2, paper.RTE), (4, paper.SST2)):
        assert row_of(tables_2_to_4.lines(config, made.outcomes, number), score.label)[3] == found[score]
    ablations = table5_ablations.lines(config, made.outcomes)
    assert row_of(ablations, 'baseline: n-grams') == ['66.5', '75.0', '58.0']  # Avg, SST2, RTE
    assert row_of(ablations, 'baseline: constant answer') == ['51.5', '50.0', '53.0']
