"""BLiMP through gpt1_jax.zero_shot: at every saved step, whatever the batch, in float32, as lm-evaluation-harness."""
import json

import numpy as np
import pytest

import official
from gpt1_jax import metrics, pretrain, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.evaluation import load, log_probs
from gpt1_jax.models import build
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import results
from tiny import corpus, load_config, override, pretrain_config

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:.*the published set has')]
OVERALL = ['accuracy', 'accuracy_ties_wrong', 'accuracy_ties_right', 'accuracy_phenomena', 'accuracy_first_unscored']
# A run that has learned something, so that answers are no accidents of rounding.
SMALL = dict(model__n_ctx=64, train__steps=20, checkpoint__every=10, checkpoint__keep_steps=(10,),
             tokenizer__merges=200)


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    """A directory with run/ and data/."""
    base = tmp_path_factory.mktemp('blimp')
    pretrain.run(pretrain_config(corpus(base / 'text'), **SMALL), base / 'run')
    official.blimp(base / 'data')
    return base


def config(base, run='run', **overrides):
    return override(load_config('zero_shot', 'blimp'),
                    {'init_from': str(base / run), 'data__dir': str(base / 'data')} | overrides)


def test_every_saved_step_has_rows_for_all_pairs_phenomena_and_sets(base, tmp_path, capsys):
    rows = zero_shot.run(config(base, results=str(tmp_path / 'results.jsonl')))
    groups = ['argument_structure', 'binding', 'quantifiers']
    sets = ['argument_structure/birds_1', 'argument_structure/birds_2', 'binding/hills', 'quantifiers/rivers']
    expected = [(None, metric) for metric in OVERALL] + [(group, 'accuracy') for group in [*groups, *sets]]
    for step in (10, 20):
        assert [(row['group'], row['metric']) for row in rows if row['step'] == step] == expected
    assert results.read(tmp_path / 'results.jsonl') == rows
    overall = {row['step']: row for row in rows if row['group'] is None and row['metric'] == 'accuracy'}
    for row in overall.values():
        per_set = [other['value'] for other in rows if other['step'] == row['step'] and '/' in (other['group'] or '')]
        assert row['value'] == pytest.approx(np.mean(per_set)) and row['low'] < row['value'] < row['high']
        assert row['n'] == 32 and row['ties'] == 2
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith('blimp')]
    assert len(lines) == 2 * (5 + 3 + 1) and not any('birds_1' in line for line in lines)  # sets are in the file alone
    assert 'blimp zero-shot, step 10: accuracy 0.' in lines[0] and 'n = 32)' in lines[0]
    assert lines[8] == ('blimp: 2 ties count half: 0 of the 7 pairs of identical sentences in BLiMP, 2 others '
                        '(2 of them identical as tokens)')


def test_a_run_in_bfloat16_is_scored_in_float32(base):
    run = pretrain.run(pretrain_config('', data__tokens=str(base / 'run' / 'tokens'), model__dtype='bfloat16',
                                       **SMALL), base / 'bfloat16')
    _, _, scores = metrics.read_predictions(zero_shot.run(config(base, 'bfloat16', step=20))[0]['predictions'])
    mesh, tokenizer = sharding.make_mesh(), run.tokenizer()
    model, params = load.pretrained(run, 20, mesh)
    exact = build.backbone(run.config['model'] | {'unroll': 0, 'dtype': 'float32'})
    sentence = tasks.get('blimp').read(base / 'data', 'test')[0].choices[0]
    ids = np.array([tokenizer.newline_id, *tokenizer.encode(sentence)])
    plain, right = (log_probs.by_token(one, params, mesh, ids) for one in (model, exact))
    assert scores[0, 0] == pytest.approx(right.sum(), abs=1e-4) and np.abs(plain - right).max() > 1e-3


def test_the_filter_is_reported_and_part_of_the_key(base, tmp_path):
    (tmp_path / 'filter.json').write_text(json.dumps({'hills': [0, 1], 'rivers': [5]}))
    plain = config(base, step=20)
    filtered = config(base, step=20, data__filter=str(tmp_path / 'filter.json'))
    rows = zero_shot.run(filtered)
    (row,) = [row for row in rows if row['metric'] == 'accuracy_filtered']
    assert row['n'] == 3 and 'filter.json' in row['files']
    assert zero_shot.run_key(plain, 20) != zero_shot.run_key(filtered, 20) == row['key']
