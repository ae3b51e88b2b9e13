"""BabyLM's config: at most ten epochs, and checkpoints at the words of the challenge."""

import json

import pytest

from gpt1_jax import pretraining
from gpt1_jax.data import prepared
from gpt1_jax.weights import hugging_face
from tiny import corpus, load_config, override, pretrain_config


@pytest.mark.parametrize('track, last', [('10M', 100), ('100M', 1000)])
def test_revisions_are_those_of_the_challenge(track, last):
    config = load_config('babylm', track)
    millions = [words / 10**6 for words in config.checkpoint.keep_words]
    assert millions[:11] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20] and millions[-1] == last
    assert len(millions) == (19 if track == '10M' else 28) and config.train.epochs == 10


@pytest.mark.full
def test_checkpoints_are_kept_when_so_many_words_are_read(tmp_path):
    text = corpus(tmp_path / 'text')
    config = pretrain_config(
        text,
        model__n_inner=64,
        train__epochs=2,
        checkpoint__keep_latest=1,
        checkpoint__keep_words=(500, 2000, 3000, 10**6),
        checkpoint__every=1000,
    )
    run = pretraining.run(override(config, {'train__steps': None}), tmp_path / 'run')
    train = prepared.read_manifest(tmp_path / 'run' / 'tokens')['splits']['train']
    saved = json.loads((run.path / 'config.json').read_text())['checkpoint']
    per_step = 8 * 16 * train['words'] / train['tokens']
    # Two epochs are not a million words
    assert sorted(saved['words_at'].values()) == [500, 2000, 3000]
    for step, words in saved['words_at'].items():
        assert (int(step) - 1) * per_step < words <= int(step) * per_step
        assert int(step) in run.steps() and int(step) in saved['keep_steps']
    words = sum(len(file.read_text().split()) for file in text.iterdir())
    assert (
        words
        == train['words']
        + prepared.read_manifest(tmp_path / 'run' / 'tokens')['splits']['valid']['words']
    )
    (step,) = (int(step) for step, count in saved['words_at'].items() if count == 2000)
    hugging_face.export(run.path, tmp_path / 'export', step)
    # A finished run
    again = pretraining.run(override(config, {'checkpoint__keep_words': (500,)}), tmp_path / 'run')
    # Those that it has stay
    assert sorted(again.config['checkpoint']['words_at'].values()) == [500, 2000, 3000]
    # Made, but not saved
    late = pretraining.run(override(config, {'checkpoint__keep_words': (1000,)}), tmp_path / 'run')
    assert sorted(late.config['checkpoint']['words_at'].values()) == [500, 2000, 3000]
    assert late.config['checkpoint']['keep_steps'] == again.config['checkpoint']['keep_steps']
