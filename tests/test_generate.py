"""Generating by text: continuations, stop strings, words as they come, and samples in training."""

import itertools
import types

import numpy as np
import pytest

from gpt1_jax import pretraining
from gpt1_jax.data import bpe_training
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import decoding, text_generation
from gpt1_jax.runs import results
from short_runs import points_of
from tiny import corpus, pretrain_config

TEXT = 'The cat sat on a mat, naïve and old. The End. Red dogs ran.\nOld birds sang'
# Its first line, as it is read
WHOLE = 'the cat sat on a mat , naïve and old . the end . red dogs ran .'


@pytest.fixture(scope='module')
def tokenizer():
    return bpe_training.train([TEXT] * 3, merges=25)


def model_of(n_ctx, cache=('length',)):
    config = types.SimpleNamespace(n_ctx=n_ctx)
    return types.SimpleNamespace(config=config, empty_cache=lambda B: dict.fromkeys(cache, B))


@pytest.fixture
def scripted(monkeypatch, tokenizer):
    """`generate` with a model that always writes TEXT, whatever it is asked."""
    ids = tokenizer.encode(TEXT) + [tokenizer.newline_id] * 50
    monkeypatch.setattr(
        decoding,
        'tokens',
        lambda model, params, mesh, prompt, how, streams, never: (
            np.full(len(streams), token) for token in ids
        ),
    )

    def generate(tokens, prompt='A cat', model=model_of(512), **more):
        texts = ['']
        (found,) = text_generation.generate(
            model,
            None,
            None,
            tokenizer,
            tokenizer.encode(prompt),
            1,
            tokens,
            show=lambda i, text: texts.append(text),
            **more,
        )
        assert texts[-1] == found.text
        return found, [text.removeprefix(before) for before, text in itertools.pairwise(texts)]

    return generate


def test_words_come_one_by_one_and_whole(scripted, tokenizer):
    _, pieces = scripted(len(tokenizer.encode(TEXT)))
    assert pieces == [
        'the',
        *(f' {word}' for word in WHOLE.split()[1:]),
        '\n',
        'old',
        ' birds',
        ' sang',
    ]
    assert len(tokenizer.encode(TEXT)) > len(pieces)  # there are words of several tokens, and bytes


@pytest.mark.parametrize(
    'stop, text',
    [
        (['The End.'], 'the cat sat on a mat , naïve and old .'),
        (['\n\n'], WHOLE),
        (['the'], ''),
        (['at s'], 'the c'),
        (['nowhere', 'old', 'mat'], 'the cat sat on a'),
        (['\nRed', 'birds'], f'{WHOLE}\nold'),
        ([' at', ' ran'], WHOLE[:-6]),
    ],
)
def test_a_text_ends_before_the_first_stop_string(scripted, stop, text):
    found, pieces = scripted(200, stop=stop)
    assert found.text == text and found.reason == 'stop'


def test_what_may_begin_a_stop_string_is_held_back_until_it_does_not(scripted, tokenizer):
    _, pieces = scripted(
        len(tokenizer.encode(TEXT)), stop=['a mat on', 'birds sang loudly', '\nred']
    )
    assert pieces[3:6] == [' on', ' a mat ,', ' naïve'] and pieces[-3:] == [
        ' .',
        '\nold',
        ' birds sang',
    ]


def test_each_sample_of_a_prompt_has_random_numbers_of_its_own(monkeypatch, tokenizer):
    """And the unknown token is never generated, nor in the samples of training."""
    given = []

    def tokens(model, params, mesh, prompt, how, streams=(0,), *, never):
        given.append((prompt, streams, never))
        return iter([np.arange(5, 5 + len(streams))])

    monkeypatch.setattr(decoding, 'tokens', tokens)
    cat, dogs = map(tokenizer.encode, ('The cat', 'Red dogs'))
    for prompt in (cat, dogs):
        found = text_generation.generate(model_of(9), None, None, tokenizer, prompt, 2, 1)
        assert len({one.text for one in found}) == 2
    (_, of_cat, _), (asked, of_dogs, never) = given
    assert asked == dogs and len({*of_cat, *of_dogs}) == 4
    assert of_dogs == [text_generation.stream(dogs, sample) for sample in range(2)]
    monkeypatch.setattr(text_generation, 'backbone', lambda fields: model_of(9))
    valid = types.SimpleNamespace(window=lambda *_: np.full(9, 5))
    text_generation.sampler({}, None, tokenizer, valid, 1)(None)
    assert never == given[-1][2] == tokenizer.unk_id


@pytest.mark.parametrize(
    'cache, tokens, full', [(['length'], 5, False), (['length'], 6, True), ([], 50, False)]
)
def test_a_notice_tells_of_a_context_that_gets_full(
    scripted, tokenizer, capsys, cache, tokens, full
):
    """It has 8 places and the prompt 4 tokens: the last of 5 more is chosen, and not read."""
    assert len(tokenizer.encode('A cat.')) == 4
    scripted(tokens, 'A cat.', model_of(8, cache))
    assert ('the context holds 8 tokens' in capsys.readouterr().err) == full


@pytest.mark.parametrize(
    'more, message',
    [
        ({'prompt': []}, 'the prompt is empty'),
        ({'samples': 0}, 'samples is 0, must be a whole number from 1'),
        ({'tokens': 0}, 'tokens is 0, must be a whole number from 1'),
        ({'stop': ['a', '']}, 'a stop string is empty'),
    ],
)
def test_a_mistake_is_named(tokenizer, more, message):
    with pytest.raises(UserError, match=message):
        text_generation.generate(None, None, None, tokenizer, **{'prompt': [5]} | more)


@pytest.mark.full
def test_samples_in_training_change_nothing_of_it(tmp_path, capsys):
    text = corpus(tmp_path / 'text')
    points = []
    said = []
    for n in (0, 5):
        config = pretrain_config(text, train__steps=20, eval__sample=n)
        found = points_of(results.read(pretraining.run(config, tmp_path / str(n)).metrics))
        points.append([found[name] for name in ('loss', 'grad_norm', 'valid_loss')])
        shown = capsys.readouterr().out.splitlines()
        said.append([line.split(' | ') for line in shown if ' | ' in line])
    assert points[0] == points[1] and not said[0]
    first, second = said[1]
    assert len(first) == len(second) == 2 and first[0] == second[0]
