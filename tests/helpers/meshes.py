"""A tiny GPT, how a model is initialised, and meshes of some of the devices."""
import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.models.gpt import GPTConfig
from gpt1_jax.parallel import sharding

TINY = GPTConfig(vocab_size=30, n_ctx=12, n_embd=16, n_layer=2, n_head=4, n_inner=24)


def mesh_of(sizes):
    return sharding.make_mesh(*sizes, devices=jax.devices()[:int(np.prod(sizes))])


def init(model, K):
    """seed -> parameters, of a backbone (K None) or of a model of K sequences."""
    def parameters(seed):
        if K is None:
            return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']
        return model.init(jax.random.key(seed), jnp.zeros((1, K, 1), jnp.int32), jnp.zeros((1, K), jnp.int32))['params']
    return parameters
