"""Hugging Face's directories: what transformers makes of an export, and what comes back."""
import json
import shutil
import struct

import jax
import numpy as np
import pytest
import released
import safetensors.numpy
from tiny import cola, command, corpus, finetune_config, pretrain_config

from gpt1_jax import finetune, metrics, pretrain, scoring, sharding, workdir
from gpt1_jax.errors import UserError
from gpt1_jax.weights import hugging_face, openai

pytestmark = pytest.mark.filterwarnings('ignore:.*the published set has')
MESH = sharding.make_mesh(devices=jax.devices()[:1])


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    return tmp_path_factory.mktemp('hugging_face')


@pytest.fixture(scope='module')
def pretrained(base):
    config = pretrain_config(corpus(base / 'text'), model__n_inner=64, model__n_ctx=48, train__steps=4, eval__every=4,
                             tokenizer__merges=200)
    return pretrain.run(config, base / 'pretrained')


@pytest.fixture(scope='module')
def exported(base, pretrained):
    hugging_face.export(pretrained.path, base / 'exported')
    return base / 'exported'


@pytest.fixture(scope='module')
def data(base):
    return cola(base / 'cola')


@pytest.fixture(scope='module')
def tuned(base, pretrained, data):
    finetune.run(finetune_config('cola', data, init_from=str(pretrained.path)), base / 'tuned')
    return workdir.load(base / 'tuned')


@pytest.fixture(scope='module')
def released_run(base):
    """The published vocabulary's layout, and weights that are no small numbers."""
    released.write(base / 'released')
    return openai.convert(base / 'released', base / 'released_run', n_head=4)


@pytest.fixture
def transformers():
    return pytest.importorskip('transformers')


def restored(run):
    model, params = scoring.restore(run, run.step(), MESH)
    return model, jax.device_get(params)


def logits(model, params, ids):
    hidden, table = jax.jit(model.apply)({'params': params}, ids)
    return np.asarray(hidden @ table.tokens.T)


def same_run(run, other):
    """Whether weights, to the bit, sizes and vocabulary are the same."""
    ours, theirs = (jax.tree_util.tree_leaves_with_path(restored(one)[1]) for one in (run, other))
    for (path, leaf), (place, found) in zip(ours, theirs, strict=True):
        assert place == path and found.tobytes() == leaf.tobytes() and found.shape == leaf.shape, path
    sizes = ('kind', 'vocab_size', 'n_ctx', 'n_embd', 'n_layer', 'n_head', 'n_inner', 'embd_dropout', 'attn_dropout',
             'resid_dropout')
    assert [run.config['model'][name] for name in sizes] == [other.config['model'][name] for name in sizes]
    assert run.tokenizer().fingerprint == other.tokenizer().fingerprint
    return True


# Export

@pytest.mark.parametrize('which', ['pretrained', 'released_run'])
def test_transformers_loads_an_export_and_gives_its_logits(which, base, request, transformers):
    import torch
    run = request.getfixturevalue(which)
    hugging_face.export(run.path, base / f'logits_{which}')
    theirs, info = transformers.OpenAIGPTLMHeadModel.from_pretrained(base / f'logits_{which}', output_loading_info=True)
    assert not any(info.values()), info
    ids = np.random.default_rng(0).integers(0, run.config['model']['vocab_size'], (3, 48)).astype(np.int32)
    with torch.no_grad():
        expected = theirs.eval()(torch.from_numpy(ids).long()).logits.numpy()
    found = logits(*restored(run), ids)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_greedy_continuation_is_the_same(pretrained, exported, transformers):
    import torch
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported).eval()
    prompt = 'The cat sat on a mat, while red'
    given = tokenizer(prompt, return_tensors='pt')
    assert given.input_ids[0].tolist() == pretrained.tokenizer().encode(prompt)
    with torch.no_grad():
        expected = theirs.generate(**given, max_new_tokens=20, do_sample=False, pad_token_id=0)[0].tolist()
    ids, n = np.zeros((1, 48), np.int32), len(pretrained.tokenizer().encode(prompt))
    ids[0, :n] = pretrained.tokenizer().encode(prompt)
    model, params = restored(pretrained)
    apply = jax.jit(lambda ids: (lambda hidden, table: hidden @ table.tokens.T)(*model.apply({'params': params}, ids)))
    for place in range(n, n + 20):
        ids[0, place] = np.asarray(apply(ids))[0, place - 1].argmax()
    assert expected == ids[0, :n + 20].tolist()


def test_a_classifier_gives_its_predictions_in_transformers(tuned, base, data, transformers):
    import torch
    hugging_face.export(tuned.path, base / 'classifier')
    theirs, info = transformers.OpenAIGPTForSequenceClassification.from_pretrained(
        base / 'classifier', output_loading_info=True)
    assert not any(info.values()), info
    assert theirs.config.id2label == {0: '0', 1: '1'}
    tokenizer = transformers.AutoTokenizer.from_pretrained(base / 'classifier')
    texts = [line.split('\t')[3] for line in (data / 'dev.tsv').read_text().splitlines()]
    ours = tuned.tokenizer()
    assert tokenizer(texts[0]).input_ids == [ours.start_id, *ours.encode(texts[0]), ours.extract_id]
    with torch.no_grad():  # of several lengths, so with padding
        found = theirs.eval()(**tokenizer(texts, padding=True, return_tensors='pt')).logits.numpy()
    _, _, scores = metrics.read_predictions(tuned.predictions('dev'))
    assert np.abs(scores).max() > 0.01 and len(scores) == 13
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-5)


def edited(run, directory, change):
    """A copy of a run whose config.json was changed."""
    shutil.copytree(run.path, directory)
    config = json.loads((directory / 'config.json').read_text())
    change(config)
    (directory / 'config.json').write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize('which, change, message', [
    ('tuned', lambda c: c.update(task='mrpc'), 'head of mrpc adds the states of both orders.*reads one sequence'),
    ('tuned', lambda c: c.update(task='race'), 'head of race compares the states of the choices.*reads one sequence'),
    ('pretrained', lambda c: c['model'].update(n_inner=32), 'n_inner is 32, but OpenAIGPT has 4 x 16 always'),
    ('pretrained', lambda c: c.update(model={'kind': 'lstm', 'n_units': 16, 'n_ctx': 48, 'vocab_size': 300}),
     'transformers has no lstm'),
], ids=['similarity', 'choice', 'width', 'lstm'])
def test_what_transformers_has_no_model_for_is_said_in_one_line(which, change, message, request, tmp_path):
    run = edited(request.getfixturevalue(which), tmp_path / 'run', change)
    with pytest.raises(UserError, match=f'run: .*{message}') as caught:
        hugging_face.export(run, tmp_path / 'out')
    assert str(caught.value).isprintable() and not (tmp_path / 'out').exists()


def test_a_directory_with_other_files_is_left_alone_and_an_export_is_replaced(pretrained, exported, tmp_path):
    (tmp_path / 'thesis.txt').write_text('mine')
    with pytest.raises(UserError, match='holds other files'):
        hugging_face.export(pretrained.path, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ['thesis.txt']
    before = {p: p.read_bytes() for p in exported.rglob('*') if p.is_file()}
    hugging_face.export(pretrained.path, exported)
    assert {p: p.read_bytes() for p in exported.rglob('*') if p.is_file()} == before


def test_the_model_card_says_what_the_run_says(pretrained, exported, tuned, base):
    card = (exported / 'README.md').read_text()
    assert card.startswith('---\nlicense: "other"\n')
    for line in (f'corpus: `{base / "text"}`', pretrained.config['fingerprint']['tokens'],
                 'tokens seen: 1,536 (4 updates of 8 x 48)', '* batch.size is 8, in the paper 64',
                 '* model.n_layer is 2, in the paper 12', 'the corpus is not BooksCorpus', '* valid_perplexity ',
                 'trained on the corpus', 'stated by nobody yet', 'which OpenAIGPTTokenizer cannot'):
        assert line in card, line
    assert 'MIT License' not in card  # nothing published is in it
    hugging_face.export(tuned.path, base / 'card', license='apache-2.0')
    card = (base / 'card' / 'README.md').read_text()
    for line in ('license: "apache-2.0"', 'fine-tuned on cola', 'pipeline_tag: "text-classification"',
                 f'weights of digest `{tuned.config["fingerprint"]["origin"]}`', 'pretraining tokens seen: 1,536',
                 'train.tsv `', 'cola, dev, finetune: matthews', "bias is in the bias of the last LayerNorm"):
        assert line in card, line


def test_the_card_of_the_published_vocabulary_carries_its_notice(theirs):
    card = (theirs / 'README.md').read_text()
    assert 'Copyright (c) 2018 OpenAI' in card and 'openai/finetune-transformer-lm' in card
    assert 'imported from openai/finetune-transformer-lm, SHA-256 of its files params_shapes.json `' in card
    assert 'corpus and tokens seen: not recorded with the weights' in card and 'BooksCorpus, which' not in card


# Import

def test_a_round_trip_is_equal_to_the_bit(pretrained, exported, tmp_path):
    back = hugging_face.convert(exported, tmp_path / 'back')
    assert same_run(pretrained, back)
    hugging_face.export(back.path, tmp_path / 'again')
    for name in ('model.safetensors', 'config.json', 'tokenizer.json'):
        assert (tmp_path / 'again' / name).read_bytes() == (exported / name).read_bytes()


def test_what_transformers_saves_is_imported(released_run, base, tmp_path, transformers):
    hugging_face.export(released_run.path, base / 'published')
    transformers.OpenAIGPTLMHeadModel.from_pretrained(base / 'published').save_pretrained(tmp_path / 'theirs')
    with pytest.raises(UserError, match='theirs: no vocabulary in it .*give --tokenizer=DIR'):
        hugging_face.convert(tmp_path / 'theirs', tmp_path / 'back')
    transformers.OpenAIGPTTokenizer.from_pretrained(base / 'published').save_pretrained(tmp_path / 'theirs')
    shutil.rmtree(tmp_path / 'theirs' / 'gpt1_jax', ignore_errors=True)
    assert same_run(released_run, hugging_face.convert(tmp_path / 'theirs', tmp_path / 'back'))


def test_one_file_is_imported_with_or_without_the_prefix_and_the_tied_head(released_run, base, tmp_path):
    arrays = released.hugging_face(released.arrays())
    bare = arrays | {'h.0.attn.bias': np.ones((1, 1, 48, 48), np.float32)}
    prefixed = {f'transformer.{name}': array for name, array in arrays.items()} | {
        'lm_head.weight': arrays['tokens_embed.weight']}
    for name, given in {'bare': bare, 'prefixed': prefixed}.items():
        safetensors.numpy.save_file(given, tmp_path / f'{name}.safetensors')
        back = hugging_face.convert(tmp_path / f'{name}.safetensors', tmp_path / name,
                                    tokenizer=base / 'released', n_head=4)
        assert same_run(released_run, back)
        assert list(back.config['imported']['files']) == [f'{name}.safetensors', 'encoder_bpe_40000.json',
                                                          'vocab_40000.bpe']


def test_fine_tuning_after_the_detour_gives_the_same_result(pretrained, exported, tuned, data, tmp_path):
    hugging_face.convert(exported, tmp_path / 'back')
    finetune.run(finetune_config('cola', data, init_from=str(tmp_path / 'back')), tmp_path / 'tuned')
    again = workdir.load(tmp_path / 'tuned')
    assert again.config['fingerprint'] == tuned.config['fingerprint']
    assert again.predictions('dev').read_bytes() == tuned.predictions('dev').read_bytes()


def test_the_command(pretrained, tmp_path):
    out = command('weights.hugging_face', f'--export={pretrained.path}', f'--out={tmp_path / "out"}', check=0).stdout
    assert 'model.safetensors' in out and (tmp_path / 'out' / 'README.md').exists()
    out = command('weights.hugging_face', f'--source={tmp_path / "out"}', f'--out={tmp_path / "run"}', check=0).stdout
    assert 'parameters, vocabulary of' in out and workdir.load(tmp_path / 'run').steps() == [0]
    bad = command('weights.hugging_face', f'--source={tmp_path / "none"}', f'--out={tmp_path / "other"}', check=1)
    assert bad.stderr == f'error: {tmp_path / "none" / "config.json"}: No such file or directory\n'
    bad = command('weights.hugging_face', f'--out={tmp_path / "other"}', check=1)
    assert bad.stderr == 'error: give either --export=RUN or --source=DIR_OR_FILE\n'


# What is wrong is named in one line, and nothing is written.

def header(entries, body=b'\0' * 8, length=None):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack('<Q', len(text) if length is None else length) + text + body


def entry(shape=[2], dtype='F32', offsets=[0, 8]):
    return {'dtype': dtype, 'shape': shape, 'data_offsets': offsets}


def rewritten(change):
    def spoil(path):
        arrays = safetensors.numpy.load_file(path)
        change(arrays)
        safetensors.numpy.save_file(arrays, path)
    return spoil


def written(content):
    return lambda path: path.write_bytes(content)


def untied(arrays):
    arrays['lm_head.weight'] = arrays['transformer.tokens_embed.weight'] + 1


def changed(name, function):
    def change(arrays):
        arrays[f'transformer.{name}'] = np.ascontiguousarray(function(arrays[f'transformer.{name}']))
    return rewritten(change)


LN = 'h.1.ln_1.weight'
WEIGHTS = {
    'missing': (lambda p: p.unlink(), 'No such file or directory'),
    'pickle instead': (lambda p: p.rename(p.with_name('pytorch_model.bin')), 'is a pickle, which is never read'),
    'directory': (lambda p: (p.unlink(), p.mkdir()), 'Is a directory'),
    'empty': (written(b''), 'not a safetensors file'),
    'truncated': (lambda p: p.write_bytes(p.read_bytes()[:-4]), 'not a safetensors file'),
    'longer': (lambda p: p.write_bytes(p.read_bytes() + b'abcd'), 'not a safetensors file'),
    'header cut': (lambda p: p.write_bytes(p.read_bytes()[:60]), 'not a safetensors file'),
    'header of an exabyte': (written(header({}, length=1 << 60)), 'not a safetensors file'),
    'no JSON': (written(header(b'{"a": ')), 'not a safetensors file'),
    'nested': (written(header(b'[' * 10_000)), 'not a safetensors file'),
    'size that lies': (written(header({'tokens_embed.weight': entry(shape=[1 << 40, 1 << 20])})), 'not a safetensors'),
    'size beyond 64 bits': (written(header({'a': entry(shape=[1 << 63, 4])})), 'not a safetensors file'),
    'offsets backwards': (written(header({'a': entry(offsets=[8, 0])})), 'not a safetensors file'),
    'offsets that overlap': (written(header({'a': entry(), 'b': entry()})), 'not a safetensors file'),
    'unknown type': (written(header({'a': entry(dtype='F33')})), 'not a safetensors file'),
    'nothing in it': (written(header({}, body=b'')), 'tokens_embed.weight is missing'),
    'array missing': (rewritten(lambda a: a.pop(f'transformer.{LN}')), f'{LN} is missing'),
    'block missing': (rewritten(lambda a: [a.pop(k) for k in list(a) if '.h.1.' in k]), r'h\.1\.\S+ is missing'),
    'unknown array': (rewritten(lambda a: a.update(extra=np.ones(3, np.float32))), 'extra is no array of a GPT-1'),
    'a block too far': (rewritten(lambda a: a.update({'h.99999999.x': np.ones(3, np.float32)})), 'not of all before'),
    'shape': (changed(LN, lambda x: x[:-1]), rf'{LN} has shape \(23,\), must be \(24,\)'),
    'transposed': (changed('h.0.mlp.c_fc.weight', np.transpose), r'weight has shape \(96, 24\), must be \(24, 96\)'),
    'rank': (changed('tokens_embed.weight', lambda x: x[None]), r'tokens_embed.weight has shape .*must have 2 dim'),
    'float16': (changed(LN, lambda x: x.astype(np.float16)), rf'{LN} is F16, must be F32'),
    'float64': (changed('tokens_embed.weight', lambda x: x.astype(np.float64)), 'tokens_embed.weight is F64'),
    'not finite': (changed(LN, lambda x: x * np.inf), f'{LN} holds values that are not finite'),
    'untied': (rewritten(untied), "lm_head.weight is another matrix .*GPT-1's output layer is tied"),
    'vocabulary': (changed('tokens_embed.weight', lambda x: x[:-1]), 'arrays say that vocab_size is 71'),
}


@pytest.fixture
def theirs(released_run, base, tmp_path):
    """A directory to spoil."""
    if not (base / 'to_spoil').exists():
        hugging_face.export(released_run.path, base / 'to_spoil')
    shutil.copytree(base / 'to_spoil', tmp_path / 'theirs')
    return tmp_path / 'theirs'


def complaint(theirs, out):
    with pytest.raises(UserError) as caught:
        hugging_face.convert(theirs, out)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600 and message.startswith(str(theirs))
    assert not out.exists()
    return message


@pytest.mark.parametrize('case', WEIGHTS)
def test_a_file_of_weights_that_is_wrong_is_named(theirs, tmp_path, case):
    import re
    spoil, expected = WEIGHTS[case]
    spoil(theirs / 'model.safetensors')
    message = complaint(theirs, tmp_path / 'run')
    assert re.search(expected, message), message
    assert 'model.safetensors' in message or 'pytorch_model.bin' in message


@pytest.mark.parametrize('change, message', [
    ('{', 'not JSON'), ('[]', r'is [], must be an object'), ({'model_type': 'gpt2'}, "model_type is 'gpt2', must be"),
    ({'afn': 'relu'}, "afn is 'relu', must be 'gelu'"), ({'layer_norm_epsilon': 1e-6}, 'layer_norm_epsilon is 1e-06'),
    ({'tie_word_embeddings': False}, 'tie_word_embeddings is False, must be True'),
    ({'n_head': '4'}, "n_head is '4', must be a whole number"), ({'n_head': 10 ** 30}, 'n_head is 1000'),
    ({'n_head': 5}, 'model.n_embd = 24 is not a multiple of model.n_head = 5'),
    ({'n_layer': 2}, 'the arrays say that n_layer is 3, config.json says 2'),
    ({'n_positions': 512}, 'the arrays say that n_positions is 48, config.json says 512'),
    ({'attn_pdrop': 'much'}, "model.attn_dropout is 'much'"), ({'attn_pdrop': 1.0}, 'model.attn_dropout is 1.0'),
], ids=range(13))
def test_a_config_that_is_wrong_or_does_not_fit_is_named(theirs, tmp_path, change, message):
    file = theirs / 'config.json'
    file.write_text(change if isinstance(change, str) else json.dumps(json.loads(file.read_text()) | change))
    assert message in complaint(theirs, tmp_path / 'run')


def test_a_vocabulary_of_another_size_is_named(theirs, exported, tmp_path):
    shutil.rmtree(theirs / 'gpt1_jax')
    shutil.copytree(exported / 'gpt1_jax', theirs / 'gpt1_jax')
    message = complaint(theirs, tmp_path / 'run')
    assert 'tokenizer.model: the vocabulary has' in message and "the weights' token embedding 72" in message


def test_a_vocabulary_that_is_damaged_is_named(theirs, tmp_path):
    shutil.rmtree(theirs / 'gpt1_jax')
    shutil.rmtree(theirs / 'gpt1_jax')
    (theirs / 'merges.txt').write_text('#version: 0.2\nt h\n')
    assert 'do not belong together' in complaint(theirs, tmp_path / 'run')
    for name in ('merges.txt', 'vocab.json'):
        (theirs / name).unlink()
    (theirs / 'tokenizer.json').write_text('{"model": {"vocab": 3, "merges": [], "end_of_word_suffix": "</w>"}}')
    assert 'tokenizer.json' in complaint(theirs, tmp_path / 'run')
    (theirs / 'tokenizer.json').write_text('[')
    assert 'tokenizer.json: not a BPE tokenizer' in complaint(theirs, tmp_path / 'run')
