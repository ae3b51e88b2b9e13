"""The same weights, masks, losses, gradients and updates on every mesh and in microbatches, with
dropout on."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.models.gpt import GPT
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.parallel.sharding import named_leaves
from meshes import TINY, hyper, pretraining
from tiny import place


@functools.lru_cache
def run(sizes, kind, microbatches=1):
    """Of three updates with dropout on: losses, initial weights, first gradients (a tenth of them,
    clipped), weights after them, first dropped matrix."""
    model = LSTM(LSTMConfig(vocab_size=30, n_ctx=12, n_units=16)) if kind == 'lstm' else GPT(TINY)
    p = pretraining(model, sizes, microbatches, lambda table: {'tokens': table[:30]})
    state = p.init(jnp.uint32(0))
    history = []
    started = named_leaves(jax.device_get(state.params))
    for step in range(3):
        tokens = np.random.default_rng(step).integers(0, 30, (8, 13)).astype(np.int32)
        state, metrics = p.step(state, place(p, {'tokens': tokens}), hyper())
        history.append(float(metrics['loss']))
        if step == 0:
            first = named_leaves(jax.device_get(state.opt_state[1].mu))
            table = np.asarray(metrics['tokens'])
    return history, started, first, named_leaves(jax.device_get(state.params)), table


@pytest.mark.parametrize(
    'sizes, kind, microbatches',
    [
        ((2, 2, 2), 'gpt', 2),
        ((2, 2, 2), 'lstm', 1),
        pytest.param((8, 1, 1), 'gpt', 1, marks=pytest.mark.full),
        pytest.param((2, 4, 1), 'gpt', 1, marks=pytest.mark.full),
        pytest.param((2, 2, 2), 'gpt', 1, marks=pytest.mark.full),
        pytest.param((1, 1, 8), 'lstm', 4, marks=pytest.mark.full),
        pytest.param((1, 1, 1), 'gpt', 4, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_weights_masks_losses_gradients_and_updates_are_the_same_on_any_mesh_with_dropout_on(
    sizes, kind, microbatches
):
    history, started, gradients, params, _ = run((1, 1, 1), kind)
    other_history, other_started, other_gradients, other_params, table = run(
        sizes, kind, microbatches
    )
    for name, a in started.items():
        np.testing.assert_array_equal(other_started[name], a, err_msg=name)
    # Seed 3, step 0: the zeros of the step's embedding matrix are those of the hash computed in
    # Python ints.
    np.testing.assert_array_equal(table != 0, reference.keep((3, 0, 0, 0), (30, 16), 0.1))
    assert history[0] != history[1]
    np.testing.assert_allclose(other_history, history, atol=1e-5)
    for name, a in gradients.items():
        assert np.abs(a).max() > 1e-6, name
        np.testing.assert_allclose(
            other_gradients[name], a, atol=1e-5 * np.abs(a).max(), err_msg=name
        )
    for name, a in params.items():
        b = other_params[name]
        # The gradient of a key's bias is zero, and Adam makes a step of its rounding.
        if name == 'blocks/attn/qkv/bias':
            a = a[:, (0, 2)]
            b = b[:, (0, 2)]
        np.testing.assert_allclose(b, a, atol=1e-5, err_msg=name)
