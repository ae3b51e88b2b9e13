"""The kernel of tpu_attention compiled for TPUs that are not here, where the compiler for them is installed (the extra
tpu-compile)."""
import importlib.util

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from experiments.compile import chips, hlo
from gpt1_jax.models import dropout
from gpt1_jax.models.fast import table
from gpt1_jax.models.gpt import GPTConfig
from gpt1_jax.parallel import sharding

pytestmark = [pytest.mark.full,
              pytest.mark.skipif(importlib.util.find_spec('libtpu') is None, reason='no TPU compiler')]


def compiled(topology, sizes, B, L, H, E):
    """The HLO text of attention and its gradient, chosen by 'auto', of arrays that lie on a mesh as the model's do."""
    mesh = sharding.make_mesh(*sizes, devices=chips.devices(topology))

    def on_mesh(shape, *axes, dtype='bfloat16'):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*axes)))

    def both(step, qkv, d_out):
        drop = dropout.Dropout(dropout.Key(jnp.uint32(7), step)).at(dropout.ATTENTION, 0.1)
        out, gradient = jax.vjp(lambda qkv: table.ops(GPTConfig()).attention(qkv, drop), qkv)
        return out, gradient(d_out)
    rows = ('data', 'fsdp')
    arguments = (on_mesh((), dtype='uint32'), on_mesh((B, L, 3, H, E), rows, None, None, 'tensor'),
                 on_mesh((B, L, H, E), rows, None, 'tensor'))
    with jax.set_mesh(mesh):
        return jax.jit(both).trace(*arguments).lower(lowering_platforms=('tpu',)).compile().as_text()


@pytest.mark.parametrize('topology, sizes, B, L, H, E', [
    ('v5e:1x1', (1, 1, 1), 2, 512, 12, 64), ('v5e:2x2', (1, 4, 1), 4, 1024, 2, 64),
    ('v5e:2x2', (2, 1, 2), 4, 100, 6, 64), ('v6e:2x2', (4, 1, 1), 4, 512, 2, 128),
    ('v5p:2x2x1', (4, 1, 1), 4, 500, 2, 256), ('v4:2x2x1', (2, 2, 1), 4, 512, 4, 64)], ids=str)
def test_two_kernels_run_and_no_activation_is_exchanged_around_them(topology, sizes, B, L, H, E):
    text = compiled(topology, sizes, B, L, H, E)
    assert text.count('custom_call_target="tpu_custom_call"') == 2
    assert hlo.collectives(text, 4) == []
