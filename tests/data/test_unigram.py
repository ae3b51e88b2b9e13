"""data/unigram.py."""
import math

import numpy as np
import pytest

from gpt1_jax.data import unigram
from gpt1_jax.data.tokens import TokenStream


def _stream(*shards):
    return TokenStream(tuple(np.array(shard, np.uint16) for shard in shards), 'test', '')


def test_the_loss_is_the_entropy_of_the_token_frequencies_over_all_shards():
    assert unigram.unigram_loss(_stream([7, 7], [65535, 9])) == pytest.approx(1.5 * math.log(2), abs=1e-12)


def test_of_a_large_text_evenly_spaced_pieces_are_counted(monkeypatch):
    monkeypatch.setattr(unigram, 'SAMPLE', 12)
    monkeypatch.setattr(unigram, 'PIECE', 4)
    # Windows 0, 3 and 6 of 4 tokens are counted, the 5s of the others are not.
    stream = _stream([1] * 4 + [5] * 8 + [2] * 4, [5] * 8 + [3] * 4 + [5])
    assert unigram.unigram_loss(stream) == pytest.approx(math.log(3), abs=1e-12)


def test_a_text_of_one_token_has_no_loss():
    assert unigram.unigram_loss(_stream([3, 3, 3])) == 0


@pytest.mark.parametrize('step, loss, warns', [
    (600, 6.55, True),     # the plateau
    (600, 6.60, True),     # not even there
    (599, 6.60, False),    # the warm-up is not long over
    (600, 6.40, False)])   # has passed
def test_a_loss_that_stays_at_the_unigram_models_is_told_once_after_three_warm_ups(capsys, step, loss, warns):
    warn = unigram.plateau_warning(6.57, warmup_steps=200)
    for _ in range(2):
        warn(step, {'loss': loss})
    found = capsys.readouterr().out
    assert found.count('\n') == warns and ('optimizer.peak_rate' in found and f'step {step}' in found) == warns


def test_a_run_without_a_warm_up_is_not_judged_by_its_first_steps(capsys):
    warn = unigram.plateau_warning(6.57, warmup_steps=0)
    warn(499, {'loss': 9.0})
    assert capsys.readouterr().out == ''
    warn(500, {'loss': 9.0})
    assert 'step 500' in capsys.readouterr().out
