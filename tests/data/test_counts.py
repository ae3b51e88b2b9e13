"""Words of the training text, and the updates by which so many of them have been read; the loss of
the token frequencies, at which a run stays that learns nothing."""

import math

import numpy as np
import pytest

from gpt1_jax.data import corpus, counts
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.windows import TokenStream


@pytest.mark.parametrize(
    'text', [' The  cat\tsat.\n\n"Oh!" - it\u2019s 3\x0bpm\n', '', 'a\x1cb\x85c\u2028d\u200be\xa0f']
)
def test_words_are_those_of_split(text):
    assert corpus.count_words(Document('x', text)) == len(text.split())


def test_the_first_update_by_which_so_many_words_are_read_and_the_challenge_s_names_of_counts():
    manifest = {'splits': {'train': {'tokens': 4000, 'words': 3000}}}
    assert counts.words_per_step(manifest, 200) == 150
    # 3000 after the last update
    assert counts.steps_at((1500, 300, 301, 3000), 150, 10) == {2: 300, 3: 301, 10: 1500}
    assert counts.steps_at((310, 320), 150, 10) == {3: 320}
    # Less than an update is missing
    assert counts.steps_at((1501, 1649, 1651), 150, 10) == {10: 1649}
    names = {10**6: '1M', 10**8: '100M', 10**5: '100K', 10**9: '1000M', 1234: '1234'}
    assert {count: counts.label(count) for count in names} == names


@pytest.mark.parametrize(
    'shards, expected',
    [
        (([7, 7], [65535, 9]), 1.5 * math.log(2)),
        (([3, 3, 3],), 0),
        # Of a large text evenly spaced pieces are counted: windows 0, 3 and 6 of 4 tokens, not the
        # 5s of the others.
        (([1] * 4 + [5] * 8 + [2] * 4, [5] * 8 + [3] * 4 + [5]), math.log(3)),
    ],
)
def test_the_loss_is_the_entropy_of_the_token_frequencies_over_all_shards(
    monkeypatch, shards, expected
):
    monkeypatch.setattr(counts, 'SAMPLE', 12)
    monkeypatch.setattr(counts, 'PIECE', 4)
    stream = TokenStream(tuple(np.array(shard, np.uint16) for shard in shards), 'test', '')
    assert counts.unigram_loss(stream) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    'warmup, step, loss, warns',
    [
        (200, 600, 6.55, True),  # the plateau
        (200, 600, 6.60, True),  # not even there
        (200, 599, 6.60, False),  # the warm-up is not long over
        (200, 600, 6.40, False),  # has passed
        (0, 499, 9.0, False),  # without a warm-up the first steps are not judged
        (0, 500, 9.0, True),
    ],
)
def test_a_loss_that_stays_at_the_unigram_models_is_told_once_after_three_warm_ups(
    capsys, warmup, step, loss, warns
):
    warn = counts.plateau_warning(6.57, warmup)
    for _ in range(2):
        warn(step, {'loss': loss})
    said = capsys.readouterr().out
    assert said.count('optimizer.peak_rate') == said.count(f'step {step}') == warns
