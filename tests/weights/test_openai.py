"""The released files as a run: against transformers given the same arrays, and every way in which they can be wrong."""
import json
import shutil

import jax
import numpy as np
import pytest

import released
from exports import restored
from gpt1_jax.errors import UserError, os_errors_in_one_line
from gpt1_jax.runs import checkpoint, workdir
from gpt1_jax.weights import names, openai
from shared import VOCABULARY, needs_vocabulary
from tiny import command

pytestmark = pytest.mark.full


@pytest.fixture
def source(base, released_run):
    return base / 'released'


@pytest.mark.quick
def test_every_array_comes_back_to_the_bit_under_its_name(released_run):
    params = restored(released_run)
    expected = released.hugging_face(released.arrays())
    found = names.from_tree(released_run.config['model'], params)
    assert list(found) == list(expected)  # the released order too
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes() and found[name].shape == array.shape, name
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == sum(array.size for array in expected.values())
    assert params['embed'].keys() == {'tokens', 'positions'}  # no special rows: fine-tuning draws them


def test_the_run_says_where_it_is_from(released_run):
    run = released_run
    assert workdir.load(run.path).config == run.config and run.steps() == [0]
    assert run.config['imported']['from'] == 'openai/finetune-transformer-lm'
    assert len(run.config['imported']['files']) == 13
    assert run.tokenizer().decode(run.tokenizer().encode('The cat\nsat')) == 'the cat\nsat'
    assert checkpoint.read_meta(run.checkpoints, 0)['config'] == run.config


def test_the_same_command_again_does_no_harm_and_other_weights_want_another_directory(source, released_run, tmp_path):
    done = command('openai', f'--source={source}', f'--out={tmp_path / "run"}', '--n_head=4', check=0)
    assert 'parameters, vocabulary of 72, digest ' in done.stdout and f'--init_from={tmp_path / "run"}' in done.stdout
    assert workdir.load(tmp_path / 'run').steps() == [0]
    before = checkpoint.read_meta(released_run.checkpoints, 0)
    assert checkpoint.read_meta(openai.convert(source, released_run.path, n_head=4).checkpoints, 0) == before
    released.write(tmp_path / 'other', seed=1)
    with pytest.raises(UserError, match=r'holds another run \(fingerprint.weights: .*use a new --workdir'):
        openai.convert(tmp_path / 'other', released_run.path, n_head=4)
    with pytest.raises(UserError, match='gs://b/model: copy the files to this machine first'):
        openai.convert('gs://b/model', 'run')


class Harm:
    def __reduce__(self):
        return (open, ('harm', 'w'))


def array(change):
    """Writes what `change` makes of the vector of a file in its place."""
    return lambda path: np.save(path, change(np.load(path)), allow_pickle=True)


def content(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def shapes(change):
    return lambda path: path.write_text(json.dumps(change(json.loads(path.read_text()))))


def shape(i, value):
    return shapes(lambda listed: [*listed[:i], value, *listed[i + 1:]])


PIECE, SHAPES = 'params_4.npy', 'params_shapes.json'
DAMAGES = (
    (PIECE, lambda p: p.unlink(), 'No such file or directory'),
    (PIECE, content(lambda data: data[:-4]), 'not a complete .npy file'),
    (PIECE, array(lambda x: np.array([Harm()], object)), 'not a complete .npy file without pickled objects'),
    (PIECE, array(lambda x: x.astype('<f8')), 'must hold a vector of float32'),
    (PIECE, array(lambda x: np.append(x[:-1], np.float32(np.nan))), 'holds values that are not finite'),
    ('params_9.npy', array(lambda x: np.zeros(5, np.float32)), r'hold [\d,]+ values, params_shapes.json'),
    (SHAPES, content(lambda data: b'{'), 'not JSON'),
    (SHAPES, content(lambda data: b'{}'), r'must list the shapes of 2 \+ 12 n arrays'),
    (SHAPES, shape(0, [-64, 24]), 'model.n_ctx is -64'), (SHAPES, shape(0, [64.0, 24]), 'model.n_ctx is 64.0'),
    (SHAPES, shape(3, 'wide'), r'shape 3 \(h.0.attn.c_attn.bias\) is .wide., must be \[72\]'),
    (SHAPES, shape(0, [64, 25]), 'model.n_embd = 25 is not a multiple of model.n_head = 4'),
    (SHAPES, shape(1, [72, 28]), r'shape 1 \(tokens_embed.weight\) is \[72, 28\], must be \[72, 24\]'),
    (SHAPES, shape(14, [24, 72]), r'shape 14 \(h.1.attn.c_attn.weight\) is \[24, 72\], must be \[1, 24, 72\]'),
    (SHAPES, shapes(lambda s: s[1:2] + s[:1] + s[2:]), 'the vocabulary has 72 rows, .* 64'),
    ('encoder_bpe_40000.json', lambda p: released.write(p.parent, vocab_size=73), 'the vocabulary has 72 rows, .* 73'))


@pytest.mark.parametrize('name, spoil, message', DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_file_is_named_and_nothing_is_written_or_run(source, tmp_path, monkeypatch, name, spoil, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(source, tmp_path / 'files')
    spoil(tmp_path / 'files' / name)
    with pytest.raises(UserError, match=message) as caught, os_errors_in_one_line():
        openai.convert(tmp_path / 'files', tmp_path / 'run', n_head=4)
    text = str(caught.value)
    assert str(tmp_path / 'files') in text and text.isprintable() and len(text) < 400
    assert name in text or 'shapes' in text or 'vocabulary' in text
    assert not (tmp_path / 'run').exists() and not (tmp_path / 'harm').exists()


@needs_vocabulary
def test_the_released_list_of_shapes_gives_the_paper_s_model():
    model = openai.read_sizes(VOCABULARY / 'params_shapes.json', 12)
    assert {name: model[name] for name in ('n_ctx', 'vocab_size', 'n_embd', 'n_layer', 'n_inner', 'n_head')} == {
        'n_ctx': 512, 'vocab_size': 40478, 'n_embd': 768, 'n_layer': 12, 'n_inner': 3072, 'n_head': 12}
    assert sum(np.prod(shape) for shape in names.shapes(model).values()) == 116_534_784
