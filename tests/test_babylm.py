"""BabyLM's config: at most ten epochs, and checkpoints at the words of the challenge."""

import json

import pytest

from gpt1_jax import pretraining
from gpt1_jax.data import prepared
from tiny import corpus, load_config, override, pretrain_config


@pytest.mark.parametrize(
    'track, words', [('10M', range(20, 101, 10)), ('100M', range(20, 101, 10))]
)
def test_revisions_are_those_of_the_challenge(track, words):
    config = load_config('babylm', track)
    millions = [*range(1, 11), *words, *(range(200, 1001, 100) if track == '100M' else ())]
    assert [*config.checkpoint.keep_words] == [n * 10**6 for n in millions]
    assert config.train.epochs == 10


@pytest.mark.full
def test_checkpoints_are_kept_when_so_many_words_are_read(tmp_path):
    text = corpus(tmp_path / 'text')
    small = {'model__n_inner': 64, 'checkpoint__keep_latest': 1, 'checkpoint__every': 1000}

    def run(*words):
        config = pretrain_config(text, checkpoint__keep_words=words, **small)
        override(config, {'train__steps': None, 'train__epochs': 2})
        return pretraining.run(config, tmp_path / 'run')

    # Two epochs are not a million words
    first = run(500, 2000, 3000, 10**6)
    saved = json.loads((first.path / 'config.json').read_text())['checkpoint']
    train = prepared.read_manifest(first.path / 'tokens')['splits']['train']
    per_step = 8 * 16 * train['words'] / train['tokens']
    assert sorted(saved['words_at'].values()) == [500, 2000, 3000]
    for step, words in saved['words_at'].items():
        assert (int(step) - 1) * per_step < words <= int(step) * per_step
        assert int(step) in first.steps() and int(step) in saved['keep_steps']
    # A finished run keeps those that it has, and those that were made, but not saved, are gone
    for words in (500, 1000):
        assert run(words).config['checkpoint']['words_at'].keys() == saved['words_at'].keys()
