"""models/fast/table.py: which implementation runs, and that a model computes the same with each."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax.errors import UserError
from gpt1_jax.models import dropout
from gpt1_jax.models.fast import table
from gpt1_jax.models.gpt import GPT, GPTConfig

KERNEL = pytest.mark.full  # interpreted, which takes seconds
KEY = dropout.Key(jnp.uint32(7), jnp.uint32(1234567), jnp.uint32(5))
H200 = ('gpu', 'NVIDIA H200')
V5E = ('tpu', 'TPU v5 lite')
CPU = ('cpu', 'cpu')
BF16 = jnp.bfloat16
F32 = jnp.float32


@pytest.mark.parametrize(
    'operation, choice, device, dtype, size, training, expected',
    [
        ('attention', 'auto', H200, BF16, 64, True, 'flash'),
        ('attention', 'auto', H200, BF16, 64, False, 'cudnn'),
        ('attention', 'auto', H200, F32, 64, True, 'plain'),
        ('attention', 'auto', H200, BF16, 96, True, 'plain'),
        ('attention', 'auto', H200, BF16, 256, False, 'flash'),
        ('attention', 'auto', V5E, BF16, 64, True, 'mosaic'),
        ('attention', 'auto', V5E, F32, 64, True, 'recomputed'),
        ('attention', 'auto', V5E, BF16, 192, False, 'plain'),
        ('attention', 'auto', CPU, BF16, 64, True, 'blocked'),
        ('attention', 'xla', H200, BF16, 64, True, 'plain'),
        ('attention', 'mosaic', CPU, F32, 64, True, 'mosaic'),
        ('add_and_norm', 'auto', H200, BF16, 768, True, 'fused'),
        ('add_and_norm', 'auto', H200, BF16, 768, False, 'xla'),
        ('add_and_norm', 'auto', H200, BF16, 100, True, 'xla'),
        ('add_and_norm', 'triton', CPU, F32, 16, True, 'fused'),
        ('cross_entropy', 'auto', H200, BF16, 40478, True, 'one pass'),
        ('cross_entropy', 'triton', H200, BF16, 40478, True, 'rowwise'),
        ('cross_entropy', 'auto', V5E, BF16, 40478, True, 'two passes'),
        ('cross_entropy', 'auto', CPU, BF16, 40478, True, 'cpu'),
    ],
)
def test_the_implementation_follows_choice_device_and_dtype(
    operation, choice, device, dtype, size, training, expected
):
    assert table.choose(operation, choice, *device, dtype, size, training) == expected


@pytest.mark.parametrize(
    'operation, device, size, why',
    [
        ('attention', H200, 48, 'a power of two'),
        ('attention', V5E, 64, 'not a TPU'),
        ('add_and_norm', CPU, 100, 'width .*, not a CPU, 100 and'),
    ],
)
def test_a_kernel_that_cannot_be_is_one_line_that_names_the_field(operation, device, size, why):
    with pytest.raises(UserError, match=rf"^model.kernels = 'triton' [^\n]*{why}[^\n]*$"):
        table.choose(operation, 'triton', *device, BF16, size, True)


TINY = GPTConfig(vocab_size=20, n_ctx=16, n_embd=32, n_layer=2, n_head=2, n_inner=32)


@functools.cache
def states_and_gradients(config):
    tokens = np.random.default_rng(0).integers(0, 20, (3, 16))
    params = GPT(config).init(jax.random.key(0), tokens)['params']
    weights = np.random.default_rng(1).normal(size=(3, 16, config.n_embd)).astype(np.float32)

    def f(params):
        states = GPT(config).apply({'params': params}, tokens, KEY)[0]
        return jnp.sum(states * weights), states

    (_, states), gradients = jax.jit(jax.value_and_grad(f, has_aux=True))(params)
    return states, *jax.tree.leaves(gradients)


@pytest.mark.parametrize(
    'kernels, change',
    [
        ('auto', {}),
        ('xla', {}),
        pytest.param('triton', {}, marks=KERNEL),
        pytest.param('triton', {'remat': True, 'unroll': 2}, marks=[pytest.mark.slow, KERNEL]),
        pytest.param('mosaic', {'n_embd': 64, 'n_head': 1}, marks=KERNEL),
    ],
    ids=str,
)
def test_the_model_has_the_same_states_and_gradients_with_kernels_and_without(kernels, change):
    config = dataclasses.replace(TINY, **change)
    for found, plain in zip(
        states_and_gradients(dataclasses.replace(config, kernels=kernels)),
        states_and_gradients(dataclasses.replace(config, kernels='plain')),
    ):
        np.testing.assert_allclose(found, plain, atol=1e-5 * np.abs(plain).max())
