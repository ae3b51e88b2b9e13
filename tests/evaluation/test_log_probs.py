"""Log-probabilities of given tokens and means of hidden states, against the numpy models."""

import jax
import numpy as np
import pytest

import plain_scores
from backbones import models, weights
from gpt1_jax.evaluation import log_probs, padding, states
from gpt1_jax.parallel import sharding
from prefixes import with_prefix

MODELS = models(30, 24)
MESH = sharding.make_mesh(devices=jax.devices()[:1])


def check_sums(kind, sequences, tokens_per_batch=4096):
    params = weights(MODELS[kind])
    sums, greedy = log_probs.last_tokens(MODELS[kind], params, MESH, sequences, tokens_per_batch)
    expected = [plain_scores.last(params, ids, n) for ids, n in sequences]
    np.testing.assert_allclose(sums, [logs.sum() for logs, _ in expected], rtol=1e-5)
    assert greedy.tolist() == [best for _, best in expected]
    return sums


@pytest.mark.parametrize('kind', ['gpt', 'lstm'])
def test_sums_are_those_of_the_models_softmax_whatever_the_batching(kind):
    rng = np.random.default_rng(0)
    sequences = [
        (rng.integers(0, 30, int(length)).tolist(), int(rng.integers(1, length)))
        for length in rng.integers(2, 24, 8)
    ]
    best = int(plain_scores.logits(weights(MODELS[kind]), [1, 2])[-1].argmax())
    for tokens_per_batch in (32, 4096):
        check_sums(kind, [*sequences, ([1, 2, best], 1)], tokens_per_batch)


@pytest.mark.parametrize('kind', ['gpt', 'lstm'])
def test_sharing_a_forward_pass_over_a_common_prefix_changes_no_value(kind):
    """Rows of candidates, shuffled: common prefixes of 1, 2 or almost n_ctx tokens; rests of
    different lengths, scored as a whole or at their end; more candidates than share one pass; a row
    of one candidate; one candidate twice."""
    rng = np.random.default_rng(3)
    rows = [
        with_prefix(rng, common, *rests)
        for common, rests in (
            (2, [(8, 8), (7, 7)]),
            (3, [(8, 8), (3, 3), (2, 1)]),
            (22, [(1, 1), (2, 2)]),
            (12, [(n % 4 + 1, n % 2 + 1) for n in range(11)]),
            (16, [(7, 2), (5, 3), (6, 1)]),
            (11, [(1, 1), (1, 1)]),
            (9, [(3, 3)]),
        )
    ]
    rows.append(rows[0][:1])
    sequences = [sequence for i in rng.permutation(len(rows)) for sequence in rows[i]]
    assert {group.shared for group in padding.grouped(sequences, 24)} == {0, 1, 2, 10, 11, 16, 21}
    check_sums(kind, sequences)


def test_equal_sequences_are_scored_once_and_tie(monkeypatch):
    asked = []
    grouped = padding.grouped
    monkeypatch.setattr(
        padding, 'grouped', lambda found, n_ctx: asked.extend(found) or grouped(found, n_ctx)
    )
    sums = check_sums('gpt', [([1, 2], 1), ([1, 3], 1), ([1, 2], 1)])
    assert asked == [([1, 2], 1), ([1, 3], 1)] and sums[0] == sums[2] != sums[1]


@pytest.mark.parametrize('kind', ['gpt', 'lstm'])
def test_the_mean_of_states_is_over_the_last_tokens_of_each_sequence_whatever_its_length(kind):
    rng = np.random.default_rng(0)
    params = weights(MODELS[kind])
    sequences = [
        (rng.integers(0, 30, length).tolist(), m)
        for length, m in ((5, 1), (9, 4), (3, 3), (9, 9), (2, 1))
    ]
    found = states.mean_states(MODELS[kind], params, MESH, [*sequences, ([4], 0), ([], 0)])
    expected = [plain_scores.states(params, ids)[-m:].mean(axis=0) for ids, m in sequences]
    np.testing.assert_allclose(found[:-2], expected, atol=1e-5)
    assert not found[-2:].any()
