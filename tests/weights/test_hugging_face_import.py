"""Hugging Face's directories and files become runs. If a file cannot, a line names its fault."""

import hashlib
import json
import re
import shutil

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import released
from exports import restored, same_run
from gpt1_jax import prepare
from gpt1_jax.errors import UserError
from gpt1_jax.runs import checkpoint, workdir
from gpt1_jax.weights import hugging_face, names, tokenizer_json
from refusal import refusal
from shared import VOCABULARY, needs_vocabulary
from tiny import corpus

pytestmark = pytest.mark.full


@needs_vocabulary
def test_the_released_list_of_shapes_is_the_paper_s_model():
    """Kernels, which the release has as convolutions of width 1, are matrices here."""
    released_shapes = json.loads((VOCABULARY / 'params_shapes.json').read_text())
    ours = names.shapes(
        {'n_ctx': 512, 'vocab_size': 40478, 'n_embd': 768, 'n_inner': 3072, 'n_layer': 12}
    )
    assert [tuple(shape[1:] if len(shape) == 3 else shape) for shape in released_shapes] == list(
        ours.values()
    )
    assert sum(np.prod(shape) for shape in ours.values()) == 116_534_784


@pytest.mark.quick
def test_a_round_trip_is_equal_to_the_bit(pretrained, exported, tmp_path):
    back = hugging_face.convert(exported, tmp_path / 'back')
    assert same_run(pretrained, back)
    hugging_face.export(back.path, tmp_path / 'again')
    for name in ('model.safetensors', 'config.json', 'tokenizer.json'):
        assert (tmp_path / 'again' / name).read_bytes() == (exported / name).read_bytes()


def test_a_repeated_import_does_no_harm_and_other_weights_want_another_directory(
    base, released_run, tmp_path
):
    before = checkpoint.read_meta(released_run.checkpoints, 0)
    again = hugging_face.convert(
        base / 'released', released_run.path, origin='openai-community/openai-gpt'
    )
    assert checkpoint.read_meta(again.checkpoints, 0) == before and again.steps() == [0]
    assert workdir.load(again.path).config == released_run.config == before['config']
    released.write(tmp_path / 'other', seed=1)
    with pytest.raises(
        UserError,
        match=r'holds another run \(the model that was imported has other contents\): use a new '
        r'--workdir',
    ):
        hugging_face.convert(tmp_path / 'other', released_run.path)
    with pytest.raises(UserError, match='gs://b/model: copy the files to this machine first'):
        hugging_face.convert('gs://b/model', 'run')


def test_text_is_prepared_with_the_vocabulary_of_an_export(
    pretrained, exported, tmp_path, monkeypatch
):
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    manifest = prepare.prepare(tmp_path / 'tokens', corpus(tmp_path / 'text'), 0.2, str(exported))
    assert manifest['tokenizer'] == pretrained.tokenizer().fingerprint


def test_what_transformers_saves_is_imported(released_run, base, tmp_path, transformers):
    hugging_face.export(released_run.path, base / 'published')
    transformers.OpenAIGPTLMHeadModel.from_pretrained(base / 'published').save_pretrained(
        tmp_path / 'theirs'
    )
    with pytest.raises(UserError, match='theirs: no vocabulary .*give --tokenizer=DIR'):
        hugging_face.convert(tmp_path / 'theirs', tmp_path / 'back')
    transformers.OpenAIGPTTokenizer.from_pretrained(base / 'published').save_pretrained(
        tmp_path / 'theirs'
    )
    assert same_run(released_run, hugging_face.convert(tmp_path / 'theirs', tmp_path / 'back'))


def test_a_tokenizer_of_ours_that_transformers_saved_names_the_folder_that_is_missing(
    exported, tmp_path
):
    shutil.copytree(exported, tmp_path / 'theirs', ignore=shutil.ignore_patterns('gpt1_jax'))
    assert 'tokenizer.json: the end of a word is None' in (
        message := complaint(tmp_path / 'theirs', tmp_path / 'back')
    )
    assert message.endswith(
        'copy the folder gpt1_jax/ of the export beside this file, or give gpt1 hugging_face '
        '--tokenizer=RUN'
    )


@pytest.mark.parametrize(
    'prefix, dtype',
    [
        ('', np.float32),
        ('transformer.', np.float32),
        ('', np.float16),
        ('transformer.', ml_dtypes.bfloat16),
    ],
)
def test_one_file_is_imported_to_the_bit_with_or_without_the_prefix_and_the_tied_head(
    released_run, base, tmp_path, prefix, dtype
):
    arrays = {
        name: array.astype(dtype)
        for name, array in released.hugging_face(released.arrays()).items()
    }
    more = (
        {'lm_head.weight': arrays['tokens_embed.weight']}
        if prefix
        else {'h.0.attn.bias': np.ones((1, 1, 64, 64), np.float32)}
    )
    file = tmp_path / 'x.safetensors'
    safetensors.numpy.save_file(
        {prefix + name: array for name, array in arrays.items()} | more, file
    )
    back = hugging_face.convert(file, tmp_path / 'run', tokenizer=base / 'released', n_head=4)
    files = back.config['imported']['files']
    assert list(files) == ['x.safetensors', 'encoder_bpe_40000.json', 'vocab_40000.bpe']
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    # By which a repeated import is recognised
    assert back.config['fingerprint']['weights'] == digest
    for name, array in names.from_tree(back.config['model'], restored(back)).items():
        assert (
            array.dtype == np.float32
            and array.tobytes() == arrays[name].astype(np.float32).tobytes()
        ), name
    assert dtype != np.float32 or same_run(released_run, back)


@pytest.mark.parametrize(
    'name, heads',
    [
        ('OpenAIGPTModel', []),
        ('OpenAIGPTForSequenceClassification', ['score.weight']),
        (
            'OpenAIGPTDoubleHeadsModel',
            ['multiple_choice_head.summary.bias', 'multiple_choice_head.summary.weight'],
        ),
    ],
)
def test_the_backbone_of_any_of_transformers_classes_is_taken(
    name, heads, released_run, theirs, tmp_path, transformers
):
    getattr(transformers, name).from_pretrained(theirs).save_pretrained(theirs)
    back = hugging_face.convert(theirs, tmp_path / 'back')
    assert same_run(released_run, back) and sorted(back.config['imported']['left_out']) == heads


def test_rows_of_added_tokens_are_left_out_and_named(released_run, theirs, tmp_path):
    changed('tokens_embed.weight', lambda rows: np.concatenate([rows, rows[:3]]))(
        theirs / 'model.safetensors'
    )
    config({'vocab_size': 75})(theirs / 'model.safetensors')
    assert 'the vocabulary has 72 rows' in complaint(theirs, tmp_path / 'back')
    files = tokenizer_json.files(released_run.tokenizer(), 64, specials=True)
    (theirs / 'tokenizer.json').write_bytes(files['tokenizer.json'])
    back = hugging_face.convert(theirs, tmp_path / 'back')
    assert same_run(released_run, back)
    assert back.config['imported']['left_out'] == [
        'tokens_embed.weight: its last 3 rows, of tokens added to the vocabulary'
    ]


def test_an_exported_classifier_is_refused(classifier, tmp_path):
    for source in (classifier, classifier / 'model.safetensors'):
        assert 'import the model that it was fine-tuned from' in complaint(source, tmp_path / 'run')


# A fault is named in one line, and nothing is written.


def rewritten(change):
    def spoil(path):
        arrays = safetensors.numpy.load_file(path)
        change(arrays)
        safetensors.numpy.save_file(arrays, path)

    return spoil


def changed(name, function):
    def change(arrays):
        arrays[f'transformer.{name}'] = np.ascontiguousarray(
            function(arrays[f'transformer.{name}'])
        )

    return rewritten(change)


LN = 'h.1.ln_1.weight'
WEIGHTS = {
    'missing': (lambda p: p.unlink(), 'No such file or directory'),
    'pickle instead': (
        lambda p: p.rename(p.with_name('pytorch_model.bin')),
        'is a pickle, .* save_pretrained',
    ),
    'pieces': (
        lambda p: p.rename(p.with_name('model.safetensors.index.json')),
        'in several files: .* save_pretrained',
    ),
    'truncated': (lambda p: p.write_bytes(p.read_bytes()[:-4]), 'not a complete safetensors file'),
    'array missing': (rewritten(lambda a: a.pop(f'transformer.{LN}')), f'{LN} is missing'),
    'unknown array': (
        rewritten(lambda a: a.update(extra=np.ones(3, np.float32))),
        r'extra has shape \(3,\), must be absent',
    ),
    'a block too far': (
        rewritten(lambda a: a.update({'h.99999999.x': np.ones(3, np.float32)})),
        'n_layer is 4, config.json has 3',
    ),
    'shape': (changed(LN, lambda x: x[:-1]), rf'{LN} has shape \(23,\), must be \(24,\)'),
    'rank': (
        changed('tokens_embed.weight', lambda x: x[None]),
        'tokens_embed.weight.* has another number of dimensions',
    ),
    'float64': (
        changed(LN, lambda x: x.astype(np.float64)),
        rf'{LN} is F64, must be one of F32, '
        rf'F16, BF16',
    ),
    'not finite': (changed(LN, lambda x: x * np.inf), f'{LN}: holds values that are not finite'),
    'too large': (
        changed(LN, lambda x: x - 1e38),
        f'{LN}: holds values that are not finite, or above',
    ),
    'untied': (
        rewritten(lambda a: a.update({'lm_head.weight': a['transformer.tokens_embed.weight'] + 1})),
        "lm_head.weight differs from tokens_embed.weight, but GPT-1's output layer is tied",
    ),
    'vocabulary': (
        changed('tokens_embed.weight', lambda x: x[:-1]),
        'vocab_size is 71, config.json has 72',
    ),
}


def complaint(theirs, out):
    message = refusal(hugging_face.convert, theirs, out)
    assert message.startswith(str(theirs)) and not out.exists()
    return message


def config(change):
    def spoil(path):
        file = path.with_name('config.json')
        file.write_text(
            change if isinstance(change, str) else json.dumps(json.loads(file.read_text()) | change)
        )

    return spoil


CONFIGS = [
    ('{', 'not JSON'),
    ({'model_type': 'gpt2'}, "model_type is 'gpt2', must be"),
    ({'afn': 'relu'}, "afn is 'relu', must be 'gelu'"),
    ({'layer_norm_epsilon': 1e-6}, 'layer_norm_epsilon is 1e-06'),
    ({'tie_word_embeddings': False}, 'tie_word_embeddings is False, must be True'),
    ({'n_head': '4'}, "n_head is '4', must be a whole number"),
    ({'n_head': 5}, 'model.n_embd = 24 is not a multiple of model.n_head = 5'),
    ({'n_positions': 512}, 'n_positions is 64, config.json has 512'),
    ({'attn_pdrop': 'much'}, "model.attn_dropout is 'much'"),
]
DAMAGES = {
    **{
        name: (spoil, f'(model.safetensors|pytorch_model.bin).*{message}')
        for name, (spoil, message) in WEIGHTS.items()
    },
    **{f'config {i}': (config(change), message) for i, (change, message) in enumerate(CONFIGS)},
}


@pytest.mark.parametrize('case', DAMAGES)
def test_a_damaged_file_is_named(theirs, tmp_path, case):
    spoil, expected = DAMAGES[case]
    spoil(theirs / 'model.safetensors')
    message = complaint(theirs, tmp_path / 'run')
    assert re.search(expected, message), message


def test_a_vocabulary_that_is_damaged_or_of_another_size_is_named(theirs, exported, tmp_path):
    shutil.rmtree(theirs / 'gpt1_jax')
    shutil.copytree(exported / 'gpt1_jax', theirs / 'gpt1_jax')
    message = complaint(theirs, tmp_path / 'run')
    assert (
        'tokenizer.model: the vocabulary has' in message
        and "the weights' token embedding 72" in message
    )
    shutil.rmtree(theirs / 'gpt1_jax')
    (theirs / 'merges.txt').write_text('#version: 0.2\nt h\n')
    assert 'do not belong together' in complaint(theirs, tmp_path / 'run')
    for name in ('merges.txt', 'vocab.json'):
        (theirs / name).unlink()
    for text, cause in (
        (
            '{"model": {"vocab": 3, "merges": [], "end_of_word_suffix": "</w>"}}',
            'must map each piece',
        ),
        ('[', 'not JSON'),
    ):
        (theirs / 'tokenizer.json').write_text(text)
        assert f'tokenizer.json: {cause}' in complaint(theirs, tmp_path / 'run')
    for name, cause in (
        ('pytorch_model.bin', 'is a pickle, which is never read'),
        ('weights.pt', 'not a .safetensors'),
        ('model.safetensors.index.json', 'the weights are in several files'),
    ):
        (tmp_path / name).write_bytes(b'x')
        message = complaint(tmp_path / name, tmp_path / 'run')
        assert f'{name}: {cause}' in message and ': load it with transformers' in message
