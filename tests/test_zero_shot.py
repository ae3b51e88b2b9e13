"""Zero-shot scoring of a pretrained run: steps, splits, groups, and what a row of results records."""
import os

import pytest

from gpt1_jax import metrics, zero_shot
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results
from tiny import cola, load_config, override

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:.*the published set has')]


def config(task, pretrained, directory, **overrides):
    return override(load_config('zero_shot', task),
                    {'init_from': str(pretrained), 'data__dir': str(directory)} | overrides)


def recomputed(row):
    """Its figure, from the predictions that it names."""
    _, gold, scores = metrics.read_predictions(row['predictions'])
    return metrics.compute([row['metric']], gold, scores)[row['metric']]


def test_every_saved_step_is_scored_and_its_predictions_recompute(pretrained, tmp_path):
    data = cola(tmp_path / 'cola')
    rows = zero_shot.run(config('cola', pretrained, data, results=str(tmp_path / 'results.jsonl')))
    assert [(row['step'], row['metric']) for row in rows] == [
        (2, 'matthews'), (2, 'accuracy'), (4, 'matthews'), (4, 'accuracy')]
    assert results.read(tmp_path / 'results.jsonl') == rows
    for row in rows:
        assert recomputed(row) == row['value']
        assert row['n'] == 13 and row['threshold'] < 0 and len(row['digest']) == 16
        assert row['group'] is None and row['skipped'] == 0 and row['split'] == 'dev'
        assert sorted(row['files']) == ['dev.tsv', 'train.tsv']  # the threshold comes from the training split


def test_the_key_says_whether_a_row_was_made_from_the_same_things(pretrained, tmp_path):
    wanted = config('cola', pretrained, cola(tmp_path / 'cola'))
    key = zero_shot.run_key(wanted, 4)
    assert {row['key'] for row in zero_shot.run(wanted, steps=[4])} == {key}
    assert key == zero_shot.run_key(override(wanted, {'tokens_per_batch': 64}), 4)  # changes no value
    keys = [key, zero_shot.run_key(wanted, 2), zero_shot.run_key(wanted, 4, code='other')]
    for field, value in (('data__rows', 5), ('data__skip_bad', True)):
        keys.append(zero_shot.run_key(override(wanted.copy_and_resolve_references(), {field: value}), 4))
    with open(tmp_path / 'cola' / 'train.tsv', 'a') as file:
        file.write('gj04\t1\t\tThe cat sat.\n')
    keys.append(zero_shot.run_key(wanted, 4))
    assert len(set(keys)) == len(keys) == 6


def test_bad_rows_are_left_out_where_that_is_asked_for(pretrained, tmp_path, capsys):
    data = cola(tmp_path / 'cola')
    with open(data / 'dev.tsv', 'a') as file:
        file.write('gj04\t1\t\tthe\ngj04\t7\t\tthe cat sat\n')  # one token; no such label
    with pytest.raises(UserError, match='row 15'):
        zero_shot.run(config('cola', pretrained, data, step=4))
    rows = zero_shot.run(config('cola', pretrained, data, step=4, data__skip_bad=True))
    assert [(row['n'], row['skipped']) for row in rows] == [(13, 2)] * 2
    assert 'cola: 2 bad row(s) left out, the first: ' in capsys.readouterr().out


@pytest.mark.parametrize('overrides, message', [
    ({'step': 3}, 'no checkpoint of step 3; there are 2, 4'), ({'init_from': None}, 'give --config.init_from'),
    ({'init_from': 'nowhere'}, 'nowhere: not a run directory'), ({'task': 'rte'}, "no zero-shot evaluator for 'rte'"),
    ({'data__dir': 'nowhere'}, 'nowhere/.*tsv: '), ({'data__dir': ''}, 'give --config.data.dir'),
    ({'data__split': 'best'}, "cola has no split 'best'"), ({'data__split': 'test'}, 'cola'),
    ({'data__rows': 0}, 'config.data.rows is 0, must be'),
    ({'data__filter': 'filter.json'}, 'config.data.filter is for blimp, not for cola')])
def test_a_mistake_is_named(pretrained, tmp_path, overrides, message):
    with pytest.raises(UserError, match=message):
        zero_shot.run(override(config('cola', pretrained, cola(tmp_path / 'cola')), overrides))


def test_predictions_of_a_run_that_may_not_be_written_go_beside_the_results(pretrained, tmp_path, monkeypatch):
    monkeypatch.setattr(os, 'access', lambda path, mode: not str(path).startswith(str(pretrained)))
    before = sorted(pretrained.rglob('*'))
    wanted = config('cola', pretrained, cola(tmp_path / 'cola'))
    with pytest.raises(UserError, match=f'{pretrained}: may not be written: give --config.results=FILE, and'):
        zero_shot.run(wanted)
    rows = zero_shot.run(override(wanted, {'results': str(tmp_path / 'results.jsonl')}))
    assert results.read(tmp_path / 'results.jsonl') == rows and sorted(pretrained.rglob('*')) == before
    for row in rows:
        assert row['predictions'] == str(next(tmp_path.glob(f'predictions_zero_shot_cola_dev_{row["step"]}_*.jsonl')))
        assert recomputed(row) == row['value']
