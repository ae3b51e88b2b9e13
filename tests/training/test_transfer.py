import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import reference
from gpt1_jax.errors import UserError
from gpt1_jax.models import build
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.parallel import sharding
from gpt1_jax.training import transfer
from meshes import init, shapes
from tiny import ROOT

SIZES = dict(vocab_size=7, n_ctx=5, n_embd=8, n_layer=4, n_head=2, n_inner=12)


def tree(seed, **sizes):
    return reference.random_like(shapes(GPT(GPTConfig(**SIZES | sizes))), seed)


@pytest.mark.parametrize('n', [-1, 0, 2, 4])
def test_exactly_n_layers_are_transferred_to_the_bit(n):
    fresh, old = tree(1, n_special=3), tree(2)
    found = jax.device_get(transfer.transfer(fresh, old, n))
    blocks = jax.tree.map(lambda new, old: np.concatenate([old[:max(n, 0)], new[max(n, 0):]]),
                          fresh['blocks'], old['blocks'])
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


@pytest.mark.parametrize('n', [-2, 5])
def test_a_number_of_layers_that_the_model_lacks_is_refused(n):
    with pytest.raises(UserError, match=rf'n_transfer = {n} .* to 4 \(all layers\)'):
        transfer.check_depth(n, 4)
