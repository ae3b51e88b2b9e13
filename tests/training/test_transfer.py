import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import reference
from gpt1_jax.models import build
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.parallel import sharding
from gpt1_jax.training import transfer
from meshes import init, shapes
from tiny import ROOT, load_config

SIZES = dict(vocab_size=7, n_ctx=5, n_embd=8, n_layer=4, n_head=2, n_inner=12)


def tree(seed, **sizes):
    return reference.random_like(shapes(GPT(GPTConfig(**SIZES | sizes))), seed)


@pytest.mark.parametrize('n', [-1, 0, 2, 4])
def test_exactly_n_layers_are_transferred_to_the_bit(n):
    fresh = tree(1, n_special=3)
    old = tree(2)
    found = jax.device_get(transfer.transfer(fresh, old, n))
    blocks = jax.tree.map(
        lambda new, old: np.concatenate([old[: max(n, 0)], new[max(n, 0) :]]),
        fresh['blocks'],
        old['blocks'],
    )
    embed = (old if n >= 0 else fresh)['embed'] | {'specials': fresh['embed']['specials']}
    jax.tree.map(np.testing.assert_array_equal, found, {'embed': embed, 'blocks': blocks})


@pytest.mark.parametrize('n', [3, 4])
def test_a_last_layer_norm_is_transferred_with_the_last_block(trusted_code, n):
    fields = SIZES | {'kind': f'{ROOT}/experiments/ideas/pre_norm.py:PreNorm'}
    old = reference.random_like(shapes(build.backbone(fields)), 1)
    tuned = TaskModel(build.backbone(fields | {'n_special': 3}), 'classify', 2)
    fresh = init(tuned, 1)(0)['backbone']
    found = transfer.transfer(fresh, old, n)
    source = old if n == 4 else fresh
    for name in ('scale', 'bias'):
        np.testing.assert_array_equal(found['ln_f'][name], source['ln_f'][name])
    assert sharding.shardings(found, sharding.make_mesh())['ln_f']['scale'].spec == P()


# Training rows of the paper's twelve sets as published; Story Cloze's as the released code splits
# them.
PUBLISHED = {
    'mnli': 392702,
    'snli': 549367,
    'scitail': 23596,
    'qnli': 104743,
    'rte': 2490,
    'race': 87866,
    'story_cloze': 1497,
    'cola': 8551,
    'sst2': 67349,
    'mrpc': 3668,
    'stsb': 5749,
    'qqp': 363846,
}


def test_the_papers_sets_have_three_epochs_and_all_but_two_are_padded_to_twelve_lengths():
    size = load_config('finetune').batch.size
    steps = {task: rows // size for task, rows in PUBLISHED.items()}
    assert {transfer.epochs(n) for n in steps.values()} == {3}
    fewer = {'rte': 6, 'story_cloze': 6}
    assert {task: transfer.lengths(3 * n) for task, n in steps.items()} == dict.fromkeys(
        PUBLISHED, 12
    ) | fewer


def test_few_rows_are_read_until_there_are_a_hundred_updates():
    assert [transfer.epochs(steps) for steps in (1, 6, 33, 34)] == [100, 17, 4, 3]


def test_the_rate_is_the_papers_at_its_width_and_rises_to_a_thousandth_at_smaller_ones():
    # 2,048: the LSTM of Table 5
    assert transfer.peak_rate(768) == transfer.peak_rate(2048) == 6.25e-5
    assert transfer.peak_rate(384) == pytest.approx(2.5e-4)
    assert [transfer.peak_rate(width) for width in (128, 32)] == [1e-3, 1e-3]
