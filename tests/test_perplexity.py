"""Perplexity over windows, against a softmax by hand, and the figures made of it."""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax import perplexity, pretrain
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, log_probs
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint, results, workdir
from tiny import corpus, pretrain_config

pytestmark = pytest.mark.full

MODEL = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_embd=16, n_layer=2, n_head=4, n_inner=32))
PARAMS = jax.tree.map(lambda x: x * 10, MODEL.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params'])
MESH = sharding.make_mesh(devices=jax.devices()[:1])


@functools.partial(jax.jit, static_argnums=0)
def logits_of(model, params, ids):
    hidden, table = model.apply({'params': params}, ids[None])
    return hidden[0] @ table.tokens.T


def nats_of(model, params, ids, t, context):
    """-log P of ids[t] after ids[context:t], by a forward pass over those, and zeros after them that it cannot see."""
    seen = np.zeros(model.config.n_ctx, np.int32)
    seen[:t - context] = ids[context:t]
    logits = np.asarray(logits_of(model, params, seen)[t - context - 1], np.float64)
    return -logits[ids[t]] + math.log(np.exp(logits).sum())


def all_nats(model, params, ids, stride):
    """Those of all tokens but the first, each in the first window that holds it."""
    contexts = [max(0, math.ceil((t - model.config.n_ctx) / stride)) * stride for t in range(1, len(ids))]
    return np.array([nats_of(model, params, ids, t, context) for t, context in enumerate(contexts, 1)])


@pytest.mark.parametrize('stride', [1, 3, 8])
@pytest.mark.parametrize('length', [2, 5, 9, 10, 29])
def test_every_token_after_the_first_is_scored_once_in_its_window(stride, length):
    ids = np.random.default_rng(length).integers(0, 30, length).astype(np.int32)
    expected = all_nats(MODEL, PARAMS, ids, stride)
    for tokens_per_batch in (8, 4096):
        logs = log_probs.by_token(MODEL, PARAMS, MESH, ids, stride, tokens_per_batch)
        assert logs.shape == (length - 1,)
        assert -logs.sum() == pytest.approx(expected.sum(), rel=1e-4)


@pytest.fixture(scope='module')
def pretrained(tmp_path_factory):
    base = tmp_path_factory.mktemp('perplexity')
    config = pretrain_config(corpus(base / 'text'), train__steps=4, checkpoint__every=2, checkpoint__keep_steps=(2,),
                             eval__every=2, eval__windows=10_000)
    return pretrain.run(config, base / 'run').path


def test_the_row_holds_the_figures_and_what_made_them(pretrained, tmp_path):
    for name, text in {'a': 'The cat sat.\nRed dogs ran, naïve.', 'b': ' \n', 'c': 'Old birds  sang!'}.items():
        (tmp_path / f'{name}.txt').write_text(text, encoding='utf-8')
    row = perplexity.evaluate(pretrained, text=str(tmp_path), stride=4, path=tmp_path / 'results.jsonl')
    assert results.read(tmp_path / 'results.jsonl') == [row]
    run = workdir.load(pretrained)
    tokenizer = run.tokenizer()
    ids = np.array([*tokenizer.encode('the cat sat.\nred dogs ran, naïve.'), tokenizer.newline_id,
                    *tokenizer.encode('old birds sang!'), tokenizer.newline_id])
    nats = all_nats(*load.pretrained(run, 4, sharding.make_mesh()), ids, 4).sum()
    assert row['n'] == len(ids) - 1 and row['tokens'] == len(ids)
    assert row['value'] == pytest.approx(math.exp(nats / (len(ids) - 1)), rel=1e-4)
    assert (row['documents'], row['words'], row['bytes']) == (3, 10, 34 + 2 + 16)
    assert row['per_word'] == pytest.approx(math.exp(nats / 10), rel=1e-3)
    assert row['bits_per_byte'] == pytest.approx(nats / math.log(2) / 52, rel=1e-4)
    assert (row['kind'], row['step'], row['n_ctx'], row['stride']) == ('perplexity', 4, 16, 4)
    assert sorted(row['files']) == ['a.txt', 'b.txt', 'c.txt']
    assert row['digest'] == checkpoint.params_digest(checkpoint.read_meta(run.checkpoints, 4))


@pytest.mark.parametrize('text, more, message', [
    (' \n\n', {}, 'the text has 0 token'), ('.', {}, 'has 1 token'), ('', {}, 'the text has 0 token'),
    ('a b', {'stride': 17}, 'stride = 17, must be from 1 to the context, 16'), ('a b', {'stride': 0}, 'stride = 0'),
    ('a b', {'step': 3}, 'no checkpoint of step 3; there are 2, 4'), ('a b', {'tokens': 'x'}, 'give either --text'),
    (None, {}, 'give either --text'), (None, {'sentence': ''}, 'the text has 0 token'),
    ('a b', {'sentence': 'a b'}, 'give either --text'),
    (None, {'tokens': 'nowhere'}, 'nowhere: not a prepared corpus')])
def test_a_mistake_is_named(pretrained, tmp_path, text, more, message):
    if text is not None:
        (tmp_path / 'a.txt').write_text(text)
        more = more | {'text': str(tmp_path / 'a.txt')}
    with pytest.raises(UserError, match=message):
        perplexity.evaluate(pretrained, **more)


def test_a_sentence_is_scored_token_by_token_as_it_is(pretrained, tmp_path):
    text = 'The CAT sat on a mat, while red dogs ran over green hills.'
    row = perplexity.evaluate(pretrained, sentence=text, path=tmp_path / 'results.jsonl', stride=4,
                              per_token=tmp_path / 'tokens.jsonl')
    found = results.read(tmp_path / 'tokens.jsonl')
    run = workdir.load(pretrained)
    ids = run.tokenizer().encode(text)
    expected = -all_nats(*load.pretrained(run, 4, sharding.make_mesh()), ids, 4)
    assert len(ids) > 20 and [one['id'] for one in found] == ids and row['n'] == len(ids) - 1
    assert found[0]['log_probability'] is None
    np.testing.assert_allclose([one['log_probability'] for one in found[1:]], expected, rtol=1e-4)
    assert row['value'] == pytest.approx(math.exp(-np.mean(expected)), rel=1e-4)
    assert (row['documents'], row['words'], row['bytes'], row['text']) == (1, 13, len(text), text)
    assert ''.join(one['token'] for one in found) == 'the cat sat on a mat , while red dogs ran over green hills . '
