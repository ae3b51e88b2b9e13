"""Zero-shot scoring of a pretrained run: steps, splits, groups, the fields of a row of results, and
BLiMP."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest

import official
from gpt1_jax import metrics, pretraining, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, log_probs
from gpt1_jax.models import build
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import results
from tiny import cola, load_config, override, pretrain_config

pytestmark = pytest.mark.full


def config(task, pretrained, directory, **overrides):
    return override(
        load_config('zero_shot', task),
        {'init_from': str(pretrained), 'data__dir': str(directory)} | overrides,
    )


def recomputed(row):
    _, gold, scores = metrics.read_predictions(row['predictions'])
    return metrics.compute([row['metric']], gold, scores)[row['metric']]


def test_every_saved_step_is_scored_and_its_predictions_recompute(pretrained, tmp_path):
    data = cola(tmp_path / 'cola')
    rows = zero_shot.run(config('cola', pretrained, data, results=str(tmp_path / 'results.jsonl')))
    assert [(row['step'], row['metric']) for row in rows] == [
        *((step, metric) for step in (2, 4) for metric in ('matthews', 'accuracy'))
    ]
    assert results.read(tmp_path / 'results.jsonl') == rows
    for row in rows:
        assert recomputed(row) == row['value'] and row['threshold'] < 0
        assert (row['n'], row['skipped']) == (13, 0)
        assert pathlib.Path(row['predictions']).parent == tmp_path  # beside the results
        # The threshold comes from the training split
        assert sorted(row['files']) == ['dev.tsv', 'train.tsv']


def test_a_step_that_is_deleted_before_its_turn_is_left_out(
    pretrained, tmp_path, monkeypatch, capsys
):
    run = shutil.copytree(pretrained, tmp_path / 'run')
    original = zero_shot._rows

    def deleting(*given):
        shutil.rmtree(run / 'checkpoints' / '2', ignore_errors=True)
        return original(*given)

    monkeypatch.setattr(zero_shot, '_rows', deleting)
    rows = zero_shot.run(config('cola', run, cola(tmp_path / 'cola')))
    assert {row['step'] for row in rows} == {4}
    assert 'step 2: deleted meanwhile, not scored' in capsys.readouterr().out


def test_the_key_says_whether_a_row_was_made_from_the_same_things(pretrained, tmp_path):
    wanted = config('cola', pretrained, cola(tmp_path / 'cola'))

    def key(step=4, **fields):
        return zero_shot.run_key(override(wanted.copy_and_resolve_references(), fields), step)

    assert {row['key'] for row in zero_shot.run(wanted, steps=[4])} == {key()}
    assert key() == key(tokens_per_batch=64)  # changes no value
    other = zero_shot.run_key(wanted, 4, code='other')
    keys = [key(), key(2), other, key(data__rows=5), key(data__skip_bad=True)]
    with open(tmp_path / 'cola' / 'train.tsv', 'a') as file:
        file.write('gj04\t1\t\tThe cat sat.\n')
    assert len({*keys, key()}) == 6


def test_bad_rows_are_left_out_where_that_is_asked_for(pretrained, tmp_path):
    data = cola(tmp_path / 'cola')
    with open(data / 'dev.tsv', 'a') as file:
        file.write('gj04\t1\t\tthe\ngj04\t7\t\tthe cat sat\n')  # one token; no such label
    with pytest.raises(UserError, match='row 15'):
        zero_shot.run(config('cola', pretrained, data, step=4))
    rows = zero_shot.run(config('cola', pretrained, data, step=4, data__skip_bad=True))
    assert [(row['n'], row['skipped']) for row in rows] == [(13, 2)] * 2


@pytest.mark.parametrize(
    'overrides, message',
    [
        ({'step': 3}, 'no checkpoint of step 3; there are 2, 4'),
        ({'init_from': 'nowhere'}, 'nowhere: not a run directory'),
        ({'task': 'rte'}, "no zero-shot evaluator 'rte'"),
        ({'data__dir': ''}, 'give --config.data.dir'),
        ({'data__split': 'best'}, "cola has no split 'best'"),
        ({'data__filter': 'filter.json'}, 'config.data.filter is for blimp, not for cola'),
    ],
)
def test_a_mistake_is_named(pretrained, tmp_path, overrides, message):
    with pytest.raises(UserError, match=message):
        zero_shot.run(override(config('cola', pretrained, cola(tmp_path / 'cola')), overrides))


def test_a_run_that_may_not_be_written_is_named_and_left_as_it_is(
    pretrained, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, 'access', lambda path, mode: not str(path).startswith(str(pretrained)))
    before = sorted(pretrained.rglob('*'))
    wanted = config('cola', pretrained, cola(tmp_path / 'cola'))
    with pytest.raises(UserError, match=f'{pretrained}/results.jsonl: is .* may not be written'):
        zero_shot.run(wanted)
    zero_shot.run(override(wanted, {'results': str(tmp_path / 'results.jsonl')}))
    assert sorted(pretrained.rglob('*')) == before


# BLiMP


@pytest.fixture(scope='module')
def blimp(tmp_path_factory):
    directory = tmp_path_factory.mktemp('blimp') / 'data'
    official.blimp(directory)
    return directory


def test_a_step_has_rows_for_all_pairs_phenomena_and_sets(pretrained, blimp, tmp_path, capsys):
    given = config('blimp', pretrained, blimp, results=str(tmp_path / 'results.jsonl'), step=4)
    rows = zero_shot.run(given)
    overall = ['', '_ties_wrong', '_ties_right', '_phenomena', '_first_unscored']
    groups = 'argument_structure binding quantifiers argument_structure/birds_1'.split()
    groups += 'argument_structure/birds_2 binding/hills quantifiers/rivers'.split()
    expected = [(None, f'accuracy{metric}') for metric in overall]
    expected += [(group, 'accuracy') for group in groups]
    assert [(row['group'], row['metric']) for row in rows] == expected
    row = rows[0]
    assert row['value'] == pytest.approx(np.mean([of_set['value'] for of_set in rows[8:]]))
    assert row['low'] < row['value'] < row['high'] and row['n'] == 32 and row['ties'] == 2
    assert 'n = 32, 2 ties)' in capsys.readouterr().out


def test_a_run_in_bfloat16_is_scored_in_float32(pretrained, blimp, tmp_path):
    tokens = str(pretrained / 'tokens')
    config_16 = pretrain_config(
        '', data__tokens=tokens, model__n_ctx=64, train__steps=20, model__dtype='bfloat16'
    )
    run = pretraining.run(config_16, tmp_path / 'run')
    (row, *_) = zero_shot.run(config('blimp', run.path, blimp, step=20))
    scores = metrics.read_predictions(row['predictions'])[2]
    mesh = sharding.make_mesh()
    plain, params = load.pretrained(run, 20, mesh)
    exact = build.backbone(run.config['model'] | {'unroll': 0, 'dtype': 'float32'})
    sentence = tasks.get('blimp').read(blimp, 'test')[0].choices[0]
    tokenizer = run.tokenizer()
    ids = np.array([tokenizer.newline_id, *tokenizer.encode(sentence)])
    rounded, right = (log_probs.by_token(model, params, mesh, ids) for model in (plain, exact))
    assert scores[0, 0] == pytest.approx(right.sum(), abs=1e-4)
    assert np.abs(rounded - right).max() > 1e-3


def test_the_filter_is_reported_and_part_of_the_key(pretrained, blimp, tmp_path):
    file = tmp_path / 'filter.json'
    file.write_text(json.dumps({'hills': [0, 1], 'rivers': [5]}))
    plain, filtered = (
        config('blimp', pretrained, blimp, step=4, **more)
        for more in ({}, {'data__filter': str(file)})
    )
    (row,) = [row for row in zero_shot.run(filtered) if row['metric'] == 'accuracy_filtered']
    assert row['n'] == 3 and 'filter.json' in row['files']
    assert zero_shot.run_key(plain, 4) != zero_shot.run_key(filtered, 4) == row['key']
