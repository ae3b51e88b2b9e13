"""Each backbone learns one batch by heart: the model, its loss, the optimizer and the training step together; with our
attention kernels along the plain path's curve."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding
from gpt1_jax.training import loop, losses, optimizer
from tiny import place

ROWS, N_CTX, VOCABULARY, STEPS = 8, 12, 40, 200
SMALL = {
    'gpt': {'kind': 'gpt', 'n_layer': 2, 'n_embd': 32, 'n_head': 4, 'n_inner': 64, 'attn_dropout': 0.0},
    'lstm': {'kind': 'lstm', 'n_units': 64}}
PEAK = {'gpt': 1e-2, 'lstm': 2e-2}


def one_batch():
    """[ROWS, N_CTX + 1] random tokens. Each row begins differently, so that every next token can be known."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, VOCABULARY, (ROWS, N_CTX + 1), np.int32)
    tokens[:, 0] = rng.permutation(VOCABULARY)[:ROWS]
    return {'tokens': tokens}


def pretraining(model):
    def init(seed):
        return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']

    def loss(params, batch, key, hyper):
        hidden, table = model.apply({'params': params}, batch['tokens'][:, :-1], key)
        return jnp.mean(losses.pretraining_loss(hidden, table, batch['tokens'][:, 1:])), {}
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    return loop.make_program(init, loss, optimizer.adam(), optimizer.warmup_cosine, mesh)


def curve(program, batch, peak, steps, seed=0):
    """The loss at each step on the same batch. seed: of the dropout masks."""
    hyper = {'seed': np.uint32(seed), 'peak': np.float32(peak), 'warmup': np.float32(10), 'total': np.float32(steps),
             'decay': np.float32(0),
             'skips': np.int32(0)}
    state, history = program.init(jnp.uint32(0)), []
    for _ in range(steps):
        state, metrics = program.step(state, place(program, batch), hyper)
        history.append(float(metrics['loss']))
    return history


@pytest.mark.parametrize('kind', SMALL)
def test_a_model_learns_one_batch_of_random_tokens_by_heart(kind):
    without_dropout = {'embd_dropout': 0.0, 'resid_dropout': 0.0}
    model = backbone(SMALL[kind] | without_dropout | {'vocab_size': VOCABULARY, 'n_ctx': N_CTX})
    program = pretraining(model)
    history = curve(program, one_batch(), PEAK[kind], STEPS)
    assert history[0] == pytest.approx(np.log(VOCABULARY), abs=0.2)  # at first every token is as likely
    assert history[-1] < 0.02
