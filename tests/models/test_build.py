import json

import jax
import numpy as np
import pytest

from gpt1_jax import pretrain
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import log_probs
from gpt1_jax.models.build import KINDS, backbone, own_fields, sizes
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint, workdir
from meshes import shapes
from tiny import corpus, load_config, pretrain_config


def test_fields_without_a_kind_are_a_gpts_as_in_older_runs():
    older = dict(n_layer=3, n_embd=8, n_head=2, n_inner=12, n_ctx=5, embd_dropout=0.1, attn_dropout=0.2,
                 resid_dropout=0.3, dtype='float32', remat=False, unroll=1, vocab_size=7)
    assert backbone(older) == GPT(GPTConfig(**older))
    assert own_fields(older) == older | {'kind': 'gpt', 'ops': {}}


def test_each_kind_reads_its_own_fields_alone():
    fields = dict(n_layer=3, n_embd=8, n_head=2, n_inner=12, n_units=6, n_ctx=5, attn_dropout=0.2, resid_dropout=0.3)
    assert own_fields(fields | {'kind': 'lstm'}) == {'kind': 'lstm', 'n_units': 6, 'n_ctx': 5, 'resid_dropout': 0.3}
    assert 'n_units' not in own_fields(fields)
    assert backbone(fields | {'kind': 'lstm', 'n_special': 3}) == LSTM(
        LSTMConfig(n_special=3, n_units=6, n_ctx=5, resid_dropout=0.3))


def test_fields_survive_a_runs_config_json():
    for kind in KINDS:
        stored = own_fields(load_config('pretrain').model.to_dict() | {'kind': kind, 'vocab_size': 9})
        assert backbone(json.loads(json.dumps(stored))) == backbone(stored)
        assert set(sizes(kind)) < stored.keys()


@pytest.mark.parametrize('kind, near', [('LSTM', ", did you mean 'lstm'?"), ('ltsm', ", did you mean 'lstm'?"),
                                        ('gpt1', ", did you mean 'gpt'?"), ('transformer', ''), (None, '')])
def test_an_unknown_kind_is_refused_with_the_nearest_one(kind, near):
    for function in (backbone, own_fields):
        with pytest.raises(UserError) as error:
            function({'kind': kind})
        assert str(error.value) == f"model.kind is {kind!r}{near} (there are 'gpt', 'lstm', and FILE:CLASS)"


def test_a_field_of_no_kind_is_refused_with_the_nearest_one():
    with pytest.raises(UserError, match="^unknown field model.n_unit, did you mean 'n_units'[?]$"):
        backbone({'kind': 'lstm', 'n_unit': 8})


@pytest.mark.parametrize('kind, width, depth', [('gpt', 8, 2), ('lstm', 6, 1)])
def test_every_kind_has_a_width_a_depth_and_the_same_tree(kind, width, depth):
    model = backbone(dict(kind=kind, vocab_size=7, n_ctx=5, n_embd=8, n_layer=2, n_head=2, n_inner=12, n_units=6))
    tree = shapes(model)
    assert (model.config.n_embd, model.config.n_layer, model.config.n_ctx) == (width, depth, 5)
    assert tree.keys() == {'embed', 'blocks'} and tree['embed']['tokens'].shape == (7, width)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(tree['blocks'])} == {depth}


def test_a_run_stores_the_fields_of_its_kind_and_opens_as_the_same_model(tmp_path):
    config = pretrain_config(corpus(tmp_path / 'text'), model__kind='lstm', model__n_units=16, train__steps=6)
    run = workdir.load(pretrain.run(config, tmp_path / 'run').path)
    assert run.config['model'] == dict(
        kind='lstm', n_units=16, n_ctx=16, embd_dropout=0.1, resid_dropout=0.1, remat=False, dtype='float32', unroll=0,
        precision='highest', kernels='auto', vocab_size=run.tokenizer().vocab_size)
    model = backbone(run.config['model'])
    assert isinstance(model, LSTM)
    params = checkpoint.restore_params(run.checkpoints, 6, sharding.abstract(shapes(model), sharding.make_mesh()))
    sums, _ = log_probs.last_tokens(model, params, sharding.make_mesh(), [([1, 2, 3], 2)])
    assert np.isfinite(sums).all()
