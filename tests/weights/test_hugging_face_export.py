"""Hugging Face's directories: what transformers makes of an export."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import plain_scores
from exports import MESH, edited, fine_tuned, restored, run_main
from gpt1_jax.data import splits
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned as fine_tuned_lib
from gpt1_jax.evaluation import load
from gpt1_jax.weights import hugging_face
from tiny import WORDS, finetune_config

pytestmark = pytest.mark.full


def test_transformers_loads_an_export_and_gives_its_logits_and_its_greedy_continuation(
    pretrained, exported, transformers
):
    import torch

    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(
        exported, output_loading_info=True
    )
    assert isinstance(theirs, transformers.OpenAIGPTLMHeadModel) and not any(info.values()), info
    theirs.eval()
    params = restored(pretrained)
    ids = np.random.default_rng(0).integers(0, pretrained.config['model']['vocab_size'], 48)
    prompt = 'The cat sat on a mat, while red'
    given = transformers.AutoTokenizer.from_pretrained(exported)(prompt, return_tensors='pt')
    with torch.no_grad():
        expected = theirs(torch.from_numpy(ids)[None]).logits[0].numpy()
        found = theirs.generate(**given, max_new_tokens=20, do_sample=False, pad_token_id=0)[
            0
        ].tolist()
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(plain_scores.logits(params, ids), expected, rtol=1e-5, atol=1e-5)
    ours = pretrained.tokenizer().encode(prompt)
    assert given.input_ids[0].tolist() == ours
    for _ in range(20):
        ours.append(int(plain_scores.logits(params, ours)[-1].argmax()))
    assert found == ours


def test_a_classifier_gives_its_logits_in_transformers(tuned, classifier, transformers):
    import torch

    theirs, info = transformers.OpenAIGPTForSequenceClassification.from_pretrained(
        classifier, output_loading_info=True
    )
    assert not any(info.values()), info
    assert theirs.config.id2label == {0: '0', 1: '1'}
    texts = [' '.join(WORDS[i : i + 2 + i % 3]) for i in range(13)]
    fitted = load.fine_tuned(tuned)
    encoded = splits.encode_all(
        [Example(str(i), (text,)) for i, text in enumerate(texts)],
        fitted.task,
        fitted.tokenizer,
        fitted.n_ctx,
    )
    ours = fine_tuned_lib.logits(
        fitted.model, fitted.mesh, fitted.params, encoded, 16, fitted.sizes
    )
    given = transformers.AutoTokenizer.from_pretrained(classifier)(
        texts, padding=True, return_tensors='pt'
    )
    assert given.input_ids[0][given.attention_mask[0] == 1].tolist() == [*encoded[0].sequences[0]]
    with torch.no_grad():  # of several lengths, so with padding
        found = theirs.eval()(**given).logits.numpy()
    assert np.abs(np.asarray(fitted.params['classifier']['bias'])).min() > 0.01 and ours.std() > 0.1
    np.testing.assert_allclose(found, ours, rtol=1e-5, atol=1e-5)


@pytest.mark.slow  # another program to compile for three lines
def test_a_score_becomes_a_regression(released_run, tmp_path):
    config = finetune_config('custom:rating', tmp_path, custom__score=(1, 6.5))
    hugging_face.export(fine_tuned(tmp_path / 'run', config, released_run).path, tmp_path / 'out')
    found = json.loads((tmp_path / 'out' / 'config.json').read_text())
    assert found['problem_type'] == 'regression' and found['id2label'] == {'0': 'score'}
    assert 'The prediction is 1 + 5.5 x the logit.' in (tmp_path / 'out' / 'README.md').read_text()


@pytest.mark.parametrize(
    'which, change, message',
    [
        (
            'tuned',
            lambda c: c.update(task='mrpc'),
            r'head of mrpc \(similarity\) reads several '
            r'sequences',
        ),
        (
            'tuned',
            lambda c: c.update(task='race'),
            r'head of race \(choice\) reads several sequences',
        ),
        (
            'pretrained',
            lambda c: c['model'].update(n_inner=32),
            'n_inner is 32, OpenAIGPT always has 64',
        ),
        (
            'pretrained',
            lambda c: c.update(
                model={'kind': 'lstm', 'n_units': 16, 'n_ctx': 48, 'vocab_size': 300}
            ),
            "model.kind is 'lstm', and transformers has only the GPT",
        ),
    ],
    ids=['similarity', 'choice', 'width', 'lstm'],
)
def test_a_run_without_a_class_in_transformers_is_refused(
    which, change, message, request, tmp_path
):
    run = edited(request.getfixturevalue(which), tmp_path / 'run', change)
    with pytest.raises(UserError, match=f'run: cannot be exported: .*{message}') as caught:
        hugging_face.export(run, tmp_path / 'out')
    assert str(caught.value).isprintable() and not (tmp_path / 'out').exists()


def test_a_directory_with_other_files_is_left_alone_and_an_export_is_replaced(
    pretrained, exported, tmp_path
):
    (tmp_path / 'thesis.txt').write_text('mine')
    with pytest.raises(UserError, match='holds other files'):
        hugging_face.export(pretrained.path, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ['thesis.txt']
    before = {p: p.read_bytes() for p in exported.rglob('*') if p.is_file()}
    hugging_face.export(pretrained.path, exported)
    assert {p: p.read_bytes() for p in exported.rglob('*') if p.is_file()} == before


def test_an_export_in_bfloat16_is_half_as_large_and_holds_the_rounded_weights(
    pretrained, exported, tmp_path, monkeypatch, capsys
):
    run_main(
        monkeypatch,
        export=str(pretrained.path),
        out=str(tmp_path / 'half'),
        step=4,
        dtype='bfloat16',
        license='mit',
    )
    assert 'model.safetensors' in capsys.readouterr().out
    assert (tmp_path / 'half' / 'README.md').read_text().startswith('---\nlicense: "mit"\n')
    sizes = [
        (directory / 'model.safetensors').stat().st_size
        for directory in (tmp_path / 'half', exported)
    ]
    assert 0.5 * sizes[1] <= sizes[0] < 0.6 * sizes[1]
    back = hugging_face.convert(tmp_path / 'half', tmp_path / 'run')
    before, after = (load.pretrained(*which, MESH)[1] for which in ((pretrained, 4), (back, 0)))
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(np.asarray(a.astype(jnp.bfloat16), np.float32), np.asarray(b))
