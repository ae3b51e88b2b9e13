"""Generating by token: the cache against reading everything again, the choice of a token,
transformers' generate."""

import copy
import itertools

import jax
import numpy as np
import pytest

import plain_scores
import reference
from backbones import models, weights
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import decoding
from gpt1_jax.evaluation.decoding import Sampling
from gpt1_jax.parallel import sharding

pytestmark = pytest.mark.full

MODELS = models(40, 24)
MESH = sharding.make_mesh(devices=jax.devices()[:1])
PROMPTS = [[1, 2, 3], [7], list(range(20))]


@pytest.fixture(autouse=True)
def short_reads(monkeypatch):
    monkeypatch.setattr(decoding, 'CHUNK', 8)  # of prompts of up to 24


@pytest.fixture
def seen(monkeypatch):
    """The logits of each token that is chosen, float32[samples, V]."""
    found = []
    real = decoding.choose
    monkeypatch.setattr(
        decoding, 'choose', lambda x, *rest: found.append(np.asarray(x)) or real(x, *rest)
    )
    return found


def generate(n, prompt, how=Sampling(), kind='gpt', streams=(0,)):
    """The first n tokens of each sample, int[samples, n]."""
    source = decoding.tokens(MODELS[kind], weights(MODELS[kind]), MESH, prompt, how, streams)
    return np.array(list(itertools.islice(source, n))).T


@pytest.mark.parametrize(
    'how', [Sampling(temperature=0), Sampling(temperature=1.5, top_k=30)], ids=['greedy', 'drawn']
)
@pytest.mark.parametrize('kind', MODELS)
def test_logits_are_those_of_reading_everything_again_token_by_token(seen, kind, how):
    for prompt in PROMPTS:
        seen.clear()
        (found,) = generate(40, prompt, how, kind)
        window = prompt
        for place in range(40):
            if kind == 'gpt' and len(window) > 24:
                window = window[-12:]  # the full context is rebuilt from these tokens
            expected = plain_scores.logits(weights(MODELS[kind]), window)[-1]
            np.testing.assert_allclose(seen[place][0], expected, atol=1e-4 * expected.std(), rtol=0)
            window = [*window, int(found[place])]


@pytest.mark.quick
def test_of_a_prompt_that_is_longer_than_the_context_the_end_is_read(seen):
    prompt = np.random.default_rng(0).integers(0, 40, 31).tolist()  # of a context of 24
    assert generate(1, prompt, Sampling(temperature=0)) == [[seen[0][0].argmax()]]
    expected = plain_scores.logits(weights(MODELS['gpt']), prompt[-24:])[-1]
    np.testing.assert_allclose(seen[0][0], expected, atol=1e-4 * expected.std(), rtol=0)


@pytest.mark.quick
@pytest.mark.parametrize(
    'top_k, top_p', [(5, 1.0), (0, 0.6), (7, 0.8), (1, 0.5), (100, 0.999), (0, 0.001)]
)
def test_the_tokens_left_are_those_that_a_sorted_list_says(top_k, top_p):
    logits = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32) * 2
    for row, found in zip(logits, np.asarray(jax.jit(decoding.restricted)(logits, top_k, top_p))):
        ranked = sorted(range(50), key=lambda token: -row[token])[: top_k or 50]
        shares = reference.softmax(row[ranked].astype(float))
        n = next((n for n in range(1, len(ranked)) if shares[:n].sum() >= top_p), len(ranked))
        assert np.flatnonzero(np.isfinite(found)).tolist() == sorted(ranked[:n])
        assert (found[ranked[:n]] == row[ranked[:n]]).all()


@pytest.mark.parametrize('temperature', [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_the_softmax_says(temperature):
    logits = np.array([1.0, 0.0, 2.0, -1.0], np.float32)
    n = 20_000
    how = {
        'temperature': np.float32(temperature),
        'top_k': np.int32(3),
        'top_p': np.float32(1),
        'seed': np.uint32(3),
        'never': np.int32(-1),
    }
    drawn = decoding.choose(
        np.tile(logits, (n, 1)), how, np.arange(n, dtype=np.uint32), np.uint32(0)
    )
    expected = np.where(logits > -1, np.exp(logits / temperature), 0)
    shares = np.bincount(drawn, minlength=4) / n
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.012)
    assert shares[3] == 0


def test_a_seed_decides_and_each_stream_has_its_own_numbers(seen):
    prompt = [1, 2, 3]
    how = Sampling(temperature=3)
    three = generate(9, prompt, how, streams=range(3))
    assert seen[0].shape == (4, 40)  # a power of two of rows
    assert (three == generate(9, prompt, how, streams=range(3))).all()
    assert (three[0] != three[1]).any()
    other = generate(9, prompt, Sampling(temperature=3, seed=1), streams=range(3))
    assert (other != three).any(axis=1).all()
    assert (generate(9, prompt, how, streams=[1, 0, 2]) == three[[1, 0, 2]]).all()


@pytest.mark.parametrize(
    'fields, message',
    [
        ({'temperature': -1}, 'temperature is -1, must be a number of at'),
        ({'temperature': float('nan')}, 'temperature'),
        ({'top_k': 1.5}, 'top_k is 1.5, must be a whole'),
        ({'top_k': True}, 'top_k'),
        ({'top_p': 0}, 'top_p is 0, must'),
        ({'top_p': 1.1}, 'top_p is 1.1'),
        ({'seed': -1, 'top_k': -2}, 'top_k is -2, .*; seed is -1'),
    ],
)
def test_a_setting_that_cannot_be_is_named(fields, message):
    with pytest.raises(UserError, match=message):
        Sampling(**fields)


def test_other_prompts_and_settings_run_the_same_programs():
    generate(30, PROMPTS[2])
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if 'backend_compile' in event else None
    )
    generate(45, [2] * 18, Sampling(0.3, 8, 0.7, 9))
    generate(45, [3], Sampling(temperature=0))
    assert compiled == []
    jax.jit(lambda x: x * 3.5)(np.ones(3))  # the listener does hear of a compilation
    assert len(compiled) == 1


@pytest.mark.parametrize('temperature', [0, 1, 100])
def test_the_unknown_token_is_never_chosen(temperature):
    """Although it is always the most probable one."""
    tree = copy.deepcopy(weights(MODELS['gpt']))
    hidden, _ = reference.gpt(tree, np.array([PROMPTS[2]]))
    tree['embed']['tokens'][5] = np.sign(hidden[0, -1]) * 50
    found = {}
    for never in (-1, 5):
        source = decoding.tokens(
            MODELS['gpt'], tree, MESH, PROMPTS[2], Sampling(temperature=temperature), never=never
        )
        found[never] = np.array(list(itertools.islice(source, 20)))
    assert found[-1][0] == 5 or temperature == 100
    assert (found[5] != 5).all() and (found[5] < 40).all()
