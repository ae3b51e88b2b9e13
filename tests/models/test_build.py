import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import reference_lstm
from gpt1_jax import pretrain
from gpt1_jax.data import tokens
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import log_probs
from gpt1_jax.models.build import KINDS, backbone, own_fields, sizes
from gpt1_jax.models.dropout import Key
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint, results, workdir
from gpt1_jax.training import losses
from tiny import corpus, load_config, pretrain_config
from trees import names

SMALL = LSTMConfig(vocab_size=23, n_special=3, n_ctx=9, n_units=16)
TOKENS = np.array([[4, 22, 23, 0, 11, 25, 7], [24, 3, 3, 19, 8, 1, 0]], np.int32)  # 23 to 25 are specials
KEY = Key(jnp.uint32(5), jnp.uint32(700), jnp.uint32(0))


def shapes(model):
    return jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))['params']


def weights(config, seed=1):
    return reference_lstm.weights(shapes(LSTM(config)), seed)


@pytest.fixture(scope='module')
def params():
    return weights(SMALL)


# From fields to a module

@pytest.mark.parametrize('kind, module', [('gpt', GPT(GPTConfig())), ('lstm', LSTM(LSTMConfig()))])
def test_a_kind_alone_in_the_pretraining_config_is_the_papers_model(kind, module):
    config = load_config('pretrain')
    assert config.model.kind == 'gpt'
    config.model.kind = kind
    assert backbone(config.model.to_dict()) == backbone({'kind': kind}) == module


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


# The rest of the library takes it for a GPT

@pytest.mark.full
@pytest.mark.parametrize('head, K, width', [('classify', 1, 3), ('similarity', 2, 3), ('choice', 4, 4)])
def test_a_task_model_reads_states_at_extract_and_trains_every_weight_of_the_backbone(head, K, width):
    model = TaskModel(LSTM(SMALL), head, 3)
    generator = np.random.default_rng(0)
    ids, extract = generator.integers(0, 26, (2, K, 9)), generator.integers(2, 9, (2, K))
    params = model.init(jax.random.key(0), jnp.asarray(ids), jnp.asarray(extract))['params']
    params = params | {'backbone': weights(SMALL)}

    def loss(params, key=KEY):
        logits, h, table = model.apply({'params': params}, ids, extract, key)
        assert logits.shape == (2, width) and h.shape == (2 * K, 9, 16)
        mask = (np.arange(9) <= extract[:, :, None]).reshape(-1, 9)
        lm = losses.auxiliary_lm_loss(h, table, ids.reshape(-1, 9), mask)
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - logits[:, 0]) + 0.5 * jnp.mean(lm), logits
    (_, logits), gradients = jax.value_and_grad(loss, has_aux=True)(params)
    for name, g in names(gradients).items():
        # One shared bias moves all choices alike.
        assert (np.abs(g).max() > 1e-6) != (head == 'choice' and name == 'classifier/bias'), name
    states = reference_lstm.lstm(params['backbone'], ids.reshape(-1, 9)).reshape(2, K, 9, 16)
    pooled = np.take_along_axis(states, extract[:, :, None, None], axis=2)[:, :, 0]
    pooled = pooled if head == 'choice' else pooled.sum(1, keepdims=True)
    classifier = jax.device_get(params['classifier'])
    expected = (pooled @ classifier['kernel'] + classifier['bias']).reshape(2, -1)
    np.testing.assert_allclose(loss(params, None)[1], expected, atol=1e-5)


def test_auxiliary_loss_is_over_vocabulary_and_specials_as_there_are_no_positions(params):
    h, table = LSTM(SMALL).apply({'params': params}, TOKENS)
    rows = np.concatenate([params['embed']['tokens'], params['embed']['specials']]).astype(np.float64)
    each = reference.cross_entropy(reference_lstm.lstm(params, TOKENS)[:, :-1] @ rows.T, TOKENS[:, 1:])
    mask = np.array([[1] * 7, [1] * 4 + [0] * 3])
    np.testing.assert_allclose(losses.auxiliary_lm_loss(h, table, TOKENS, mask),
                               [each[0].mean(), each[1, :3].mean()], rtol=1e-5)


def test_scores_are_sums_of_log_probabilities():
    config = dataclasses.replace(SMALL, n_special=0)
    params = weights(config)
    sequences = [([1, 2, 3, 4, 5], 4), ([7, 7, 0, 22], 1)]
    sums, counts = log_probs.score(LSTM(config), params, sharding.make_mesh(), sequences)
    for (ids, n), found in zip(sequences, sums):
        logits = reference_lstm.lstm(params, np.array([ids]))[0] @ params['embed']['tokens'].T.astype(np.float64)
        assert found == pytest.approx(-reference.cross_entropy(logits[:-1], np.array(ids[1:]))[-n:].sum(), rel=1e-5)
    assert list(counts) == [4, 1]


# Pretraining

@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('backbone') / 'text')


def lstm_config(text, **overrides):
    return pretrain_config(text, **dict(model__kind='lstm', model__n_units=16, train__steps=6, checkpoint__every=3,
                                        log_every=1) | overrides)


@pytest.fixture(scope='module')
def straight(text, tmp_path_factory):
    return pretrain.run(lstm_config(text), tmp_path_factory.mktemp('straight') / 'run')


def test_a_run_stores_the_fields_of_its_kind_and_opens_as_the_same_model(straight):
    run = workdir.load(straight.path)
    assert run.config['model'] == dict(
        kind='lstm', n_units=16, n_ctx=16, embd_dropout=0.1, resid_dropout=0.1, remat=False, dtype='float32', unroll=0,
        precision='highest', kernels='auto',
        vocab_size=run.tokenizer().vocab_size)
    model = backbone(run.config['model'])
    assert isinstance(model, LSTM)
    params = checkpoint.restore_params(run.checkpoints, 6, sharding.abstract(shapes(model), sharding.make_mesh()))
    sums, _ = log_probs.score(model, params, sharding.make_mesh(), [([1, 2, 3], 2)])
    assert np.isfinite(sums).all()


def test_another_kind_in_the_same_directory_is_refused_by_name(text, straight):
    with pytest.raises(UserError, match=r"holds another run \(.*model.kind: 'lstm' -> 'gpt'"):
        pretrain.run(lstm_config(text, model__kind='gpt'), straight.path)


def test_an_lstm_learns_what_follows_what(text, tmp_path):
    """Whatever the last word was, the best guess of words alone is the entropy of their frequencies."""
    config = lstm_config(text, model__n_units=64, train__steps=60, checkpoint__every=60, eval__every=60)
    run = pretrain.run(config, tmp_path / 'run')
    train = tokens.open_split(run.path / 'tokens', 'train')
    stream = np.concatenate([train.window(i, 16)[1:] for i in range(train.n_windows(16))])
    share = np.bincount(stream) / len(stream)
    entropy = -np.sum(share[share > 0] * np.log(share[share > 0]))
    assert [row['valid_loss'] for row in results.read(run.metrics) if 'valid_loss' in row][-1] < entropy - 0.3
