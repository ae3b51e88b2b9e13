"""What every backbone promises the rest of the library: its states depend on their own tokens, key
and row alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import reference_lstm
from backbones import KEY, MODELS, TOKENS, changed, models, states, weights
from gpt1_jax.errors import UserError

pytestmark = pytest.mark.parametrize('kind', MODELS)


def hidden(kind, tokens=TOKENS, key=KEY):
    return np.asarray(states(MODELS[kind], weights(MODELS[kind]), tokens, key))


def test_states_equal_numpy_s_with_dropout_at_each_site(kind):
    params = weights(MODELS[kind])
    plain = {
        'gpt': lambda *given, **how: reference.gpt(*given, **how)[0],
        'lstm': reference_lstm.lstm,
    }[kind]
    sites = {'gpt': ('embd', 'attn', 'resid'), 'lstm': ('embd', 'resid')}[kind]
    for rates in ({}, *({site: 0.4} for site in sites), dict.fromkeys(sites, 0.1)):
        model = changed(MODELS[kind], **{f'{site}_dropout': rates.get(site, 0.0) for site in sites})
        expected = plain(params, TOKENS, **rates, key=(5, 700))
        np.testing.assert_allclose(states(model, params, key=KEY), expected, atol=2e-5)
        assert not rates or np.abs(expected - plain(params, TOKENS)).max() > 0.1


def test_a_sequence_longer_than_the_context_is_refused(kind):
    with pytest.raises(UserError, match='10 tokens is longer than the context, 9'):
        MODELS[kind].apply({'params': weights(MODELS[kind])}, jnp.zeros((1, 10), jnp.int32))


def test_masks_depend_on_seed_step_and_row(kind):
    here = hidden(kind)
    for name, value in (('seed', 6), ('step', 701), ('row', 2)):
        assert (
            np.abs(hidden(kind, key=KEY._replace(**{name: jnp.uint32(value)})) - here).max() > 0.1
        ), name


def test_parts_of_a_batch_equal_the_whole_with_dropout_on(kind):
    tokens = np.random.default_rng(0).integers(0, 26, (6, 7)).astype(np.int32)
    whole = hidden(kind, tokens)
    for first in (0, 2, 4):
        part = hidden(kind, tokens[first : first + 2], KEY._replace(row=jnp.uint32(first)))
        np.testing.assert_allclose(part, whole[first : first + 2], atol=2e-6)


def test_padding_on_the_right_changes_no_state_before_it_with_dropout_on(kind):
    padded = np.concatenate([TOKENS, np.zeros((2, 2), np.int32)], axis=1)
    np.testing.assert_allclose(hidden(kind, padded)[:, :7], hidden(kind), atol=2e-6)


def test_parameters_are_float32_also_with_jax_enable_x64(kind):
    with jax.enable_x64(True):
        params = jax.eval_shape(lambda: MODELS[kind].init(jax.random.key(0), TOKENS))
    assert {x.dtype for x in jax.tree.leaves(params)} == {np.dtype('float32')}


@pytest.mark.full
@pytest.mark.parametrize('change', [{'unroll': 3}, {'remat': True}], ids=str)
def test_neither_unrolling_nor_rematerialising_changes_states_or_gradients_with_dropout_on(
    kind, change
):
    by = np.random.default_rng(0).normal(size=(2, 7, 16)).astype(np.float32)

    def run(model):
        def loss(params):
            found = states(model, params, TOKENS, KEY)
            return jnp.sum(found * by), found

        (_, found), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(
            weights(MODELS[kind])
        )
        return [found, *jax.tree.leaves(gradients)]

    for expected, found in zip(run(MODELS[kind]), run(models(23, 9, **change)[kind])):
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_bfloat16_runs_near_float32_with_float32_parameters_and_gradients(kind):
    half = changed(MODELS[kind], dtype='bfloat16')
    params = weights(MODELS[kind])
    found, table = jax.eval_shape(lambda: half.apply({'params': params}, TOKENS, KEY))
    assert found.dtype == table.dtype == jnp.bfloat16
    expected = hidden(kind)
    error = np.abs(np.asarray(states(half, params, TOKENS, KEY), np.float32) - expected)
    assert 0 < error.mean() < 0.03 * np.abs(expected).mean()

    def gradients(model):
        return jax.grad(lambda p: jnp.sum(states(model, p, TOKENS, KEY).astype(jnp.float32) ** 2))(
            params
        )

    found, wanted = (
        jax.tree_util.tree_leaves_with_path(gradients(model)) for model in (half, MODELS[kind])
    )
    for (path, a), (_, b) in zip(found, wanted):
        assert a.dtype == jnp.float32 and np.linalg.norm(a - b) < 0.1 * np.linalg.norm(b) + 1e-3, (
            path
        )
