"""Generating by text: continuations, stop strings, words as they come, the command, and samples in training."""
import itertools
import types

import numpy as np
import pytest

from gpt1_jax import generate, pretrain
from gpt1_jax.data import bpe_training
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import decoding, load, text_generation
from gpt1_jax.runs import results
from short_runs import points_of
from tiny import corpus, pretrain_config

TEXT = 'The cat sat on a mat, naïve and old. The End. Red dogs ran.\nOld birds sang'
WHOLE = 'the cat sat on a mat , naïve and old . the end . red dogs ran .'  # its first line, as it is read


@pytest.fixture(scope='module')
def tokenizer():
    return bpe_training.train([TEXT] * 3, merges=25)


def model_of(n_ctx, n_positions):
    return types.SimpleNamespace(config=types.SimpleNamespace(n_ctx=n_ctx, n_positions=n_positions))


@pytest.fixture
def scripted(monkeypatch, tokenizer):
    """`generate` with a model that always writes TEXT, whatever it is asked."""
    ids = tokenizer.encode(TEXT) + [tokenizer.newline_id] * 50
    monkeypatch.setattr(decoding, 'tokens', lambda model, params, mesh, prompts, how, streams, never: (
        np.full(len(prompts), token) for token in ids))

    def generate(tokens, prompt='A cat', model=model_of(512, 512), **more):
        texts = ['']
        (found,) = text_generation.generate(model, None, None, tokenizer, [prompt], tokens,
                                            show=lambda i, text: texts.append(text), **more)
        assert texts[-1] == found.text
        return found, [text.removeprefix(before) for before, text in itertools.pairwise(texts)]
    return generate


def test_words_come_one_by_one_and_whole(scripted, tokenizer):
    _, pieces = scripted(len(tokenizer.encode(TEXT)))
    assert pieces == ['the', *(f' {word}' for word in WHOLE.split()[1:]), '\n', 'old', ' birds', ' sang']
    assert len(tokenizer.encode(TEXT)) > len(pieces)  # there are words of several tokens, and bytes


@pytest.mark.parametrize('stop, text', [
    (['The End.'], 'the cat sat on a mat , naïve and old .'),
    (['ran'], 'the cat sat on a mat , naïve and old . the end . red dogs'), (['\n'], WHOLE),
    (['nowhere', 'old', 'mat'], 'the cat sat on a'), (['the'], ''), (['at s'], 'the c'),
    (['MAT, naïve and young', 'and'], 'the cat sat on a mat , naïve'), (['Ran.\n\nOld'], WHOLE[:-6]),
    (['\nRed', 'birds'], f'{WHOLE}\nold'), ([' at', ' ran'], WHOLE[:-6])])
def test_a_text_ends_before_the_first_stop_string(scripted, stop, text):
    found, pieces = scripted(200, stop=stop)
    assert found.text == text and found.reason == 'stop'


def test_what_may_begin_a_stop_string_is_held_back_until_it_does_not(scripted, tokenizer):
    _, pieces = scripted(len(tokenizer.encode(TEXT)), stop=['a mat on', 'birds sang loudly', '\nred'])
    assert pieces[3:6] == [' on', ' a mat ,', ' naïve'] and pieces[-3:] == [' .', '\nold', ' birds sang']


def test_samples_of_a_prompt_lie_side_by_side_and_each_has_random_numbers_of_its_own(monkeypatch, tokenizer):
    cat, dogs = (tokenizer.encode(text) for text in ('The cat', 'Red dogs'))

    def tokens(model, params, mesh, prompts, how, streams, never):
        assert prompts == [cat, cat, dogs, dogs] and len(set(streams)) == 4
        assert streams[2:] == [text_generation.stream(dogs, sample) for sample in range(2)]
        return iter(np.array([*zip(*(tokenizer.encode(word) for word in ('red', 'cat', 'as', 'dogs')))]))
    monkeypatch.setattr(decoding, 'tokens', tokens)
    found = text_generation.generate(model_of(9, 9), None, None, tokenizer, ['The cat'] * 2 + ['Red dogs'] * 2, 2)
    assert [one.text for one in found] == ['red', 'cat', 'as', 'dogs']


def test_the_unknown_token_is_never_generated(monkeypatch, tokenizer):
    """Neither by generate nor in the samples of training: evaluation/test_decoding.py has what `never` does."""
    given = []

    def tokens(*_, never):
        given.append(never)
        return iter([np.array([5])])
    monkeypatch.setattr(decoding, 'tokens', tokens)
    text_generation.generate(model_of(9, 9), None, None, tokenizer, ['a cat'], 1)
    monkeypatch.setattr(text_generation, 'backbone', lambda fields: model_of(9, 9))
    stream = types.SimpleNamespace(window=lambda *_: np.full(9, 5))
    text_generation.sampler({}, None, tokenizer, stream, 1)(None)
    assert given == [tokenizer.unk_id] * 2 and b'<unk>' in tokenizer.texts[tokenizer.unk_id]


def test_stop_strings_are_looked_for_as_given_and_as_the_tokenizer_writes_them(tokenizer):
    assert text_generation.stop_forms(tokenizer, ['End.', 'the end', '\n\n', ' At', 'Q:\n']) == [
        'end.', 'end .', 'the end', '\n\n', '\n', ' at', 'q:\n', 'q :\n']


@pytest.mark.parametrize('n_positions, tokens, full', [(8, 5, False), (8, 6, True), (0, 50, False)])
def test_a_notice_tells_of_a_context_that_gets_full(scripted, tokenizer, capsys, n_positions, tokens, full):
    """It has 8 places and the prompt 4 tokens: the last of 5 more is chosen, and not read."""
    assert len(tokenizer.encode('A cat.')) == 4
    scripted(tokens, 'A cat.', model_of(8, n_positions))
    told = 'notice: the context holds 8 tokens: whenever it is full, the text continues from the last 4\n'
    assert capsys.readouterr().err == told * full


@pytest.mark.parametrize('more, message', [
    ({'prompts': ['a', ' \n']}, 'the prompt is empty'), ({'tokens': 0}, 'tokens is 0, must be a whole number from 1'),
    ({'stop': ['a', '']}, 'a stop string is empty')])
def test_a_mistake_is_named(tokenizer, more, message):
    with pytest.raises(UserError, match=message):
        text_generation.generate(None, None, None, tokenizer, **{'prompts': ['a']} | more)


def test_the_command_shows_the_first_sample_as_it_comes_and_the_others_after_it(monkeypatch, tokenizer, capsys):
    """With tokens that are given in place of a model, and a run of nothing but a tokenizer."""
    run = types.SimpleNamespace(step=lambda step: 1, tokenizer=lambda: tokenizer)
    monkeypatch.setattr(load, 'open_pretrained', lambda path: run)
    monkeypatch.setattr(load, 'pretrained', lambda *_: (model_of(512, 512), None))
    given = {'init_from': 'run', 'step': None, 'prompt': 'A  CAT,', 'temperature': 1, 'top_k': 0, 'top_p': 1, 'seed': 0}

    def out(tokens, stop, *texts):
        n = tokenizer.newline_id
        ids = [[n] * text.startswith('\n') + tokenizer.encode(text) for text in texts]
        monkeypatch.setattr(decoding, 'tokens',
                            lambda *_, never: map(np.array, itertools.zip_longest(*ids, fillvalue=n)))
        monkeypatch.setattr(generate.flags, 'FLAGS', types.SimpleNamespace(
            **given, tokens=tokens, stop=stop, samples=len(texts)))
        generate.main()
        return capsys.readouterr().out
    assert out(3, [], 'on a mat') == 'a cat, on a m\n'
    assert out(9, ['mat'], 'on a mat') == 'a cat, on a\n'
    assert out(9, ['on'], 'on a mat') == 'a cat,\n'
    assert out(3, [], '\nold old') == 'a cat,\nold old\n'
    assert out(5, ['mat'], 'on a mat', 'a red mat', 'dogs dogs a') == (
        '--- 1 of 3\na cat, on a\n--- 2 of 3\na cat, a red\n--- 3 of 3\na cat, dogs dogs a\n')


@pytest.mark.full
def test_samples_in_training_change_nothing_of_it(tmp_path, capsys):
    text = corpus(tmp_path / 'text')
    rows, said = {}, {}
    for n in (0, 5):
        run = pretrain.run(pretrain_config(text, train__steps=20, eval__sample=n), tmp_path / str(n))
        points = points_of(results.read(run.metrics))
        rows[n] = {name: points[name] for name in ('loss', 'grad_norm', 'valid_loss')}
        said[n] = [line.split(' | ') for line in capsys.readouterr().out.splitlines() if ' | ' in line]
    assert rows[0] == rows[5] and not said[0]
    assert [len(sample) for sample in said[5]] == [2, 2] and said[5][0][0] == said[5][1][0]
