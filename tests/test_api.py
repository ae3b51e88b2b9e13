"""gpt1_jax.load and a run's predictions for texts: the examples of its documentation, every kind of
run, and mistakes."""

import doctest
import json
import pathlib
import pydoc
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_predict import fitted, states

import gpt1_jax
import reference
import saved
from gpt1_jax import api, finetuning, pretraining
from gpt1_jax.cli import config_file
from gpt1_jax.data import bpe_training, corpus
from gpt1_jax.errors import UserError, fail
from gpt1_jax.evaluation import text_generation
from gpt1_jax.evaluation.text_generation import Continuation
from gpt1_jax.models.build import backbone

pytestmark = pytest.mark.full

SENTENCE = 'The cat sat on a mat.\n'
SIZES = {
    'kind': 'gpt',
    'ops': {},
    'n_layer': 2,
    'n_embd': 16,
    'n_head': 4,
    'n_inner': 16,
    'n_ctx': 16,
}


class Frame(list):
    """Like pandas' DataFrame, a loop over which gives the names of its columns."""

    columns = ('text',)


def by_heart(tokenizer):
    """Parameters, by hand, of a model that goes on with the sentence from any of its tokens:
    attention adds nothing, each token is an axis, and the last feed-forward network turns it to
    that of the next one."""
    model = backbone(SIZES | {'vocab_size': tokenizer.vocab_size})
    shapes = jax.eval_shape(
        lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    )
    params = jax.tree.map(lambda x: np.zeros(x.shape, np.float32), shapes)
    cycle = [*tokenizer.encode(SENTENCE), tokenizer.newline_id]
    for axis, token in enumerate(cycle):
        params['embed']['tokens'][token, axis] = 4
        params['blocks']['mlp']['proj']['kernel'][1, axis, (axis + 1) % len(cycle)] = 20
    params['blocks']['mlp']['fc']['kernel'][1] = np.eye(16)
    for norm in ('ln_1', 'ln_2'):
        params['blocks'][norm]['scale'][:] = 1
    return params


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    """A directory with runs/gpt1, which knows a sentence by heart, from update 60 on, and
    runs/tuned, a classifier of random weights."""
    base = tmp_path_factory.mktemp('api')
    tokenizer = bpe_training.train([SENTENCE] * 9, merges=15)
    config = {
        'kind': 'pretrain',
        'model': SIZES | {'vocab_size': tokenizer.vocab_size, 'resid_dropout': 0.0},
        'fingerprint': {},
    }
    saved.run(
        base / 'runs' / 'gpt1', config, tokenizer, by_heart(tokenizer), steps=60, first=30, by=30
    )
    fitted(base, 'cola', steps=2)[0].rename(base / 'runs' / 'tuned')
    (base / 'books').mkdir()
    (base / 'books' / '1.txt').write_text(f'{SENTENCE}\n' * 50)
    (base / 'valid.txt').write_text(f'{SENTENCE}\n' * 10)
    rows = [f'The cat sat on a mat {n}.,yes\nDogs ran {n}.,no\n' for n in range(20)]
    (base / 'cats.csv').write_text('sentence,is_cat\n' + ''.join(rows))
    return base


@pytest.mark.parametrize(
    'example',
    [e for e in doctest.DocTestFinder().find(api) if e.examples],
    ids=lambda e: e.name.removeprefix('gpt1_jax.api').lstrip('.') or 'module',
)
def test_the_examples_are_true(example, base, gpt1, monkeypatch):
    monkeypatch.chdir(base)
    example.globs.update(gpt1_jax=gpt1_jax, gpt1=gpt1)  # as in the module's docstring
    told = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(example, out=told.append)
    assert not told, ''.join(told)


@pytest.fixture(scope='module')
def gpt1(base):
    return gpt1_jax.load(base / 'runs' / 'gpt1')


@pytest.mark.quick
def test_a_loaded_run_is_that_run(base, gpt1):
    assert (
        gpt1.kind == 'pretrain' and gpt1.config['model']['n_ctx'] == gpt1.model.config.n_ctx == 16
    )
    embedding = by_heart(gpt1.tokenizer)['embed']['tokens']
    np.testing.assert_array_equal(gpt1.params['embed']['tokens'], embedding)
    first = gpt1_jax.load(str(base / 'runs' / 'gpt1'), 30)
    np.testing.assert_array_equal(first.params['embed']['tokens'], embedding / -31)


def test_a_text_is_embedded_by_its_last_state_and_only_the_last_tokens_count(gpt1):
    texts = ['The cat', 'sat', 'On a mat. ' * 9, 'A mat. the cat sat on\n a mat. the cat sat on']
    found = gpt1.embed(texts)
    for text, state in zip(texts, found):
        ids = np.array([gpt1.encode(text)[-16:]])
        np.testing.assert_allclose(state, reference.gpt(gpt1.params, ids)[0][0, -1], atol=1e-5)
    assert found.dtype == np.float32 and len({state.argmax() for state in found}) > 2


def test_a_fine_tuned_run_embeds_what_its_classifier_reads(tmp_path):
    path, params = fitted(tmp_path / 'qqp', 'qqp')
    pairs = [('red dogs', 'a cat'), ('old birds', 'bread')]
    expected = [states(params, a, b) + states(params, b, a) for a, b in pairs]
    np.testing.assert_allclose(gpt1_jax.load(path).embed(pairs), expected, atol=1e-4)

    path, params = fitted(tmp_path / 'race', 'race')
    race = gpt1_jax.load(path)
    rows = [
        {'texts': ('red dogs', 'who ?'), 'choices': choices}
        for choices in (('dogs', 'a cat'), ('dogs', 'red', 'birds'))
    ]
    for row, found in zip(rows, race.embed(rows), strict=True):
        expected = [states(params, row['texts'], choice) for choice in row['choices']]
        expected += [np.zeros(16)] * (3 - len(expected))
        np.testing.assert_allclose(found, expected, atol=1e-4)
    pieces, maps = race.attention(rows[0])
    assert ''.join(pieces) == '<start> red dogs who ? <delimiter> dogs <extract> '
    assert maps.shape == (2, 4, len(pieces), len(pieces))
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-6)


def test_a_quotation_mark_of_the_prompt_is_closed_by_that_of_its_continuation(gpt1, monkeypatch):
    monkeypatch.setattr(
        text_generation, 'generate', lambda *_: [Continuation(text='" , they said . " a')]
    )
    assert gpt1.generate('The "cat') == ['", they said. "a']


@pytest.mark.parametrize(
    'ask, message',
    [
        (lambda gpt1, tuned: gpt1.score('The'), 'the text has 1 token'),
        (lambda gpt1, tuned: gpt1.generate('a', stop=[3]), r'stop is \[3\], must be a text or a'),
        (lambda gpt1, tuned: gpt1.classify(['a']), 'runs/gpt1: is a pretrained run; labels need a'),
        (lambda gpt1, tuned: gpt1.embed('The cat'), "rows is 'The cat', must be a list of texts"),
        (lambda gpt1, tuned: gpt1.embed(['The cat', '']), 'text 1 is empty'),
        (lambda gpt1, tuned: gpt1.generate(['The cat']), "^.'The cat'. is not a text"),
        (lambda gpt1, tuned: gpt1.embed(Frame(['text'])), 'rows is .*, must be a list of texts'),
        (lambda gpt1, tuned: tuned.classify('The cat'), "rows is 'The cat', must be a list of row"),
        (lambda gpt1, tuned: gpt1_jax.load(None), 'path is None, must be a text or a path'),
        (lambda gpt1, tuned: tuned.classify(['The cat', ('a', 'b')]), 'row 1: 2 texts, expected 1'),
    ],
)
def test_a_mistake_is_one_line(ask, message, base, gpt1):
    with pytest.raises(UserError, match=message) as error:
        ask(gpt1, gpt1_jax.load(base / 'runs' / 'tuned'))
    assert '\n' not in str(error.value)
    assert error.value._render_traceback_() == [f'error: {error.value}']


def test_the_names_of_the_package_are_found():
    page = pydoc.plain(pydoc.render_doc(gpt1_jax))
    assert 'class Trained(' in page and 'class UserError(' in page and '    load(' in page
    with pytest.raises(AttributeError, match="module 'gpt1_jax' has no attribute 'lood'"):
        gpt1_jax.lood


def test_pretraining_from_python_begins_with_a_run_and_takes_its_sizes_and_vocabulary(
    base, gpt1, monkeypatch
):
    monkeypatch.chdir(base)
    fields = {'train.steps': 2, 'batch.size': 8, 'data.valid': 'valid.txt', 'eval.batch_size': 8}
    first, again = (
        gpt1_jax.pretrain('books', 'runs/more', init_from='runs/gpt1', fields=fields)
        for _ in range(2)  # then the run is finished
    )
    assert (first.kind, first.step, first.path) == ('pretrain', 2, 'runs/more')
    assert {name: first.config['model'][name] for name in SIZES} == SIZES
    assert first.tokenizer.fingerprint == gpt1.tokenizer.fingerprint
    assert first.config['train']['epochs'] == pretraining.EPOCHS_AFTER
    assert again.config == first.config
    with pytest.raises(UserError, match='^config has no field batch.sise, did you mean'):
        gpt1_jax.pretrain('books', 'runs/other', fields={'batch.sise': 8})
    with pytest.raises(UserError, match='model.n_layer is 5, that of runs/gpt1 is 2'):
        gpt1_jax.pretrain('books', 'runs/other', init_from='runs/gpt1', fields={'model.n_layer': 5})


def test_minutes_become_a_number_of_updates_that_a_second_start_keeps(base, monkeypatch):
    monkeypatch.chdir(base)
    asked = mock.Mock(wraps=corpus.expand)
    monkeypatch.setattr(corpus, 'expand', asked)
    monkeypatch.setattr(pretraining.profiling, 'time_step', mock.Mock(return_value=(3.0, 0)))
    fields = {'batch.size': 8, 'data.valid': 'valid.txt', 'eval.batch_size': 8}
    for _ in range(2):
        run = gpt1_jax.pretrain(
            'books', 'runs/short', init_from='runs/gpt1', minutes=0.1, fields=fields
        )
        assert run.step == 2
        # The text is looked up once
        assert [call.args[0] for call in asked.call_args_list].count('books') == 1
        asked.reset_mock()
    pretraining.profiling.time_step.assert_called_once()
    with pytest.raises(UserError, match='^runs/tuned holds a fine-tuning run'):
        gpt1_jax.pretrain('books', 'runs/tuned', minutes=1, fields=fields)


def test_a_run_that_begins_with_another_keeps_the_user_s_operations(base, monkeypatch):
    monkeypatch.chdir(base)
    config = config_file.load('pretrain')
    config.model.ops.gelu = 'mine.py:relu'
    found = pretraining.begin_from(config, 'runs/gpt1').model
    assert found.ops.gelu == 'mine.py:relu'
    assert found.n_layer == SIZES['n_layer'] and found.resid_dropout == 0
    assert config.model.n_layer == 12 and config.model.resid_dropout == 0.1
    kept = pretraining.begin_from(config, 'runs/gpt1', ['model.resid_dropout'])
    assert kept.model.resid_dropout == 0.1
    with pytest.raises(UserError, match='^--config=pretrian: no such file'):
        gpt1_jax.pretrain('books', 'runs/other', config='pretrian')


def test_the_arguments_for_a_table_are_fields_of_the_config(base, monkeypatch):
    monkeypatch.chdir(base)
    asked = []
    monkeypatch.setattr(finetuning, 'run', lambda config, directory: asked.append(config))
    monkeypatch.setattr(api, 'load', lambda directory: None)

    def given(data, *more, **options):
        gpt1_jax.finetune(data, 'x', *more, **options)
        return asked[-1]

    config = given('own.csv', 'a', 'y', score=(0, 1234567), fields={'train.epochs': 2})
    own = dict(data='own.csv', text=('a',), label='y', choices=(), encoding='utf-8')
    assert config.custom.to_dict() == own | {'score': (0, 1234567)}
    assert (config.init_from, config.train.epochs) == ('novels', 2)
    config = given('own.csv', ['a', 'b'], 'y', choices='o', encoding='latin-1').custom
    assert (config.encoding, config.choices, config.text) == ('latin-1', ('o',), ('a', 'b'))
    config = given('copa', task='mine.py:COPA')
    assert config.task == 'mine.py:COPA' and config.data.dir == 'copa'
    frame = pytest.importorskip('pandas').DataFrame({'a': ['A cat.'], 'y': [1]})
    path = given(frame, 'a', 'y').custom.data
    assert json.loads(pathlib.Path(path).read_text()) == {'a': 'A cat.', 'y': 1}
    monkeypatch.setattr(finetuning, 'run', lambda *_: fail(f'{path}: row 0: no label'))
    with pytest.raises(UserError, match='^the DataFrame: row 0: no label'):
        given(frame, 'a', 'y')
    with pytest.raises(UserError, match='^give text and label'):
        given('cola', 'a', 'y', task='cola')


def test_what_fine_tuning_from_python_lacks_is_named(base, monkeypatch):
    monkeypatch.chdir(base)
    with pytest.raises(UserError, match='^give text and label, the columns of your rows, or task$'):
        gpt1_jax.finetune('cats.csv', 'runs/other', label='is_cat')
    with pytest.raises(UserError, match='^no-such-directory'):
        gpt1_jax.finetune('no-such-directory', 'runs/other', task='cola', init_from='runs/gpt1')
