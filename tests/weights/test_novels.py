"""The model that comes with the package, 'novels': what random weights cannot test."""

import numpy as np
import pytest

import gpt1_jax
from gpt1_jax import pretraining
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.weights import from_hub
from tiny import ROOT, load_config, override

NOVELS = ROOT / 'gpt1_jax' / 'weights' / 'novels'

PARAGRAPH = (
    'The old man closed the door behind him and walked slowly down to the river. It was raining, '
    'and there was nobody in the street. He thought of his daughter, who had left the house that '
    'morning without a word.'
)


@pytest.fixture(scope='module')
def novels(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('GPT1_JAX_CACHE', str(tmp_path_factory.mktemp('cache')))
        yield gpt1_jax.load('novels')


def test_its_tokenizer_is_named_as_the_model_is(novels):
    config = override(load_config('pretrain'), {'tokenizer__source': 'novels'})
    config = from_hub.located(config)
    found = Tokenizer.load(pretraining.prepare_config(config.data, config.tokenizer).tokenizer)
    assert found.fingerprint == novels.tokenizer.fingerprint
    assert novels.config['imported']['from'] == 'gpt1_jax: novels'


def test_a_directory_of_its_name_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'novels').mkdir()
    (tmp_path / 'novels' / 'config.json').write_text('{}')
    assert from_hub.source('novels')[0] == NOVELS
    assert str(from_hub.source('./novels')[0]) == 'novels'
    with pytest.raises(UserError, match="^novel: no such directory, did you mean 'novels'?"):
        from_hub.local_run('novel')


def test_it_is_small_and_comes_with_its_card_and_licence():
    assert sum(file.stat().st_size for file in NOVELS.rglob('*') if file.is_file()) < 30e6
    card = (NOVELS / 'README.md').read_text()
    assert 'license: "cc0-1.0"' in card and '/root' not in card


def test_its_perplexity_on_a_paragraph_is_what_it_was(novels):
    assert novels.generate('The old man', tokens=12, temperature=0) == [
        "'s face, and the old man's eyes were fixed on"
    ]
    scored = novels.score(PARAGRAPH)
    assert np.exp(-scored.log_probabilities.mean()) == pytest.approx(15.35, rel=0.01)


@pytest.mark.full
def test_transformers_goes_on_alike(novels):
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    model = transformers.OpenAIGPTLMHeadModel.from_pretrained(NOVELS, dtype=torch.float32)
    ids = novels.encode(PARAGRAPH)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    theirs = [float(logits[i, token]) for i, token in enumerate(ids[1:])]
    np.testing.assert_allclose(novels.score(PARAGRAPH).log_probabilities, theirs, atol=2e-2)
