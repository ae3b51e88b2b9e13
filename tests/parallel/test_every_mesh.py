"""The same weights, masks, losses, gradients and updates on every mesh, with dropout on."""
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.models.gpt import GPT
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.training import loop, losses, optimizer
from meshes import TINY, init, mesh_of
from tiny import place
from trees import names

MESHES = [(8, 1, 1), (2, 4, 1), (2, 2, 2)]


@functools.lru_cache
def program(sizes, head=None):
    """Pretraining of a GPT (head None) or an LSTM ('lstm'), or fine-tuning with a head."""
    if head in (None, 'lstm'):
        model = LSTM(LSTMConfig(vocab_size=30, n_ctx=12, n_units=16)) if head else GPT(TINY)
        K = None

        def loss(params, batch, key, hyper):
            hidden, table = model.apply({'params': params}, batch['tokens'][:, :-1], key)
            # The dropped matrix comes along, to see its mask.
            return jnp.mean(losses.pretraining_loss(hidden, table, batch['tokens'][:, 1:])), {'tokens': table.tokens}
    else:
        model, K = TaskModel(GPT(dataclasses.replace(TINY, n_special=3)), head, 3), {'classify': 1}.get(head, 2)

        def loss(params, batch, key, hyper):
            logits, hidden, table = model.apply({'params': params}, batch['tokens'], batch['extract'], key)
            lm = losses.auxiliary_lm_loss(hidden, table, batch['tokens'].reshape(-1, 12), batch['mask'].reshape(-1, 12))
            return jnp.mean(losses.task_loss(logits, batch['target'])) + 0.5 * jnp.mean(lm), {'tokens': table.tokens}
    return loop.make_program(init(model, K), loss, optimizer.adam(), optimizer.warmup_cosine, mesh_of(sizes))


def batch(step, head=None):
    g = np.random.default_rng(step)
    if head in (None, 'lstm'):
        return {'tokens': g.integers(0, 30, (8, 13)).astype(np.int32)}
    length = g.integers(4, 13, (8, 2))
    return {'tokens': g.integers(0, 33, (8, 2, 12)).astype(np.int32), 'extract': (length - 1).astype(np.int32),
            'mask': (np.arange(12) < length[:, :, None]).astype(np.float32),
            'target': np.eye(2, dtype=np.float32)[g.integers(0, 2, 8)]}


@functools.lru_cache
def run(sizes, head=None):
    """Three updates with dropout on.

    Returns losses, first gradients (a tenth of them, clipped), parameters, first dropped matrix.
    """
    p = program(sizes, head)
    hyper = {'seed': jnp.uint32(3), 'peak': jnp.float32(1e-2), 'warmup': jnp.float32(2), 'total': jnp.float32(20),
             'decay': np.float32(0),
             'skips': jnp.int32(0)}
    state, history = p.init(jnp.uint32(0)), []
    started = jax.device_get(state.params)
    for step in range(3):
        state, metrics = p.step(state, place(p, batch(step, head)), hyper)
        history.append(float(metrics['loss']))
        if step == 0:
            first, table = jax.device_get(state.opt_state[1].mu), np.asarray(metrics['tokens'])
    return history, started, first, jax.device_get(state.params), table, state


@pytest.mark.parametrize('sizes', MESHES, ids=str)
def test_initial_weights_are_the_same_on_any_mesh(sizes):
    for (name, a), b in zip(names(run((1, 1, 1))[1]).items(), names(run(sizes)[1]).values()):
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize('sizes, kind', [
    *((sizes, None) for sizes in MESHES), ((2, 2, 2), 'lstm'), ((1, 1, 8), 'lstm')], ids=str)
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
    table = run(sizes)[4]
    np.testing.assert_array_equal(table != 0, reference.keep((3, 0, 0, 0), (30, 16), 0.1))
