"""Bytes a token, and bits a byte, by hand."""
import math

import numpy as np
import pytest

from gpt1_jax.data import bpe_training, byte_counts
from gpt1_jax.data.tokens import TokenStream
from gpt1_jax.metrics import language_modelling


def test_the_manifest_s_count_is_taken_where_there_is_one():
    assert byte_counts.per_token({'tokens': 10, 'bytes': 45}, None, None, 8) == 4.5


def test_else_windows_are_decoded():
    tokenizer = bpe_training.train(['the cat sat on the mat'] * 3, merges=30)
    ids = tokenizer.encode('the cat sat on the mat ' * 20)
    stream = TokenStream((np.array(ids, np.uint16),), 'text', '')
    n = 6 * (len(ids) // 120)  # tokens of a line of 23 characters: one ends each of its six words
    found = byte_counts.per_token({'tokens': len(ids)}, stream, tokenizer, n)
    assert found == pytest.approx(22 / n, rel=0.05)  # the last blank of a window is not decoded


def test_bits_a_byte_of_a_uniform_guess_over_bytes_are_eight():
    assert language_modelling.bits_per_byte(math.log(256), 1) == pytest.approx(8)
    assert language_modelling.bits_per_byte(math.log(2), 4) == pytest.approx(0.25)
