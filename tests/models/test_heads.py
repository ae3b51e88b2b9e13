import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.models.dropout import CLASSIFIER, Key
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel


class Plain(nn.Module):
    """A backbone without parameters whose state at a token t is (t, 10 t); shows the key that it was given."""

    @nn.compact
    def __call__(self, tokens, key=None):
        return tokens[:, :, None] * jnp.array([1.0, 10.0])[None, None], key


def logits(head, n_labels, kernel, bias, tokens, extract, key=None, dropout=0.1):
    params = {'classifier': {'kernel': jnp.array(kernel, jnp.float32), 'bias': jnp.array(bias, jnp.float32)}}
    model = TaskModel(Plain(), head, n_labels, dropout)
    return np.asarray(model.apply({'params': params}, jnp.array(tokens), jnp.array(extract), key)[0])


KERNEL3, BIAS3 = [[1, 0, 2], [0, 1, -1]], [0.5, 0, 0]


def test_classify_is_a_linear_layer_at_the_extract_token():
    found = logits('classify', 3, KERNEL3, BIAS3, [[[3, 5, 7]], [[1, 2, 4]]], [[1], [2]])
    np.testing.assert_array_equal(found, [[5.5, 50, -40], [4.5, 40, -32]])


def test_similarity_adds_the_states_of_both_orders_each_at_its_own_extract_token():
    found = logits('similarity', 3, KERNEL3, BIAS3, [[[3, 5, 7], [2, 4, 6]]], [[1, 2]])  # 5 + 6
    np.testing.assert_array_equal(found, [[11.5, 110, -88]])


def test_choice_is_one_shared_linear_layer_to_a_logit_a_choice():
    found = logits('choice', 7, [[2], [1]], [0.5], [[[3, 5], [2, 4], [1, 9]], [[1, 1], [2, 2], [3, 3]]],
                   [[0, 1, 1], [0, 1, 0]])
    np.testing.assert_array_equal(found, [[36.5, 48.5, 108.5], [12.5, 24.5, 36.5]])


def test_a_choice_that_a_row_lacks_has_no_chance():
    params = {'classifier': {'kernel': jnp.array([[2.0], [1.0]]), 'bias': jnp.array([0.5])}}
    found = TaskModel(Plain(), 'choice', 3).apply(
        {'params': params}, jnp.array([[[3, 5], [2, 4], [9, 9]]]), jnp.array([[0, 1, 1]]), None, jnp.array([[1, 1, 0]]))
    np.testing.assert_array_equal(found[0], [[36.5, 48.5, -1e9]])


@pytest.mark.parametrize('head, K', [('classify', 1), ('similarity', 2), ('choice', 3)])
def test_one_classifier_mask_an_example_shared_by_its_sequences(head, K):
    """A backbone that says 1 at every place: a logit is the number of kept elements, over the keep rate."""
    class Ones(nn.Module):
        @nn.compact
        def __call__(self, tokens, key=None):
            return jnp.ones((*tokens.shape, 64)), None
    params = {'classifier': {'kernel': jnp.eye(64) if head != 'choice' else jnp.arange(64.0)[:, None],
                             'bias': jnp.zeros(64 if head != 'choice' else 1)}}
    model = TaskModel(Ones(), head, 64, 0.25)
    key = Key(jnp.uint32(3), jnp.uint32(8), jnp.uint32(20))
    tokens, extract = jnp.zeros((5, K, 2), jnp.int32), jnp.zeros((5, K), jnp.int32)
    found = np.asarray(model.apply({'params': params}, tokens, extract, key)[0])
    mask = reference.keep((3, 8, 0, CLASSIFIER), (5, 1, 64), 0.25, (20,))[:, 0]
    assert len({row.tobytes() for row in mask}) == 5
    expected = mask * {'classify': 1, 'similarity': 2}[head] / 0.75 if head != 'choice' else \
        np.repeat((mask @ np.arange(64.0))[:, None], 3, axis=1) / 0.75
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_backbone_rows_are_numbered_over_all_sequences():
    params = {'classifier': {'kernel': jnp.ones((2, 1)), 'bias': jnp.zeros(1)}}
    def apply(key):
        return TaskModel(Plain(), 'choice', 1).apply(
            {'params': params}, jnp.zeros((2, 3, 2), jnp.int32), jnp.zeros((2, 3), jnp.int32), key)[2]
    seen = apply(Key(jnp.uint32(1), jnp.uint32(2), jnp.uint32(20)))
    assert (int(seen.seed), int(seen.step), int(seen.row)) == (1, 2, 60)
    assert apply(None) is None


@pytest.fixture(scope='module')
def gpt():
    config = GPTConfig(vocab_size=20, n_special=3, n_ctx=8, n_embd=8, n_layer=1, n_head=2, n_inner=8)
    model = TaskModel(GPT(config), 'choice', 1)
    shapes = jax.eval_shape(lambda: model.init(
        jax.random.key(0), jnp.zeros((1, 2, 1), jnp.int32), jnp.zeros((1, 2), jnp.int32)))
    return model, reference.random_like(shapes['params'], seed=0)
