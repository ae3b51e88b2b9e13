"""The same weights, masks, losses, gradients and updates on every mesh, with dropout on."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.models.gpt import GPT
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from meshes import TINY, hyper, pretraining
from tiny import place
from trees import names

MESHES = [(8, 1, 1), (2, 4, 1), (2, 2, 2)]


@functools.lru_cache
def run(sizes, kind):
    """Three updates with dropout on.

    Returns losses, first gradients (a tenth of them, clipped), parameters, first dropped matrix.
    """
    model = LSTM(LSTMConfig(vocab_size=30, n_ctx=12, n_units=16)) if kind == 'lstm' else GPT(TINY)
    p = pretraining(model, sizes, metrics=lambda table: {'tokens': table.tokens})
    state, history = p.init(jnp.uint32(0)), []
    started = jax.device_get(state.params)
    for step in range(3):
        tokens = np.random.default_rng(step).integers(0, 30, (8, 13)).astype(np.int32)
        state, metrics = p.step(state, place(p, {'tokens': tokens}), hyper())
        history.append(float(metrics['loss']))
        if step == 0:
            first, table = jax.device_get(state.opt_state[1].mu), np.asarray(metrics['tokens'])
    return history, started, first, jax.device_get(state.params), table, state


@pytest.mark.parametrize('sizes', MESHES, ids=str)
def test_initial_weights_are_the_same_on_any_mesh(sizes):
    for (name, a), b in zip(names(run((1, 1, 1), 'gpt')[1]).items(), names(run(sizes, 'gpt')[1]).values()):
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize('sizes, kind', [
    *((sizes, 'gpt') for sizes in MESHES), ((2, 2, 2), 'lstm'), ((1, 1, 8), 'lstm')], ids=str)
def test_losses_gradients_and_updates_are_the_same_on_any_mesh_with_dropout_on(sizes, kind):
    history, _, gradients, params, _, _ = run((1, 1, 1), kind)
    other_history, _, other_gradients, other_params, _, _ = run(sizes, kind)
    assert history[0] != history[1]
    np.testing.assert_allclose(other_history, history, atol=1e-5)
    for (name, a), b in zip(names(gradients).items(), names(other_gradients).values()):
        assert np.abs(a).max() > 1e-6, name
        np.testing.assert_allclose(b, a, atol=1e-5 * np.abs(a).max(), err_msg=name)
    for (name, a), b in zip(names(params).items(), names(other_params).values()):
        # The gradient of a key's bias is zero, and Adam makes a step of its rounding.
        if name == 'blocks/attn/qkv/bias':
            a, b = a[:, (0, 2)], b[:, (0, 2)]
        np.testing.assert_allclose(b, a, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('sizes', MESHES, ids=str)
def test_masks_in_the_model_are_the_same_to_the_bit_on_any_mesh(sizes):
    """Seed 3, step 0: the zeros of the step's embedding matrix are those of the hash computed in Python ints."""
    table = run(sizes, 'gpt')[4]
    np.testing.assert_array_equal(table != 0, reference.keep((3, 0, 0, 0), (30, 16), 0.1))
