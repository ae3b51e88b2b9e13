"""Generating by text: what a continuation is, stop strings, words as they come, the command and its mistakes."""
import itertools

import pytest
from tiny import command, corpus, pretrain_config

from gpt1_jax import generation, pretrain, sampling, scoring, sharding, workdir
from gpt1_jax.data import tokenizer as tokenizer_lib
from gpt1_jax.errors import UserError
from gpt1_jax.sampling import Sampling

TEXT = 'The cat sat on a mat, naïve and old. The End. Red dogs ran.\nOld birds sang'
WHOLE = 'the cat sat on a mat , naïve and old . the end . red dogs ran .'  # its first line, as it is read


@pytest.fixture(scope='module')
def tokenizer():
    return tokenizer_lib.train([TEXT] * 3, merges=25)


@pytest.fixture
def scripted(monkeypatch, tokenizer):
    """A model that always writes TEXT, whatever it is asked: `generate` with that in place of the model."""
    ids = tokenizer.encode(TEXT) + [tokenizer.newline_id] * 50
    monkeypatch.setattr(sampling, 'tokens', lambda model, params, mesh, prompts, how, streams: (
        sampling.np.full(len(prompts), token) for token in ids))

    def generate(tokens, **more):
        pieces = []
        ((found,),) = generation.generate(None, None, None, tokenizer, ['A cat'], tokens,
                                          show=lambda prompt, sample, text: pieces.append(text), **more)
        assert ''.join(pieces) == found.text
        return found, pieces
    return generate


def test_a_continuation_is_its_tokens_and_their_text(scripted, tokenizer):
    n = len(tokenizer.encode(TEXT))
    found, pieces = scripted(n)
    assert found == (tokenizer.encode(TEXT), tokenizer.decode(tokenizer.encode(TEXT)), 'length')
    assert found.text == f'{WHOLE}\nold birds sang'
    found, _ = scripted(4)
    assert found.ids == tokenizer.encode(TEXT)[:4] and found.text == tokenizer.decode(found.ids)


def test_words_come_one_by_one_and_whole(scripted, tokenizer):
    _, pieces = scripted(len(tokenizer.encode(TEXT)))
    assert pieces == ['the', *(f' {word}' for word in WHOLE.split()[1:]), '\n', 'old', ' birds', ' sang']
    assert len(tokenizer.encode(TEXT)) > len(pieces)  # there are words of several tokens, and bytes


@pytest.mark.parametrize('stop, text', [
    (['The End.'], 'the cat sat on a mat , naïve and old .'),
    (['ran'], 'the cat sat on a mat , naïve and old . the end . red dogs'), (['\n'], WHOLE),
    (['nowhere', 'old', 'mat'], 'the cat sat on a'), (['the'], ''), (['at s'], 'the c'),
    (['MAT, naïve and young', 'and'], 'the cat sat on a mat , naïve')])
def test_a_text_ends_before_the_first_stop_string(scripted, stop, text):
    found, pieces = scripted(200, stop=stop)
    assert found.text == text and found.reason == 'stop'


def test_what_may_begin_a_stop_string_is_held_back_until_it_does_not(scripted):
    _, pieces = scripted(200, stop=['a mat on', 'birds sang loudly', '\n\n'])
    assert pieces[3:6] == [' on', ' a mat ,', ' naïve'] and pieces[-3:] == [' .', '\nold', ' birds sang']


def test_stop_strings_do_not_reach_into_the_prompt(scripted):
    assert scripted(3, stop=['A cat the'])[0].reason == 'length'


@pytest.mark.parametrize('text, stops, n', [('a b', ['b c'], 1), ('a b', ['a b c', 'b c'], 3), ('a b', ['c'], 0),
                                            ('a b', ['a b'], 0), ('', ['a'], 0), ('xx', ['xxy'], 2)])
def test_how_much_may_begin_a_stop_string(text, stops, n):
    assert generation.held_back(text, stops) == n


def test_a_token_ends_a_word_or_it_does_not(tokenizer):
    for ids in (tokenizer.encode(TEXT), tokenizer.encode('a\nb')):
        for n in range(1, len(ids)):
            ends = tokenizer.decode([*ids[:n], *tokenizer.encode('x')])[len(tokenizer.decode(ids[:n])):]
            assert tokenizer.ends_word(ids[n - 1]) == (ends[0] in ' x' and ends != 'x' or ids[n - 1] == 1)


@pytest.mark.parametrize('more, message', [
    ({'prompts': ['']}, 'the prompt is empty'), ({'prompts': ['a', ' \n']}, 'prompt 2 is empty'),
    ({'tokens': 0}, 'tokens is 0, must be a whole number of at least 1'), ({'samples': True}, 'samples is True'),
    ({'stop': ['a', '']}, 'a stop string is empty')])
def test_a_mistake_is_named(tokenizer, more, message):
    with pytest.raises(UserError, match=message):
        generation.generate(None, None, None, tokenizer, **{'prompts': ['a']} | more)


@pytest.fixture(scope='module')
def pretrained(tmp_path_factory):
    base = tmp_path_factory.mktemp('generate')
    config = pretrain_config(corpus(base / 'text'), train__steps=60, checkpoint__every=60, eval__every=60)
    return pretrain.run(config, base / 'run').path


def test_several_prompts_and_samples_are_what_each_is_alone(pretrained):
    run, mesh = workdir.load(pretrained), sharding.make_mesh()
    tokenizer, (model, params) = run.tokenizer(), scoring.restore(run, 60, mesh)
    how = Sampling(temperature=0.8, seed=3)
    found = generation.generate(model, params, mesh, tokenizer, ['The cat', 'Red dogs ran over'], 30, how, samples=3)
    assert [len(of) for of in found] == [3, 3] and len({one.text for of in found for one in of}) == 6
    ((alone,),) = generation.generate(model, params, mesh, tokenizer, ['Red dogs ran over'], 30, how)
    assert alone == found[1][0] and len(alone.ids) == 30
    ids = tokenizer.encode('Red dogs ran over')
    source = sampling.tokens(model, params, mesh, [ids], how, [generation.stream(ids, 0)])
    assert alone.ids == [int(token[0]) for token in itertools.islice(source, 30)]


def test_the_command_writes_samples_and_a_seed_repeats_them(pretrained):
    arguments = [f'--init_from={pretrained}', '--prompt=The CAT, sat', '--tokens=20', '--temperature=0.9', '--seed=4']
    one = command('generate', *arguments, check=0)
    three = command('generate', *arguments, '--samples=3', check=0)
    assert one.stdout.startswith('the cat , sat ') and len(one.stdout.split()) > 6
    assert three.stdout.startswith('--- 1 of 3\n' + one.stdout + '--- 2 of 3\nthe cat , sat ')
    told = 'notice: the context of 16 positions is full: it goes on from the last 8 tokens\n'
    assert one.stderr == three.stderr == told


def test_a_mistake_on_the_command_line_is_one_line(pretrained, tmp_path):
    for arguments, error in (
            ((f'--init_from={pretrained}', '--prompt= '), 'the prompt is empty: give it a word at least'),
            ((f'--init_from={pretrained}', '--prompt=a', '--top_p=2'),
             'top_p is 2.0, must be a number above 0 and at most 1')):
        done = command('generate', *arguments, check=1)
        assert (done.stdout, done.stderr) == ('', f'error: {error}\n')
