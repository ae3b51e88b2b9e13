"""Perplexity over windows, against the numpy model, and the figures made of it."""

import math
import shutil

import jax
import numpy as np
import pytest

import plain_scores
from backbones import weights
from gpt1_jax import perplexity
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, log_probs
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint, results, workdir
from saved import flip

pytestmark = pytest.mark.full

MODEL = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_embd=16, n_layer=2, n_head=4, n_inner=32))
MESH = sharding.make_mesh(devices=jax.devices()[:1])


def nats(params, ids, n_ctx, stride):
    """-log P of each token but the first, each in the first window that holds it."""
    starts = [max(0, math.ceil((t - n_ctx) / stride)) * stride for t in range(1, len(ids))]
    return np.array(
        [
            -plain_scores.last(params, ids[start : t + 1], 1)[0][0]
            for t, start in enumerate(starts, 1)
        ]
    )


@pytest.mark.parametrize('stride', [1, 3, 8])
@pytest.mark.parametrize('length', [2, 9, 29])
def test_every_token_after_the_first_is_scored_once_in_its_window(stride, length):
    params = weights(MODEL)
    ids = np.random.default_rng(length).integers(0, 30, length).astype(np.int32)
    for tokens_per_batch in (8, 4096):
        logs = log_probs.by_token(MODEL, params, MESH, ids, stride, tokens_per_batch)
        np.testing.assert_allclose(-logs, nats(params, ids, 8, stride), rtol=1e-4)


def test_the_row_holds_the_figures_and_what_made_them(pretrained, tmp_path):
    long = 'The cat sat.\nRed dogs ran, naïve. ' * 9  # longer than the context
    texts = [long, ' \n', 'Old birds  sang!']
    for name, text in zip('abc', texts):
        (tmp_path / f'{name}.txt').write_text(text, encoding='utf-8')
    row = perplexity.evaluate(pretrained, text=str(tmp_path), stride=9)
    run = workdir.load(pretrained)
    assert results.read(run.results)[-1] == row
    tokenizer = run.tokenizer()
    ids = [i for text in (long, texts[2]) for i in (*tokenizer.encode(text), tokenizer.newline_id)]
    params = load.pretrained(run, 4, MESH)[1]
    total = nats(params, np.array(ids), 64, 9).sum()
    n_bytes = len(''.join(texts).encode())
    assert row['n'] == len(ids) - 1 > 80 and row['tokens'] == len(ids)
    assert row['value'] == pytest.approx(math.exp(total / (len(ids) - 1)), rel=1e-4)
    assert row['per_word'] == pytest.approx(math.exp(total / 66), rel=1e-3)
    assert (row['documents'], row['words'], row['bytes']) == (3, 66, n_bytes)
    assert row['bits_per_byte'] == pytest.approx(total / math.log(2) / row['bytes'], rel=1e-4)
    expected = dict(kind='perplexity', step=4, n_ctx=64, stride=9)
    assert row | expected == row and sorted(row['files']) == ['a.txt', 'b.txt', 'c.txt']
    assert row['digest'] == checkpoint.params_digest(checkpoint.read_meta(run.checkpoints, 4))


@pytest.mark.parametrize(
    'text, more, message',
    [
        ('.', {}, 'the text has 1 token'),
        ('a b', {'stride': 65}, 'stride is 65, must be .* from 1 to 64'),
        ('a b', {'step': 3}, 'no checkpoint of step 3; there are 2, 4'),
        ('a b', {'tokens': 'x'}, 'give either --text'),
        (None, {'tokens': 'nowhere'}, 'nowhere: not a prepared corpus'),
    ],
)
def test_a_mistake_is_named(pretrained, tmp_path, text, more, message):
    if text is not None:
        (tmp_path / 'a.txt').write_text(text)
        more = more | {'text': str(tmp_path / 'a.txt')}
    with pytest.raises(UserError, match=message):
        perplexity.evaluate(pretrained, **more)


def test_a_damaged_shard_is_named(pretrained, tmp_path):
    tokens = shutil.copytree(workdir.load(pretrained).path / 'tokens', tmp_path / 'tokens')
    flip(tokens / 'valid' / '00000.bin')
    with pytest.raises(UserError, match='valid/00000.bin: damaged, its SHA-256'):
        perplexity.evaluate(pretrained, tokens=tokens)
