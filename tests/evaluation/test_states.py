"""Means of hidden states over the last tokens of sequences, against the numpy models."""
import jax
import numpy as np

import reference
import reference_lstm
from backbones import MODELS, weights
from gpt1_jax.evaluation import states
from gpt1_jax.parallel import sharding

MESH = sharding.make_mesh(devices=jax.devices()[:1])


def test_the_mean_is_over_the_last_tokens_of_each_sequence_whatever_its_length():
    rng = np.random.default_rng(0)
    sequences = [(rng.integers(0, 23, length).tolist(), m) for length, m in ((5, 1), (9, 4), (3, 3), (9, 9), (2, 1))]
    for kind, plain in (('gpt', lambda *given: reference.gpt(*given)[0]), ('lstm', reference_lstm.lstm)):
        params = weights(MODELS[kind])
        found = states.mean_states(MODELS[kind], params, MESH, [*sequences, ([4], 0), ([], 0)])
        expected = [plain(params, np.array([ids]))[0, -m:].mean(axis=0) for ids, m in sequences]
        np.testing.assert_allclose(found[:-2], expected, atol=1e-5)
        assert not found[-2:].any()
