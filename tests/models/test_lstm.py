import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backbones import weights
from gpt1_jax.models import lstm
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.training import losses
from meshes import shapes


def test_the_papers_lstm_is_as_large_as_gpt_to_a_thousandth():
    tree = shapes(LSTM(LSTMConfig()))
    count = sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
    assert count == 116_461_568 and abs(count / 116_534_784 - 1) < 1e-3
    assert {name: leaf.shape for name, leaf in named_leaves(tree).items()} == {
        'embed/tokens': (40478, 2048),
        'blocks/input_kernel': (1, 2048, 4, 2048),
        'blocks/recurrent_kernel': (1, 2048, 4, 2048),
        'blocks/bias': (1, 4, 2048),
    }
    assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {jnp.dtype('float32')}


def test_states_losses_and_gradients_equal_those_of_torchs_lstm_with_a_tied_output():
    torch = pytest.importorskip('torch')
    model = LSTM(LSTMConfig(vocab_size=50, n_ctx=40, n_units=24))
    params = weights(model, seed=2)
    U = 24
    ids = np.random.default_rng(3).integers(0, 50, (3, 41)).astype(np.int32)

    theirs = torch.nn.LSTM(U, U, batch_first=True)
    blocks = {name: leaf[0] for name, leaf in params['blocks'].items()}
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(
            torch.from_numpy(blocks['input_kernel'].reshape(U, 4 * U).T.copy())
        )
        theirs.weight_hh_l0.copy_(
            torch.from_numpy(blocks['recurrent_kernel'].reshape(U, 4 * U).T.copy())
        )
        theirs.bias_ih_l0.copy_(torch.from_numpy(blocks['bias'].reshape(4 * U)))
        theirs.bias_hh_l0.zero_()
    rows = torch.from_numpy(params['embed']['tokens'].copy()).requires_grad_()
    states, _ = theirs(rows[torch.from_numpy(ids[:, :-1]).long()] * 50)
    loss = torch.nn.functional.cross_entropy(
        (states @ rows.T).reshape(-1, 50), torch.from_numpy(ids[:, 1:]).long().reshape(-1)
    )
    loss.backward()

    def our_loss(params):
        h, table = model.apply({'params': params}, ids[:, :-1])
        assert table.shape == (50, U)
        return jnp.mean(losses.pretraining_loss(h, table, ids[:, 1:])), h

    (value, h), found = jax.jit(jax.value_and_grad(our_loss, has_aux=True))(params)
    assert np.abs(h).max() > 0.5
    np.testing.assert_allclose(h, states.detach().numpy(), atol=1e-5)
    assert float(value) == pytest.approx(loss.item(), rel=1e-6)
    expected = {
        'input_kernel': theirs.weight_ih_l0.grad.numpy().T.reshape(1, U, 4, U),
        'recurrent_kernel': theirs.weight_hh_l0.grad.numpy().T.reshape(1, U, 4, U),
        'bias': theirs.bias_ih_l0.grad.numpy().reshape(1, 4, U),
    }
    for ours, torchs in [(found['embed']['tokens'], rows.grad.numpy())] + [
        (found['blocks'][name], gradient) for name, gradient in expected.items()
    ]:
        assert np.linalg.norm(ours - torchs) < 1e-5 * np.linalg.norm(torchs)


def test_a_cell_keeps_small_additions_in_bfloat16():
    """The cell starts at 1 and grows by 1/1000 a step: a cell of 8 bits would stay at 1."""
    z = np.zeros((600, 1, 4, 1), np.float32)
    z[:, 0, 1], z[:, 0, 3] = 30, 30  # forget nothing, show everything
    z[0, 0, 0], z[0, 0, 2] = 30, 30  # first step: add 1
    z[1:, 0, 0], z[1:, 0, 2] = 30, 1e-3  # then 0.001 each
    h = lstm.recurrence(jnp.asarray(z, jnp.bfloat16), jnp.zeros((1, 4, 1), jnp.bfloat16))
    assert float(h[-1, 0, 0]) == pytest.approx(np.tanh(1.6), abs=0.005)
