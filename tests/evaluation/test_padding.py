"""Groups of sequences with a common prefix, and their batches."""

import jax
import numpy as np

from gpt1_jax.evaluation import padding
from gpt1_jax.parallel import sharding
from prefixes import with_prefix

ONE_DEVICE = sharding.make_mesh(devices=jax.devices()[:1])


def test_a_common_prefix_is_shared_where_that_saves_tokens():
    def found(*sequences):
        return sorted(padding.grouped([(list(ids), n) for ids, n in sequences], 512))

    question = range(100, 400)
    other = range(100, 395)
    answers = [([*question, 1, 2, 3], 3), ([*question, 4], 1), ([*question, 1, 2], 2)]
    # The question's last token is read with each answer: its state predicts the answer's first
    # token.
    assert found(*answers) == [((4, 304, 4, 4), 299, [2, 0, 1])]
    assert [group.shape for group in found(*answers[:1])] == [(1, 0, 304, 4)]
    # At most eight sequences share a prefix
    assert [len(group.members) for group in found(*answers * 4)] == [4, 8]
    # Another question about the same document shares the document. A text that shares too little
    # does not.
    assert [group.shared for group in found(*answers, ([*other, 9, 9], 1))] == [295]
    assert [group.shared for group in found(*answers, ([*range(100, 150), 9, 9], 1))] == [0, 299]
    # Cut from the left at different places, and scored from the first token on: nothing is shared.
    assert [group.shared for group in found((question, 2), (question[1:], 2))] == [0, 0]
    assert [group.shared for group in found((question, 299), ([*question, 1], 300))] == [0, 0]


def test_batches_hold_groups_of_like_sizes_and_few_shapes():
    rng = np.random.default_rng(4)
    sequences = []
    for n in rng.integers(20, 500, 300):
        sequences += with_prefix(rng, int(n), (1, 1), (2, 2), (3, 3), (9, 9))
    groups = padding.grouped(sequences, 512)
    found = list(padding.batches(groups, 4096, ONE_DEVICE))
    assert sorted(i for *_, held in found for group in held for i in group.members) == list(
        range(1200)
    )
    for G, shape, held in found:
        assert len(held) <= G <= max(1, 4096 // shape.tokens)
        assert all(own <= size for group in held for own, size in zip(group.shape, shape))
    assert len({(G, shape) for G, shape, _ in found}) < 20
    assert sum(G * shape.tokens for G, shape, _ in found) < 1.2 * sum(
        group.shape.tokens for group in groups
    )
    assert {G % 8 for G, *_ in padding.batches(groups, 4096, sharding.make_mesh())} == {0}
