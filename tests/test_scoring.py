"""Log-probabilities of given tokens, against the model's own logits."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax import scoring, sharding
from gpt1_jax.backbone import backbone
from gpt1_jax.errors import UserError

SIZES = {'gpt': {'n_embd': 16, 'n_layer': 2, 'n_head': 4, 'n_inner': 32}, 'lstm': {'kind': 'lstm', 'n_units': 16}}
SIZES['gpt bfloat16'] = SIZES['gpt'] | {'dtype': 'bfloat16'}
MODELS = {kind: backbone({'vocab_size': 30, 'n_ctx': 24} | sizes) for kind, sizes in SIZES.items()}
MODEL = MODELS['gpt']
MESH = sharding.make_mesh(devices=jax.devices()[:1])


@functools.cache
def params(kind='gpt'):
    found = MODELS[kind].init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    return jax.tree.map(lambda x: x * 10, found)


PARAMS = params()


@functools.partial(jax.jit, static_argnums=0)
def logits_of(model, params, ids):
    hidden, table = model.apply({'params': params}, ids[None])
    return hidden[0] @ table.tokens.T


def by_hand(ids, n, kind='gpt'):
    seen = np.zeros(24, np.int32)
    seen[:len(ids)] = ids  # the zeros after them cannot be seen
    logits = np.asarray(logits_of(MODELS[kind], params(kind), seen), np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return sum(logs[t - 1, ids[t]] for t in range(len(ids) - n, len(ids)))


@pytest.mark.parametrize('kind', ['gpt', 'lstm'])
def test_sums_are_those_of_the_models_softmax_whatever_the_batching(kind):
    rng = np.random.default_rng(0)
    sequences = [(rng.integers(0, 30, int(length)).tolist(), int(rng.integers(1, length)))
                 for length in rng.integers(2, 24, 8)]
    expected = [by_hand(ids, n, kind) for ids, n in sequences]
    for tokens_per_batch in (32, 4096):
        sums, counts = scoring.score(MODELS[kind], params(kind), MESH, sequences, tokens_per_batch=tokens_per_batch)
        np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-4)
        assert counts.tolist() == [n for _, n in sequences]


def alike(rng, common, *rests):
    """Sequences that begin with the same tokens, as many as `common`. rests: (tokens after these, tokens scored)."""
    begin = rng.integers(0, 30, common).tolist()
    return [(begin + rng.integers(0, 30, rest).tolist(), n) for rest, n in rests]


def begin_alike():
    """Rows of candidates, shuffled: a context of 1, 2 or almost n_ctx tokens read once, rests of different lengths,
    all of them scored or their end alone, more candidates than share a copy, a row of one, one twice."""
    rng = np.random.default_rng(3)
    rows = [alike(rng, 2, (8, 8), (7, 7)), alike(rng, 3, (8, 8), (3, 3), (2, 1)), alike(rng, 22, (1, 1), (2, 2)),
            alike(rng, 12, *[(n % 4 + 1, n % 2 + 1) for n in range(11)]), alike(rng, 16, (7, 2), (5, 3), (6, 1)),
            alike(rng, 11, (1, 1), (1, 1)), alike(rng, 9, (3, 3))]
    rows.append(rows[0][:1])
    return [sequence for i in rng.permutation(len(rows)) for sequence in rows[i]]


@pytest.mark.parametrize('kind', ['gpt', 'lstm'])
def test_what_is_read_once_for_several_sequences_changes_no_value(kind):
    sequences = begin_alike()
    assert {group.shared for group in scoring.grouped(sequences, 24)} == {0, 1, 2, 10, 11, 16, 21}
    sums, _ = scoring.last_tokens(MODELS[kind], params(kind), MESH, sequences)
    np.testing.assert_allclose(sums, [by_hand(ids, n, kind) for ids, n in sequences], rtol=1e-5)


def test_greedy_tokens_are_told_among_sequences_that_begin_alike():
    ids = [5, 3, 8, 1, 9, 2, 7, 4]
    best = int(np.asarray(logits_of(MODEL, PARAMS, np.resize([*ids, *[0] * 24], 24)))[7].argmax())
    sequences = [([*ids, token], 1) for token in (best, (best + 1) % 30, (best + 2) % 30)]
    assert len(scoring.grouped(sequences, 24)) == 1
    assert scoring.last_tokens(MODEL, PARAMS, MESH, sequences)[1].tolist() == [True, False, False]


def test_a_model_in_bfloat16_agrees_with_itself_but_for_rounding():
    kind, sequences = 'gpt bfloat16', alike(np.random.default_rng(5), 14, (2, 2), (3, 3), (4, 2))
    assert scoring.grouped(sequences, 24)[0].shared == 13
    sums, _ = scoring.last_tokens(MODELS[kind], params(kind), MESH, sequences)
    np.testing.assert_allclose(sums, [by_hand(ids, n, kind) for ids, n in sequences], rtol=1e-2)


def test_what_sequences_begin_with_is_read_once_where_that_saves_tokens():
    def found(*sequences):
        return sorted(scoring.grouped([(list(ids), n) for ids, n in sequences], 512))
    question, other = range(100, 400), range(100, 395)
    answers = [([*question, 1, 2, 3], 3), ([*question, 4], 1), ([*question, 1, 2], 2)]
    # The question's last token is read with each answer: its state predicts the answer's first one.
    assert found(*answers) == [((4, 304, 4, 4), 299, [2, 0, 1])]
    assert [group.shape for group in found(*answers[:1])] == [(1, 0, 304, 4)]
    assert [len(group.members) for group in found(*answers * 4)] == [4, 8]  # eight copies of a beginning at most
    # Another question about the same document shares the document. A text that shares too little does not.
    assert [group.shared for group in found(*answers, ([*other, 9, 9], 1))] == [295]
    assert [group.shared for group in found(*answers, ([*range(100, 150), 9, 9], 1))] == [0, 299]
    # Cut from the left at different places, and scored from the first token on: nothing is shared.
    assert [group.shared for group in found((question, 2), (question[1:], 2))] == [0, 0]
    assert [group.shared for group in found((question, 299), ([*question, 1], 300))] == [0, 0]


def test_batches_hold_groups_of_like_sizes_and_few_shapes():
    rng = np.random.default_rng(4)
    sequences = [one for n in rng.integers(20, 500, 300) for one in alike(rng, int(n), *[(r, r) for r in (1, 2, 3, 9)])]
    groups = scoring.grouped(sequences, 512)
    found = list(scoring.batches(groups, 4096, MESH))
    assert sorted(i for *_, held in found for group in held for i in group.members) == list(range(1200))
    for G, shape, held in found:
        assert len(held) <= G <= max(1, 4096 // shape.tokens)
        assert all(own <= size for group in held for own, size in zip(group.shape, shape))
    assert len({(G, shape) for G, shape, _ in found}) < 20
    assert sum(G * shape.tokens for G, shape, _ in found) < 1.2 * sum(group.shape.tokens for group in groups)
    assert {G % 8 for G, *_ in scoring.batches(groups, 4096, sharding.make_mesh())} == {0}


def test_as_many_tokens_are_scored_as_there_are_positions_and_greedy_ones_are_told():
    ids = np.random.default_rng(2).integers(0, 30, 25).tolist()
    rows = [np.asarray(logits_of(MODEL, PARAMS, np.resize([*ids[:n], *[0] * 24], 24)))[n - 1] for n in (5, 24)]
    greedy = [([*ids[:n], int(row.argmax())], 1) for n, row in zip((5, 24), rows)]
    other = [([*ids[:5], greedy[0][0][-1]], 2), ([*ids[:5], int(rows[0].argmin())], 1)]
    sums, best = scoring.last_tokens(MODEL, PARAMS, MESH, [*greedy, *other, (ids, 24)])
    assert best.tolist() == [True, True, False, False, False]
    logs = np.asarray(jax.nn.log_softmax(logits_of(MODEL, PARAMS, np.array(ids[:24]))))
    expected = logs[np.arange(24), ids[1:]].sum()
    assert sums[-1] == pytest.approx(expected, rel=1e-4)


def test_scores_agree_on_eight_devices():
    sequences = [([1, 2, 3, 4, 5], 4), *alike(np.random.default_rng(6), 9, (1, 1), (2, 1))]
    assert {group.shared for group in scoring.grouped(sequences, 24)} == {0, 8}
    one, eight = (scoring.score(MODEL, PARAMS, mesh, sequences)[0] for mesh in (MESH, sharding.make_mesh()))
    np.testing.assert_allclose(one, eight, rtol=1e-5)


def test_context_beyond_the_model_is_cut_from_the_left():
    ids = list(np.random.default_rng(1).integers(0, 30, 40))
    sums, _ = scoring.score(MODEL, PARAMS, MESH, [(ids, 3)])
    assert sums[0] == pytest.approx(by_hand([int(i) for i in ids[-24:]], 3), rel=1e-4)


def test_few_lengths_are_padded_to_and_none_beyond_the_context():
    assert sorted({scoring.padded(n, 512) for n in range(1, 600)}) == [16, 32, 64, 96, 144, 208, 304, 448, 512]
    assert all(n <= scoring.padded(n, 100) <= 100 for n in range(1, 101))
    assert [scoring.padded(n, 512, 1) for n in (1, 2, 3, 8, 9, 17, 65)] == [1, 2, 4, 8, 16, 32, 96]


@pytest.mark.parametrize('sequence, message', [
    (([1], 1), 'sequence 0: 1 of 1 tokens'), (([1, 2], 0), 'sequence 0: 0 of 2'),
    (([1] * 30, 24), '24 tokens to score do not fit the context of 24')])
def test_what_cannot_be_scored_is_an_error(sequence, message):
    with pytest.raises(UserError, match=message):
        scoring.score(MODEL, PARAMS, MESH, [sequence])
