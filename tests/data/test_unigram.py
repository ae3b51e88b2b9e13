"""The loss of the token frequencies, at which a run stays that learns nothing."""
import math

import numpy as np
import pytest

from gpt1_jax.data import unigram
from gpt1_jax.data.tokens import TokenStream


@pytest.mark.parametrize('shards, expected', [
    (([7, 7], [65535, 9]), 1.5 * math.log(2)), (([3, 3, 3],), 0),
    # Of a large text evenly spaced pieces are counted: windows 0, 3 and 6 of 4 tokens, not the 5s of the others.
    (([1] * 4 + [5] * 8 + [2] * 4, [5] * 8 + [3] * 4 + [5]), math.log(3))])
def test_the_loss_is_the_entropy_of_the_token_frequencies_over_all_shards(monkeypatch, shards, expected):
    monkeypatch.setattr(unigram, 'SAMPLE', 12)
    monkeypatch.setattr(unigram, 'PIECE', 4)
    stream = TokenStream(tuple(np.array(shard, np.uint16) for shard in shards), 'test', '')
    assert unigram.unigram_loss(stream) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize('warmup, step, loss, warns', [
    (200, 600, 6.55, True),     # the plateau
    (200, 600, 6.60, True),     # not even there
    (200, 599, 6.60, False),    # the warm-up is not long over
    (200, 600, 6.40, False),    # has passed
    (0, 499, 9.0, False), (0, 500, 9.0, True)])  # without a warm-up the first steps are not judged
def test_a_loss_that_stays_at_the_unigram_models_is_told_once_after_three_warm_ups(capsys, warmup, step, loss, warns):
    warn = unigram.plateau_warning(6.57, warmup)
    for _ in range(2):
        warn(step, {'loss': loss})
    found = capsys.readouterr().out
    assert found.count('\n') == warns and ('optimizer.peak_rate' in found and f'step {step}' in found) == warns
