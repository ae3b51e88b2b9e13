"""A run directory whose tokenizer, weights and config do not belong together is named, whoever reads it."""
import json
import re
import shutil

import pytest

import gpt1_jax
from gpt1_jax import finetune, perplexity, predict, pretrain, zero_shot
from gpt1_jax.data import bpe_training
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import workdir
from gpt1_jax.weights import hugging_face
from tiny import cola, corpus, finetune_config, load_config, override, pretrain_config

pytestmark = pytest.mark.full


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    """gpt1, a pretrained run; tuned, fine-tuned from it; other_gpt1 and other_tuned, the same with another seed; cola,
    a data set."""
    base = tmp_path_factory.mktemp('mixed')
    small = dict(model__n_ctx=64, model__n_inner=64, train__steps=2, checkpoint__every=1)
    for name, seed in (('gpt1', 0), ('other_gpt1', 1)):
        config = pretrain_config(corpus(base / f'text_{name}'), seed=seed, **small)
        pretrain.run(config, base / name)
    cola(base / 'cola')
    finetune.run(tuning(base), base / 'tuned')
    finetune.run(tuning(base, seed=1), base / 'other_tuned')
    return base


def tuning(base, **overrides):
    return finetune_config('cola', base / 'cola', **{'init_from': str(base / 'gpt1'), 'train__epochs': 1} | overrides)


READERS = {
    'load': (('gpt1', 'tuned'), lambda base, run: gpt1_jax.load(run)),
    'perplexity': (('gpt1',), lambda base, run: perplexity.evaluate(run, sentence='The cat sat.')),
    'zero-shot': (('gpt1',), lambda base, run: zero_shot.run(override(load_config('zero_shot', 'cola'), {
        'init_from': str(run), 'data__dir': str(base / 'cola')}))),
    'init_from': (('gpt1',), lambda base, run: finetune.run(tuning(base, init_from=str(run)), run.parent / 'new')),
    'export': (('gpt1', 'tuned'), lambda base, run: hugging_face.export(run, run.parent / 'exported')),
    'predict': (('tuned',), lambda base, run: predict.run(run, base / 'cola' / 'dev.tsv', run.parent / 'out')),
    'evaluate': (('tuned',), lambda base, run: fine_tuned.evaluate_run(workdir.load(run), 'dev')),
    'resume': (('gpt1',), lambda base, run: pretrain.run(pretrain_config(
        base / 'text_gpt1', model__n_ctx=64, model__n_inner=64, train__steps=2, checkpoint__every=1), run)),
    'resume tuning': (('tuned',), lambda base, run: finetune.run(tuning(base), run))}
CASES = [pytest.param(kind, read, id=f'{name} {kind}') for name, (kinds, read) in READERS.items() for kind in kinds]


@pytest.fixture
def copied(base, tmp_path):
    """Gives a function: name of a run -> a copy of it."""
    return lambda name: shutil.copytree(base / name, tmp_path / name)


def another_tokenizer(run, merges):
    shutil.rmtree(run / 'tokenizer')
    made = bpe_training.train(['the cat sat on a mat while red dogs ran over green hills'] * 5, merges=merges)
    made.save(run / 'tokenizer')


@pytest.mark.parametrize('kind, read', CASES)
def test_another_run_s_tokenizer_is_refused(kind, read, base, copied):
    run = copied(kind)
    another_tokenizer(run, 20)
    with pytest.raises(UserError, match=f'^{re.escape(str(run))}/tokenizer: is '):
        read(base, run)


@pytest.mark.parametrize('kind, read', CASES)
def test_another_run_s_checkpoints_are_refused(kind, read, base, copied):
    run = copied(kind)
    shutil.rmtree(run / 'checkpoints')
    shutil.copytree(base / f'other_{kind}' / 'checkpoints', run / 'checkpoints')
    with pytest.raises(UserError, match=f"{kind}/checkpoints/[0-9]+: is not this run's checkpoint, or config.json was "
                                        r'edited \(seed: 1 -> 0\)$'):
        read(base, run)


def test_a_number_of_heads_that_no_shape_tells_is_compared(copied):
    run = copied('gpt1')
    config = json.loads((run / 'config.json').read_text())
    config['model']['n_head'] = 2
    (run / 'config.json').write_text(json.dumps(config))
    with pytest.raises(UserError, match=r'checkpoints/2: is not .* \(model.n_head: 4 -> 2\)$'):
        gpt1_jax.load(run)
