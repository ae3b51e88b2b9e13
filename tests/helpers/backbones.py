"""A small GPT and a small LSTM, with random weights and their states."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

import reference
import reference_lstm
from gpt1_jax.models.build import backbone
from gpt1_jax.models.dropout import Key
from gpt1_jax.models.lstm import LSTM
from meshes import shapes

SIZES = {
    'gpt': {'n_embd': 16, 'n_layer': 3, 'n_head': 4, 'n_inner': 24},
    'lstm': {'kind': 'lstm', 'n_units': 16},
}


def models(vocab_size, n_ctx, **fields):
    return {
        kind: backbone({'vocab_size': vocab_size, 'n_special': 3, 'n_ctx': n_ctx} | sizes | fields)
        for kind, sizes in SIZES.items()
    }


MODELS = models(23, 9)
# 23 to 25 are specials
TOKENS = np.array([[4, 22, 23, 0, 11, 25, 7], [24, 3, 3, 19, 8, 1, 0]], np.int32)
KEY = Key(jnp.uint32(5), jnp.uint32(700), jnp.uint32(0))


@functools.cache
def weights(model, seed=1):
    """The result is shared by the tests of a process. Do not change it."""
    return (reference_lstm.weights if isinstance(model, LSTM) else reference.random_like)(
        shapes(model), seed
    )


def changed(model, **fields):
    return type(model)(dataclasses.replace(model.config, **fields))


@functools.partial(jax.jit, static_argnums=0)
def states(model, params, tokens=TOKENS, key=None):
    return model.apply({'params': params}, tokens, key)[0]
