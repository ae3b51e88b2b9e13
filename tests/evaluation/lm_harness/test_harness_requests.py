"""lm-evaluation-harness: its requests, against plain forwards."""

import jax
import numpy as np
import pytest

from gpt1_jax.data import bpe_training
from gpt1_jax.evaluation import text_generation
from gpt1_jax.evaluation.decoding import Sampling
from harness_model import LONG, MESH, N_CTX, TEXTS, TOKENIZER, greedy, requests

pytest.importorskip('lm_eval')
from gpt1_jax.evaluation import lm_harness  # noqa: E402  (it needs the extra)

pytestmark = pytest.mark.full


@pytest.fixture(scope='module')
def logits(model):
    """ids -> float64[n, V] of what follows each: one row, as the model gives them."""
    module, params = model

    @jax.jit
    def logits_of(row):
        hidden, table = module.apply({'params': params}, row[None])
        return hidden[0] @ table.tokens.T
    return lambda ids: np.asarray(logits_of(np.resize([*ids, *[0] * N_CTX], N_CTX)), np.float64)[:len(ids)]


@pytest.fixture(scope='module')
def judge(logits):
    """(ids, n) -> (log P of the last n, whether each is the most probable)."""
    def judge(ids, n):
        found, wanted = logits(ids[:-1])[-n:], ids[-n:]
        logs = found[np.arange(n), wanted] - np.log(np.exp(found).sum(-1))
        return logs.sum(), bool((found.argmax(-1) == wanted).all())
    return judge


def notices(capfd):
    """What was told on stderr beside the progress bars."""
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith('notice: ')]


def test_a_continuation_has_the_probability_and_the_flag_of_a_plain_forward(lm, logits, judge):
    asked = [(TEXTS[i], f' {TEXTS[i + 20]}') for i in range(8)] + [('', TEXTS[5]), ('The', ' cat')]
    for text in TEXTS:  # with the most probable word after it, where that is a token by itself
        token = int(logits(TOKENIZER.encode(text))[-1].argmax())
        if TOKENIZER.encode(TOKENIZER.piece(token)) == [token]:
            asked += [(text, f' {TOKENIZER.piece(token)}'), (text, f' {TOKENIZER.piece(token)} the')]
    found = lm.loglikelihood(requests(*asked))
    for (context, continuation), (nats, best) in zip(asked, found, strict=True):
        before = TOKENIZER.encode(context) or [TOKENIZER.newline_id]
        after = TOKENIZER.encode(continuation)
        expected, is_best = judge(before + after, len(after))
        assert nats == pytest.approx(expected, abs=1e-4) and best is is_best
    assert 1 <= sum(best for _, best in found) <= len(asked) - 11


def test_a_rolling_text_is_every_token_once_in_the_harness_windows(lm, judge):
    ids = [TOKENIZER.newline_id, *TOKENIZER.encode(LONG)]
    n = len(ids) - 1
    assert n > 2 * N_CTX and n % N_CTX  # several windows, the last one not full by itself
    full = n // N_CTX
    expected = [judge(ids[k * N_CTX:(k + 1) * N_CTX + 1], N_CTX)[0] for k in range(full)]
    expected.append(judge(ids[-N_CTX - 1:], n - full * N_CTX)[0])
    found = lm.loglikelihood_rolling(requests((LONG,), (TEXTS[0],), (' \n',)))
    short = TOKENIZER.encode(TEXTS[0])
    assert found == pytest.approx([sum(expected), judge([TOKENIZER.newline_id, *short], len(short))[0], 0], abs=1e-3)


def test_a_context_that_is_too_long_loses_its_beginning_with_one_notice(lm, judge, capfd):
    ids, after = TOKENIZER.encode(LONG), TOKENIZER.encode(TEXTS[20])
    found = lm.loglikelihood(requests((LONG, f'\n{TEXTS[20]}'), ('The', ' cat'), (LONG, ' the'), ('a', f' {LONG}')))
    expected, _ = judge([*ids, TOKENIZER.newline_id, *after][-N_CTX - 1:], len(after) + 1)
    assert found[0][0] == pytest.approx(expected, abs=1e-4)
    whole = lm.loglikelihood_rolling(requests((LONG,)))[0]  # a continuation of several windows
    first = [judge([before, *ids[:N_CTX]], N_CTX)[0] for before in (*TOKENIZER.encode('a'), TOKENIZER.newline_id)]
    assert found[3][0] == pytest.approx(whole + first[0] - first[1], abs=1e-3)
    told = (f'notice: 3 of 4 requests exceed the context of {N_CTX} tokens: their contexts are truncated from the '
            'left')
    assert notices(capfd) == [told]


@pytest.mark.parametrize('context, continuation, before, after', [
    ('The cat', ' sat.', 'the cat', 'sat .'), ('The cat ', 'sat.', 'the cat', 'sat .'),
    ('', 'The cat', '\n', 'the cat'), (' \n', 'cat', '\n', 'cat'), ('A\n', 'B', 'a', '\nb'),
    ('A\n\n', '\nB', 'a', '\nb'), ('Answer:', 'A', 'answer :', 'a'), ('The ca', 't sat', 'the cat', 'sat'),
    ('The ca', 't', 'the ca', 't')])
def test_a_pair_is_split_where_its_context_ends(context, continuation, before, after):
    tokenizer = bpe_training.train(['the cat sat . answer : a b cat sat'] * 3, merges=30)
    found = lm_harness.pair(tokenizer, context, continuation)
    assert tuple(map(tokenizer.decode, found)) == (before, after)


def test_texts_are_those_of_generate_up_to_the_stop_string(lm, model):
    arguments = {'until': [], 'max_gen_toks': 12, 'do_sample': True, 'temperature': 0.7, 'top_k': 9}
    found = lm.generate_until(requests((TEXTS[1], arguments), ('', arguments), (TEXTS[1], arguments)))
    first, second = text_generation.generate(*model, MESH, TOKENIZER, [TEXTS[1]], 12, Sampling(0.7, 9), samples=2)[0]
    assert (found[0], found[2]) == (first.text, second.text) and first.text != second.text
    (only,), = text_generation.generate(*model, MESH, TOKENIZER, [[TOKENIZER.newline_id]], 12, Sampling(0.7, 9))
    assert found[1] == only.text
    whole = greedy(lm, TEXTS[1], 12)
    assert len(TOKENIZER.encode(whole)) >= 6 and whole == text_generation.generate(
        *model, MESH, TOKENIZER, [TEXTS[1]], 12, Sampling(0))[0][0].text
    stop = whole.split()[-1]
    cut, = lm.generate_until(requests((TEXTS[1], {'until': stop.upper(), 'max_new_tokens': 12})))
    assert cut == whole[:whole.find(stop)].strip()


def test_a_prompt_leaves_room_for_what_is_generated(lm, monkeypatch, capfd):
    ids, read = TOKENIZER.encode(LONG), []

    def generate(model, params, mesh, tokenizer, prompts, tokens, how, samples, stop):
        read.extend((prompt, tokens) for prompt in prompts)
        return [[text_generation.Continuation([], 'text', 'length')] * samples] * len(prompts)
    monkeypatch.setattr(text_generation, 'generate', generate)
    asked = [(LONG, {'max_gen_toks': tokens}) for tokens in (4, 30, 300)]
    asked += [(LONG, {}), (TEXTS[0], {'max_gen_toks': 9})]
    assert lm.generate_until(requests(*asked)) == ['text'] * 5
    half, short = N_CTX // 2, TOKENIZER.encode(TEXTS[0])
    assert sorted(read, key=lambda one: one[1]) == [
        (ids[4 - N_CTX:], 4), (short, 9), (ids[-half:], half), (ids[-half:], 30), (ids[-half:], 300)]
    told, = notices(capfd)
    assert told.startswith(f'notice: 4 of 5 requests exceed the context of {N_CTX} tokens')
