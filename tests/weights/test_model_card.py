"""The card of an exported model: what it says, and what it calls a departure from the recipe."""
import pathlib

import pytest

from exports import TOKENS, digest, edited
from gpt1_jax.runs import workdir
from gpt1_jax.weights import hugging_face, model_card
from tiny import load_config, override

pytestmark = pytest.mark.full


def run_of(kind, config, vocab_size):
    model = {name: value for name, value in config.model.to_dict().items() if name != 'n_units' and value is not None}
    model['vocab_size'] = vocab_size
    return workdir.Run(pathlib.Path('run'), config.to_dict() | {'kind': kind, 'model': model})


@pytest.mark.quick
@pytest.mark.parametrize('kind', ['pretrain', 'finetune'])
def test_the_paper_s_configs_depart_from_nothing(kind):
    found = model_card.deviations(run_of(kind, load_config(kind), 40478))
    assert [line for line in found if 'BooksCorpus' not in line] == [] and len(found) == (kind == 'pretrain')
    assert {'model.n_layer', 'optimizer.b2', 'batch.size', 'train.epochs'} <= model_card.defaults(kind).keys()


@pytest.mark.parametrize('kind, change, vocab_size, line', [
    ('pretrain', {'batch__size': 8}, 40478, 'batch.size is 8, in the paper 64'),
    ('pretrain', {'train__steps': 100}, 40478, 'train.steps is 100, in the paper 100 epochs'),
    ('pretrain', {'optimizer__clip': 0.0}, 40478, 'optimizer.clip is 0.0, in the paper 1.0'),
    ('pretrain', {}, 300, 'the vocabulary has 300 rows, in the paper 40,478'),
    ('finetune', {'lm_weight': 0.0}, 40478, 'lm_weight is 0.0, in the paper 0.5'),
    ('finetune', {'optimizer__peak_rate': 1e-3}, 40478, 'optimizer.peak_rate is 0.001, in the paper 6.25e-05')])
def test_a_departure_is_listed(kind, change, vocab_size, line):
    assert line in model_card.deviations(run_of(kind, override(load_config(kind), change), vocab_size))


def test_the_model_card_of_a_pretrained_run(exported):
    card = (exported / 'README.md').read_text()
    assert card.startswith('---\nlicense: "other"\n')
    for line in (f'corpus: `books`, hash of its tokens `{TOKENS}`', 'tokens seen: 1,536 (4 steps of 8 x 48)',
                 '* batch.size is 8, in the paper 64', '* model.n_layer is 2, in the paper 12',
                 'in the paper BooksCorpus', '* valid_perplexity 87.5', 'trained by gpt1_jax', 'trained with: jax ',
                 'not chosen yet', 'which OpenAIGPTTokenizer cannot'):
        assert line in card, line
    assert 'MIT License' not in card  # nothing published is in it
    assert 'valid_perplexity 90' not in card  # of another step


@pytest.mark.parametrize('place, origin, line', [
    ('', None, '* before this run, tokens seen: 1,536 (4 steps of 8 x 48)'),
    ('gone', None, '* before this run: weights of another run, with the tokens seen by it'),
    ('', 'of step 2', '* before this run: weights of another run, with the tokens seen by it')])
def test_the_card_of_a_run_that_began_with_other_weights_states_their_tokens(
        pretrained, tmp_path, place, origin, line):
    config = {'init_from': str(pretrained.path / place), 'init_step': None}
    other = edited(pretrained, tmp_path / 'run', lambda c: (c.update(config), c['fingerprint'].update(origin=origin)))
    hugging_face.export(other, tmp_path / 'out')
    card = (tmp_path / 'out' / 'README.md').read_text()
    assert line in card and '* training began with the weights above, in the paper with random ones' in card
    assert str(pretrained.path) not in card  # a path tells nobody anything


def test_the_model_card_of_a_classifier(pretrained, released_run, tuned, classifier, tmp_path):
    card = (classifier / 'README.md').read_text()
    files = 'imported from openai/finetune-transformer-lm, SHA-256 of its files params_shapes.json `'
    for line in ('license: "apache-2.0"', 'fine-tuned on cola', 'pipeline_tag: "text-classification"',
                 f'weights of digest `{digest(released_run)}`', f'pretraining weights: {files}',
                 'pretraining corpus and tokens seen: not recorded with the weights', 'train.tsv `0123',
                 'cola, dev, finetune: matthews 0.25', 'bias is folded into the bias of the last LayerNorm',
                 'Copyright (c) 2018 OpenAI'):
        assert line in card, line
    assert 'matthews 0.75' not in card  # of other parameters
    for place, seen in ((str(pretrained.path), True), (str(tmp_path / 'gone'), False)):
        other = edited(tuned, tmp_path / f'run{seen}', lambda c: (
            c.update(init_from=place), c['fingerprint'].update(origin=digest(pretrained))))
        hugging_face.export(other, tmp_path / f'out{seen}')
        card = (tmp_path / f'out{seen}' / 'README.md').read_text()
        assert digest(pretrained) in card and ('pretraining tokens seen: 1,536' in card) == seen


def test_the_card_of_imported_weights_carries_the_notice_of_their_vocabulary(theirs):
    card = (theirs / 'README.md').read_text()
    assert 'Copyright (c) 2018 OpenAI' in card and 'openai/finetune-transformer-lm' in card
    assert 'corpus and tokens seen: not recorded with the weights' in card and 'BooksCorpus, which' not in card
    assert 'trained with' not in card
