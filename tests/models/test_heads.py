import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.models.dropout import CLASSIFIER, Key
from gpt1_jax.models.heads import TaskModel


class Plain(nn.Module):
    """A backbone without parameters whose state at a token t is (t, 10 t); shows the key that it
    was given."""

    @nn.compact
    def __call__(self, tokens, key=None):
        return tokens[:, :, None] * jnp.array([1.0, 10.0])[None, None], key


def run(
    backbone, head, n_labels, kernel, bias, tokens, extract, key=None, present=None, dropout=0.1
):
    """Returns (logits, states, the backbone's second output: the key, of Plain)."""
    params = {
        'classifier': {
            'kernel': jnp.array(kernel, jnp.float32),
            'bias': jnp.array(bias, jnp.float32),
        }
    }
    return TaskModel(backbone, head, n_labels, dropout).apply(
        {'params': params}, jnp.array(tokens), jnp.array(extract), key, present
    )


KERNEL3 = [[1, 0, 2], [0, 1, -1]]
BIAS3 = [0.5, 0, 0]


@pytest.mark.parametrize(
    'head, kernel, bias, tokens, extract, present, expected',
    [
        (
            'classify',
            KERNEL3,
            BIAS3,
            [[[3, 5, 7]], [[1, 2, 4]]],
            [[1], [2]],
            None,
            [[5.5, 50, -40], [4.5, 40, -32]],
        ),
        # the sum of the states 5 and 6 of both orders, each at its own extract token
        (
            'similarity',
            KERNEL3,
            BIAS3,
            [[[3, 5, 7], [2, 4, 6]]],
            [[1, 2]],
            None,
            [[11.5, 110, -88]],
        ),
        # one shared layer, to one logit a choice; a choice that a row lacks has no chance
        (
            'choice',
            [[2], [1]],
            [0.5],
            [[[3, 5], [2, 4], [1, 9]], [[1, 1], [2, 2], [3, 3]]],
            [[0, 1, 1], [0, 1, 0]],
            None,
            [[36.5, 48.5, 108.5], [12.5, 24.5, 36.5]],
        ),
        (
            'choice',
            [[2], [1]],
            [0.5],
            [[[3, 5], [2, 4], [9, 9]]],
            [[0, 1, 1]],
            [[1, 1, 0]],
            [[36.5, 48.5, -1e9]],
        ),
    ],
)
def test_logits_are_a_linear_layer_of_the_states_at_the_extract_tokens(
    head, kernel, bias, tokens, extract, present, expected
):
    present = None if present is None else jnp.array(present)
    np.testing.assert_array_equal(
        run(Plain(), head, 3, kernel, bias, tokens, extract, present=present)[0], expected
    )


@pytest.mark.parametrize('head, K', [('classify', 1), ('similarity', 2), ('choice', 3)])
def test_one_classifier_mask_an_example_shared_by_its_sequences(head, K):
    """A backbone that says 1 at every place: a logit is the number of kept elements, over the keep
    rate."""

    class Ones(nn.Module):
        @nn.compact
        def __call__(self, tokens, key=None):
            return jnp.ones((*tokens.shape, 64)), None

    kernel, bias = (jnp.arange(64.0)[:, None], [0]) if head == 'choice' else (jnp.eye(64), [0] * 64)
    key = Key(jnp.uint32(3), jnp.uint32(8), jnp.uint32(20))
    found = run(
        Ones(),
        head,
        64,
        kernel,
        bias,
        np.zeros((5, K, 2), int),
        np.zeros((5, K), int),
        key,
        dropout=0.25,
    )[0]
    mask = reference.keep((3, 8, 0, CLASSIFIER), (5, 1, 64), 0.25, (20,))[:, 0]
    assert len({row.tobytes() for row in mask}) == 5
    expected = (
        mask * {'classify': 1, 'similarity': 2}[head] / 0.75
        if head != 'choice'
        else np.repeat((mask @ np.arange(64.0))[:, None], 3, axis=1) / 0.75
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_backbone_rows_are_numbered_over_all_sequences():
    def apply(key):
        return run(
            Plain(),
            'choice',
            1,
            [[1], [1]],
            [0],
            np.zeros((2, 3, 2), int),
            np.zeros((2, 3), int),
            key,
        )[2]

    seen = apply(Key(jnp.uint32(1), jnp.uint32(2), jnp.uint32(20)))
    assert (int(seen.seed), int(seen.step), int(seen.row)) == (1, 2, 60)
    assert apply(None) is None
