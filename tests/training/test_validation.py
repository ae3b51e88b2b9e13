"""The loss on held-out text, against numpy."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.data import tokens
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.training import validation


def test_windows_that_fill_up_the_last_batch_count_for_nothing():
    model = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_embd=16, n_layer=1, n_head=2, n_inner=16))
    params = jax.tree.map(lambda x: 20 * x, model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params'])
    stream = tokens.TokenStream((np.random.default_rng(0).integers(0, 30, 100).astype('<u2'),), 'made up', 'f')
    found = validation.mean_loss(model, sharding.make_mesh(devices=jax.devices()[:4]), stream, 10, 4, 1)(params)
    windows = np.stack([stream.window(i, 8) for i in stream.evenly_spaced(10, 8)])
    hidden, table = model.apply({'params': params}, windows[:, :-1])
    logits = np.asarray(hidden, np.float64) @ np.asarray(table.tokens, np.float64).T
    assert found == pytest.approx(reference.cross_entropy(logits, windows[:, 1:]).mean(), rel=1e-5)
