"""A run directory whose tokenizer, weights and config do not belong together is named, whoever
reads it."""

import re
import shutil

import pytest

import gpt1_jax
from exports import edited
from gpt1_jax import finetuning, perplexity, predict, pretraining
from gpt1_jax.data import bpe_training
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import workdir
from tiny import cola, corpus, finetune_config, pretrain_config

pytestmark = pytest.mark.full


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    """gpt1, a pretrained run; tuned, fine-tuned from it; other_gpt1 and other_tuned, the same with
    another seed; cola, a data set."""
    base = tmp_path_factory.mktemp('mixed')
    corpus(base / 'text')
    cola(base / 'cola')
    for other, seed in (('', 0), ('other_', 1)):
        pretraining.run(text_config(base, seed=seed), base / f'{other}gpt1')
        finetuning.run(tuning(base, seed=seed), base / f'{other}tuned')
    return base


def text_config(base, **overrides):
    return pretrain_config(
        base / 'text',
        model__n_ctx=64,
        model__n_inner=64,
        train__steps=2,
        checkpoint__every=1,
        **overrides,
    )


def tuning(base, **overrides):
    return finetune_config(
        'cola', base / 'cola', **{'init_from': str(base / 'gpt1'), 'train__epochs': 1} | overrides
    )


READERS = [
    ('gpt1', lambda base, run: gpt1_jax.load(run)),
    ('gpt1', lambda base, run: perplexity.evaluate(run, str(base / 'text'))),
    (
        'gpt1',
        lambda base, run: finetuning.run(tuning(base, init_from=str(run)), run.parent / 'new'),
    ),
    ('gpt1', lambda base, run: pretraining.run(text_config(base), run)),
    ('tuned', lambda base, run: gpt1_jax.load(run)),
    ('tuned', lambda base, run: predict.run(run, base / 'cola' / 'dev.tsv', run.parent / 'out')),
    ('tuned', lambda base, run: fine_tuned.evaluate_run(workdir.load(run), 'dev')),
]


def another_tokenizer(base, run):
    shutil.rmtree(run / 'tokenizer')
    bpe_training.train(
        ['the cat sat on a mat while red dogs ran over green hills'] * 5, merges=20
    ).save(run / 'tokenizer')


def other_checkpoints(base, run):
    shutil.rmtree(run / 'checkpoints')
    shutil.copytree(base / f'other_{run.name}' / 'checkpoints', run / 'checkpoints')


@pytest.mark.parametrize(
    'spoil, message',
    [
        (another_tokenizer, '^{run}/tokenizer: is '),
        (
            other_checkpoints,
            r"^{run}/checkpoints/[0-9]+: is not this run's checkpoint, or config.json "
            r'was edited '
            r'\(seed: 1 -> 0\)$',
        ),
    ],
)
@pytest.mark.parametrize('kind, read', READERS)
def test_another_run_s_tokenizer_or_checkpoints_are_refused(
    kind, read, spoil, message, base, tmp_path
):
    run = shutil.copytree(base / kind, tmp_path / kind)
    spoil(base, run)
    with pytest.raises(UserError, match=message.replace('{run}', re.escape(str(run)))):
        read(base, run)


def test_a_number_of_heads_that_no_shape_tells_is_compared(base, tmp_path):
    run = edited(
        workdir.load(base / 'gpt1'),
        tmp_path / 'gpt1',
        lambda config: config['model'].update(n_head=2),
    )
    with pytest.raises(UserError, match=r'checkpoints/2: is not .* \(model.n_head: 4 -> 2\)$'):
        gpt1_jax.load(run)
