"""The kernels compiled for H200s and TPUs that are not here, where the compilers for them are
installed (the extras cuda-compile and tpu-compile)."""

import importlib.util
import pathlib
import re
import subprocess

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from experiments.compile import chips, hlo
from gpt1_jax.models import dropout
from gpt1_jax.models.fast import gpu_attention, gpu_cross_entropy, gpu_residual_norm, table
from gpt1_jax.models.gpt import GPTConfig
from gpt1_jax.parallel import sharding

pytestmark = pytest.mark.full
for_h200s = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ('jax_cuda12_plugin', 'jax_cuda13_plugin'))),
    reason='no CUDA plugin',
)
for_tpus = pytest.mark.skipif(importlib.util.find_spec('libtpu') is None, reason='no TPU compiler')

B = 8
L = 256
H = 4
E = 64
D = 768
R = 40478
ROWS = ('data', 'fsdp')


def loss(hidden, rows, drop):
    return gpu_cross_entropy.cross_entropy(hidden, rows, jnp.arange(len(hidden)), hidden.dtype)


KERNELS = {
    'attention': gpu_attention.flash_attention,
    'norm': gpu_residual_norm.add_and_norm,
    'loss': loss,
}
# How many kernels each is with its gradients, and how many bytes of gradients of parameters devices
# add up.
COUNT = {'attention': 2, 'norm': 2, 'loss': 1}
EXCHANGED = {'attention': 0, 'norm': 2 * 4 * D, 'loss': 2 * (R + 98) * D}


def arrays(name, B, L, H, E):
    """(shape, dtype, how it lies on a mesh) of the arguments and of the gradient of the result, as
    the model's do."""
    if name == 'attention':
        return [
            ((B, L, 3, H, E), 'bfloat16', P(ROWS, None, None, 'tensor')),
            ((B, L, H, E), 'bfloat16', P(ROWS, None, 'tensor')),
        ]
    if name == 'loss':
        return [
            ((B * L, D), 'bfloat16', P(ROWS)),
            ((R, D), 'bfloat16', P()),
            ((B * L,), 'float32', P(ROWS)),
        ]
    whole = ((B, L, D), 'bfloat16', P(ROWS))
    gain = ((D,), 'float32', P())
    return [whole, whole, gain, gain, whole]


def compiled(name, function, mesh, sizes=(B, L, H, E), platform='cuda', **options):
    """The HLO text of an operation's result and gradients."""
    *arguments, result = (
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, place))
        for shape, dtype, place in arrays(name, *sizes)
    )

    def both(step, dy, *values):
        drop = dropout.Dropout(dropout.Key(jnp.uint32(7), step)).at(dropout.ATTENTION, 0.1)
        y, gradient = jax.vjp(lambda *values: function(*values, drop), *values)
        return y, gradient(dy)

    step = jax.ShapeDtypeStruct((), jnp.uint32, sharding=NamedSharding(mesh, P()))
    with jax.set_mesh(mesh):
        lowered = (
            jax.jit(both).trace(step, result, *arguments).lower(lowering_platforms=(platform,))
        )
    return lowered.compile(compiler_options=options).as_text()


@for_tpus
@pytest.mark.parametrize(
    'topology, mesh, sizes',
    [
        ('v5e:1x1', (1, 1, 1), (2, 512, 12, 64)),
        ('v5e:2x2', (1, 4, 1), (4, 1024, 2, 64)),
        ('v5e:2x2', (2, 1, 2), (4, 100, 6, 64)),
        ('v6e:2x2', (4, 1, 1), (4, 512, 2, 128)),
        ('v5p:2x2x1', (4, 1, 1), (4, 500, 2, 256)),
        ('v4:2x2x1', (2, 2, 1), (4, 512, 4, 64)),
    ],
    ids=str,
)
def test_for_tpus_auto_is_two_kernels_and_no_activation_is_exchanged_around_them(
    topology, mesh, sizes
):
    mesh = sharding.make_mesh(*mesh, devices=chips.devices(topology))
    with jax.set_mesh(mesh):  # whose device decides
        attention = table.ops(GPTConfig()).attention
    text = compiled('attention', attention, mesh, sizes, 'tpu')
    assert text.count('custom_call_target="tpu_custom_call"') == 2
    assert hlo.collectives(text, 4) == []


@for_h200s
@pytest.mark.parametrize('sizes', [(1, 4, 1), (2, 1, 2)], ids=str)
@pytest.mark.parametrize('name', KERNELS)
def test_for_four_h200s_no_activation_is_exchanged_around_a_kernel(name, sizes):
    text = compiled(
        name, KERNELS[name], sharding.make_mesh(*sizes, devices=chips.devices('h200:4'))
    )
    assert text.count('custom_call_target="__gpu$xla.gpu.triton"') == COUNT[name]
    exchanged = hlo.collectives(text, 4)
    assert all(one.kind == 'all-reduce' for one in exchanged)
    assert sum(one.bytes for one in exchanged) <= EXCHANGED[name]


@for_h200s
@pytest.mark.parametrize('name', KERNELS)
def test_for_an_h200_no_register_is_spilled_and_no_product_serialised(name, tmp_path):
    nvidia = pathlib.Path(importlib.util.find_spec('nvidia').submodule_search_locations[0])
    ptxas = next(nvidia.rglob('bin/ptxas'), None)
    if ptxas is None:
        pytest.skip('no ptxas')
    if jax.__version_info__ >= (0, 11):
        pytest.skip('its XLA dumps no PTX')
    compiled(
        name,
        KERNELS[name],
        sharding.make_mesh(devices=chips.devices('h200:1')),
        xla_dump_to=str(tmp_path),
        xla_backend_optimization_level=3,
    )  # conftest turns it off
    said = {}
    for file in tmp_path.glob('*.ptx'):
        kernel = re.search(r'\.entry (_(?:forward|backward|loss)_kernel)', file.read_text())
        if kernel:
            said[kernel[1]] = subprocess.run(
                [ptxas, '-v', '-arch=sm_90a', file, '-o', tmp_path / 'cubin'],
                text=True,
                check=True,
                capture_output=True,
            ).stderr
    assert len(said) == COUNT[name]
    for text in said.values():
        assert '0 bytes spill stores, 0 bytes spill loads' in text and 'serialized' not in text
