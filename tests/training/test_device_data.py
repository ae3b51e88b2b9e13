"""Tokens on the devices: the same windows, the same results to the bit, and nothing sent for them."""
import types

import jax
import numpy as np
import pytest

from experiments.compile import hlo
from gpt1_jax import pretrain
from gpt1_jax.data import tokens
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.parallel import sharding
from gpt1_jax.training import device_data
from tiny import pretrain_config

pytestmark = pytest.mark.full


def stream_of(*sizes, vocab_size=2 ** 16):
    rng = np.random.default_rng(0)
    return tokens.TokenStream(tuple(rng.integers(0, vocab_size, n).astype('<u2') for n in sizes), 'made up', 'f')


@pytest.mark.quick
@pytest.mark.parametrize('sizes', [(41,), (5, 1, 4, 13), (25,), (32,)], ids=str)
def test_every_window_is_the_one_that_the_host_would_read(sizes):
    stream = stream_of(*sizes)
    corpus = device_data.place(stream, 8, sharding.make_mesh(), 'yes')
    assert corpus.dtype == np.uint16 and len(corpus.sharding.device_set) == 8 and corpus.is_fully_replicated
    numbers = np.arange(stream.n_windows(8), dtype=np.int32)
    assert corpus.shape == (len(numbers) + 1, 8)
    found = device_data.windows(corpus, numbers)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [stream.window(i, 8) for i in numbers])


@pytest.mark.parametrize('platform, stats, fits', [
    ('gpu', {'bytes_limit': 8000}, True), ('tpu', {'bytes_limit': 8000}, True), ('gpu', {'bytes_limit': 7999}, False),
    ('cpu', {'bytes_limit': 8000}, False), ('gpu', None, False), ('gpu', {}, False)])
def test_an_eighth_of_a_device_is_for_tokens(platform, stats, fits):
    device = types.SimpleNamespace(platform=platform, memory_stats=lambda: stats)
    assert device_data.fits(1000, device) == fits


def test_steps_are_the_same_to_the_bit_and_exchange_the_same_between_devices():
    config = pretrain_config('', mesh__data=2, mesh__fsdp=2, mesh__tensor=2, batch__microbatches=2,
                             model__n_layer=1)
    stream, mesh = stream_of(300, 500, vocab_size=50), sharding.make_mesh(**config.mesh)
    program = pretrain.make_program(config, backbone(own_fields(config.model.to_dict()) | {'vocab_size': 50}), mesh)
    corpus, hyper = device_data.place(stream, 16, mesh, 'yes'), pretrain.hyperparameters(config, 9)

    def three_steps(name, read, *resident):
        def batch(step):
            return program.place(lambda rows: {name: read(stream, step, 0, 8, 16, rows)}, 8)
        state, history = program.init(np.uint32(0)), []
        step = program.step.trace(state, batch(0), hyper, *resident).lower().compile()
        for number in range(3):
            state, metrics = step(state, batch(number), hyper, *resident)
            history.append(jax.device_get(metrics))
        return jax.device_get(state), history, hlo.collectives(step.as_text(), 8)
    *sent, exchanged = three_steps('tokens', tokens.batch)
    *gathered, also_exchanged = three_steps('window', tokens.numbers, corpus)
    jax.tree.map(np.testing.assert_array_equal, gathered, sent)

    def arrays(found, *dtypes):
        return sorted((one.kind, array, one.times) for one in found for array in one.arrays if array[0] in dtypes)
    assert arrays(also_exchanged, 'f32') == arrays(exchanged, 'f32') != []
    # A batch's rows are put in their places in microbatches: here as numbers, never as windows of 16 tokens or 17.
    assert all(max(dims) < 16 for _, (_, dims), _ in arrays(also_exchanged, 's32', 'u16'))
