"""A tiny GPT, meshes of some of the devices, and training programs on them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.models import build
from gpt1_jax.models.gpt import GPTConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.training import loop, losses, optimizer, optimizer_config

TINY = GPTConfig(vocab_size=30, n_ctx=12, n_embd=16, n_layer=2, n_head=4, n_inner=24)


def mesh_of(sizes):
    return sharding.make_mesh(*sizes, devices=jax.devices()[: int(np.prod(sizes))])


def init(model, K=None):
    """A function seed -> parameters, for a backbone (K None) or a model of K sequences."""
    if K is not None:
        return functools.partial(build.init_params, model, K)
    return lambda seed: model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']


def shapes(model, K=None):
    """Those of the parameters of a backbone, or of a model of K sequences."""
    return jax.eval_shape(init(model, K), 0)


def pretraining(model, sizes=(1, 1, 1), microbatches=1, metrics=lambda table: {}):
    """The training program of a backbone. metrics: of the step's table."""

    def loss(params, batch, key, hyper):
        hidden, table = model.apply({'params': params}, batch['tokens'][:, :-1], key)
        rows = table[: model.config.vocab_size]
        value = jnp.mean(losses.pretraining_loss(hidden, rows, batch['tokens'][:, 1:]))
        return value, metrics(table)

    return loop.make_program(
        init(model),
        loss,
        optimizer.adam(),
        optimizer_config.schedule('cosine'),
        mesh_of(sizes),
        microbatches,
    )


def hyper(**changed):
    """The scalars that a step takes."""
    values = {'seed': 3, 'peak': 1e-2, 'warmup': 2, 'total': 20, 'decay': 0, 'skips': 0} | changed
    return {
        name: {'seed': np.uint32, 'skips': np.int32}.get(name, np.float32)(x)
        for name, x in values.items()
    }
