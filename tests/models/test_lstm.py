import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import reference
import reference_lstm
from gpt1_jax.errors import UserError
from gpt1_jax.models import lstm
from gpt1_jax.models.dropout import Key
from gpt1_jax.models.gpt import GPTConfig
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.training import losses
from trees import names

SMALL = LSTMConfig(vocab_size=23, n_special=3, n_ctx=9, n_units=16)
TOKENS = np.array([[4, 22, 23, 0, 11, 25, 7], [24, 3, 3, 19, 8, 1, 0]], np.int32)  # 23 to 25 are specials
KEY = Key(jnp.uint32(5), jnp.uint32(700), jnp.uint32(0))


def shapes(config):
    return jax.eval_shape(lambda: LSTM(config).init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))['params']


def weights(config, seed=1):
    return reference_lstm.weights(shapes(config), seed)


@pytest.fixture(scope='module')
def params():
    return weights(SMALL)


@functools.partial(jax.jit, static_argnums=0)
def apply(config, params, tokens, key):
    return LSTM(config).apply({'params': params}, tokens, key)[0]


def hidden(config, params, tokens=TOKENS, key=None):
    return np.asarray(apply(config, params, tokens, key))


# The configuration

def test_the_papers_lstm_is_as_large_as_gpt_to_a_thousandth():
    tree = shapes(LSTMConfig())
    count = sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
    assert count == 116_461_568 and abs(count / 116_534_784 - 1) < 1e-3
    assert {name: leaf.shape for name, leaf in names(tree).items()} == {
        'embed/tokens': (40478, 2048), 'blocks/input_kernel': (1, 2048, 4, 2048),
        'blocks/recurrent_kernel': (1, 2048, 4, 2048), 'blocks/bias': (1, 4, 2048)}
    assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {jnp.dtype('float32')}


def test_every_default_is_the_papers_or_gpts():
    ours, gpts = dataclasses.asdict(LSTMConfig()), dataclasses.asdict(GPTConfig())
    assert ours.pop('n_units') == 2048
    assert ours == {name: gpts[name] for name in ours}


@pytest.mark.parametrize('values, field', [
    ({'n_units': 0}, 'n_units'), ({'n_ctx': -4}, 'n_ctx'), ({'embd_dropout': -0.1}, 'embd_dropout'),
    ({'dtype': 'float16'}, 'dtype'), ({'n_units': 70_000}, 'n_units')])
def test_a_bad_configuration_names_the_field(values, field):
    with pytest.raises(UserError, match=rf'model\.{field}\b'):
        LSTMConfig(**values)


def test_weights_start_normal_with_deviation_002_and_biases_at_zero_but_the_forget_gates_at_one():
    tree = LSTM(LSTMConfig(vocab_size=3000, n_units=64)).init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    np.testing.assert_array_equal(tree['blocks'].pop('bias'), np.repeat([[[0], [1], [0], [0]]], 64, axis=2))
    for name, leaf in names(tree).items():
        assert abs(np.mean(leaf)) < 5 * 0.02 / np.sqrt(leaf.size), name
        assert abs(np.std(leaf) / 0.02 - 1) < 5 / np.sqrt(2 * leaf.size), name
    assert not np.allclose(tree['blocks']['input_kernel'], tree['blocks']['recurrent_kernel'])


# Parity with PyTorch and with plain numpy, dropout on

def test_states_losses_and_gradients_equal_those_of_torchs_lstm_with_a_tied_output():
    torch = pytest.importorskip('torch')
    config = LSTMConfig(vocab_size=50, n_ctx=40, n_units=24)
    params, U = weights(config, seed=2), 24
    ids = np.random.default_rng(3).integers(0, 50, (3, 41)).astype(np.int32)

    theirs = torch.nn.LSTM(U, U, batch_first=True)
    blocks = {name: leaf[0] for name, leaf in params['blocks'].items()}
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(torch.from_numpy(blocks['input_kernel'].reshape(U, 4 * U).T.copy()))
        theirs.weight_hh_l0.copy_(torch.from_numpy(blocks['recurrent_kernel'].reshape(U, 4 * U).T.copy()))
        theirs.bias_ih_l0.copy_(torch.from_numpy(blocks['bias'].reshape(4 * U)))
        theirs.bias_hh_l0.zero_()
    rows = torch.from_numpy(params['embed']['tokens'].copy()).requires_grad_()
    states, _ = theirs(rows[torch.from_numpy(ids[:, :-1]).long()] * 50)
    loss = torch.nn.functional.cross_entropy((states @ rows.T).reshape(-1, 50),
                                             torch.from_numpy(ids[:, 1:]).long().reshape(-1))
    loss.backward()

    def our_loss(params):
        h, table = LSTM(config).apply({'params': params}, ids[:, :-1])
        assert table.positions.shape == (0, U) and table.specials.shape == (0, U)
        return jnp.mean(losses.pretraining_loss(h, table, ids[:, 1:])), h
    (value, h), found = jax.jit(jax.value_and_grad(our_loss, has_aux=True))(params)
    assert np.abs(h).max() > 0.5
    np.testing.assert_allclose(h, states.detach().numpy(), atol=1e-5)
    assert float(value) == pytest.approx(loss.item(), rel=1e-6)
    expected = {'input_kernel': theirs.weight_ih_l0.grad.numpy().T.reshape(1, U, 4, U),
                'recurrent_kernel': theirs.weight_hh_l0.grad.numpy().T.reshape(1, U, 4, U),
                'bias': theirs.bias_ih_l0.grad.numpy().reshape(1, 4, U)}
    for ours, torchs in [(found['embed']['tokens'], rows.grad.numpy())] + [
            (found['blocks'][name], gradient) for name, gradient in expected.items()]:
        assert np.linalg.norm(ours - torchs) < 1e-5 * np.linalg.norm(torchs)


@pytest.mark.parametrize('rates', [{}, {'embd': 0.4}, {'resid': 0.4}, {'embd': 0.1, 'resid': 0.1}], ids=str)
def test_states_equal_numpys_with_dropout_at_each_site(params, rates):
    config = dataclasses.replace(SMALL, **{f'{n}_dropout': rates.get(n, 0.0) for n in ('embd', 'resid')})
    expected = reference_lstm.lstm(params, TOKENS, **rates, key=(5, 700))
    np.testing.assert_allclose(hidden(config, params, key=KEY), expected, atol=1e-5)
    if rates:
        assert np.abs(expected - reference_lstm.lstm(params, TOKENS)).max() > 0.1


# Properties

def test_no_state_depends_on_a_later_token_and_each_on_all_before(params):
    """Token t stands at place t alone: the state at t has a gradient for rows up to t."""
    config, ids = dataclasses.replace(SMALL, embd_dropout=0.0), np.arange(7, dtype=np.int32)[None]
    by = np.random.default_rng(0).normal(size=16).astype(np.float32)

    @jax.jit
    def jacobian(rows):
        def f(rows):
            return LSTM(config).apply({'params': params | {'embed': params['embed'] | {'tokens': rows}}}, ids,
                                                    KEY)[0] @ by
        return jax.jacrev(f)(rows)
    g = np.abs(np.asarray(jacobian(params['embed']['tokens']))).sum((0, 3))  # [t, row]
    earlier = np.tril(np.ones((7, 23))) > 0
    assert (g[~earlier] == 0).all() and (g[earlier] > 1e-5).all()


def test_the_dropped_matrix_that_was_looked_up_is_the_output_layer(params):
    config = dataclasses.replace(SMALL, embd_dropout=0.5)
    _, table = LSTM(config).apply({'params': params}, TOKENS, KEY)
    whole = np.concatenate([params['embed']['tokens'], params['embed']['specials']])
    rows = np.where(reference.keep((5, 700, 0, 0), whole.shape, 0.5), whole * 2, 0)
    np.testing.assert_array_equal(np.concatenate(table), rows)
    np.testing.assert_allclose(hidden(dataclasses.replace(config, resid_dropout=0.0), params, key=KEY),
                               reference_lstm.lstm(params, TOKENS, embd=0.5, key=(5, 700)), atol=1e-5)


def test_a_cell_keeps_small_additions_in_bfloat16():
    """The cell starts at 1 and grows by 1/1000 a step: a cell of 8 bits would stay at 1."""
    z = np.zeros((600, 1, 4, 1), np.float32)
    z[:, 0, 1], z[:, 0, 3] = 30, 30              # forget nothing, show everything
    z[0, 0, 0], z[0, 0, 2] = 30, 30              # first step: add 1
    z[1:, 0, 0], z[1:, 0, 2] = 30, 1e-3          # then 0.001 each
    h = lstm.recurrence(jnp.asarray(z, jnp.bfloat16), jnp.zeros((1, 4, 1), jnp.bfloat16))
    assert float(h[-1, 0, 0]) == pytest.approx(np.tanh(1.6), abs=0.005)


def test_kernels_are_divided_over_width_and_units():
    expected = {'embed/tokens': P(None, 'fsdp'), 'embed/specials': P(None, 'fsdp'),
                'blocks/input_kernel': P(None, 'fsdp', None, 'tensor'),
                'blocks/recurrent_kernel': P(None, 'fsdp', None, 'tensor'), 'blocks/bias': P(None, None, 'tensor')}
    assert {name: sharding.spec(name) for name in names(shapes(SMALL))} == expected
